package algorithm

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

var benchLimits = []struct {
	name  string
	limit Limit
}{
	{"fixed_window", Limit{Requests: 1000, WindowUS: second}},
	{"sliding_window_counter", Limit{Kind: SlidingWindowCounter, Requests: 1000, WindowUS: second}},
	{"token_bucket", Limit{Kind: TokenBucket, Requests: 1000, WindowUS: second}},
	{"leaky_bucket", Limit{Kind: LeakyBucket, Requests: 3, WindowUS: second}},
	{"exact_log", Limit{Kind: SlidingWindowLog, Requests: 100, WindowUS: second}},
	{"ring", Limit{Kind: SlidingWindowLog, Requests: 1000, WindowUS: second}},
	{"concurrency", Limit{Kind: Concurrency, Requests: 1000}},
}

// leaseNames are made beforehand: making an id is not the algorithm's work.
var leaseNames = func() (names [2048]string) {
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}()

// driver spends one hit each 500 µs and gives every second one back.
func driver(t testing.TB, l Limit) func() {
	s := mustSpec(t, l)
	st := &State{}
	now, i := 1_700_000_000*second, 0
	return func() {
		now += 500
		i++
		ask := Ask{Cost: 1, Lease: leaseNames[i/2%len(leaseNames)]}
		if i%2 == 0 {
			ask.Mode = Refund
		}
		s.Apply(st, now, ask)
	}
}

// TestAllocations: a key in use costs no garbage, whatever its algorithm. Logs
// and leases allocate while they grow, so they are warmed up first.
func TestAllocations(t *testing.T) {
	for _, b := range benchLimits {
		t.Run(b.name, func(t *testing.T) {
			step := driver(t, b.limit)
			for range 10_000 {
				step()
			}
			require.Zero(t, testing.AllocsPerRun(10_000, step))
		})
	}
}

func BenchmarkApply(b *testing.B) {
	for _, l := range benchLimits {
		b.Run(l.name+"/allow", func(b *testing.B) {
			step := driver(b, l.limit)
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
		})
		b.Run(l.name+"/deny", func(b *testing.B) {
			s := mustSpec(b, l.limit)
			st := &State{}
			now := 1_700_000_000 * second
			for i := range s.Requests {
				s.Apply(st, now+i, Ask{Cost: 1, Lease: leaseNames[i]})
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Apply(st, now, Ask{Cost: 1, Lease: "late"})
			}
		})
	}
}
