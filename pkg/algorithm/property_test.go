package algorithm

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func mustSpec(t testing.TB, l Limit) *Spec {
	t.Helper()
	s, err := NewSpec(l)
	require.NoError(t, err)
	return s
}

// TestLogNeverAboveLimit checks the promise of both logs: in no window of the
// limit's length are more hits admitted than the limit.
func TestLogNeverAboveLimit(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"exact_log", "ring"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(2, 2))
			for range 1500 {
				s := randomSpec(rnd, form)
				var st State
				var admitted []entry
				now := int64(1_700_000_000_000_000)
				for range 60 {
					cost := 1 + logUniform(rnd, s.Requests)
					if d := s.Apply(&st, now, Ask{Mode: TakeUpTo, Cost: cost}); d.Taken > 0 && !s.PostPaid {
						admitted = append(admitted, entry{now, d.Taken})
					}
					now += logUniform(rnd, s.WindowUS/4)
				}
				for i, last := range admitted {
					sum := int64(0)
					for _, e := range admitted[:i+1] {
						if e.atUS > last.atUS-s.WindowUS {
							sum += e.hits
						}
					}
					require.LessOrEqual(t, sum, s.Requests, "%+v", s.Limit)
				}
			}
		})
	}
}

// TestMeterIsQueue checks that the leaky bucket admits what a queue of its rate
// with a longest wait of (burst − cost) intervals admits, and that the queue's
// numbers can be read from the decision.
func TestMeterIsQueue(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 3))
	for range 500 {
		burst := 1 + rnd.Int64N(20)
		interval := 1000 * (1 + rnd.Int64N(1000)) // divides the window
		s := mustSpec(t, Limit{Kind: LeakyBucket, Requests: 10, WindowUS: 10 * interval, Burst: burst})
		var st State
		now, next := int64(1_700_000_000_000_000), int64(0)
		for range 100 {
			cost := 1 + rnd.Int64N(burst)
			start := max(now, next)
			wait, longest := start-now, interval*(burst-cost)
			d := s.Apply(&st, now, Ask{Cost: cost})
			require.Equal(t, wait <= longest, d.Allowed)
			if d.Allowed {
				next = start + cost*interval
				require.Equal(t, wait, d.ResetAfterUS-cost*interval, "time until its place begins")
			} else {
				require.Equal(t, wait-longest, d.RetryAfterUS)
			}
			now += rnd.Int64N(2 * interval)
		}
	}
}

// TestLeasesAgainstModel compares with a plain map of holders.
func TestLeasesAgainstModel(t *testing.T) {
	t.Parallel()
	type held struct{ end, places int64 }
	rnd := rand.New(rand.NewPCG(4, 4))
	for sequence := range 500 {
		s := mustSpec(t, Limit{Kind: Concurrency, Requests: rnd.Int64N(20), LeaseTTLUS: 1000 * (1 + logUniform(rnd, 100_000))})
		var st State
		holders := map[string]held{}
		now := int64(1_700_000_000_000_000)
		for step := range 200 {
			total := int64(0)
			for id, h := range holders {
				if h.end <= now {
					delete(holders, id)
				} else {
					total += h.places
				}
			}
			ask := Ask{Mode: Mode(rnd.IntN(5)), Cost: rnd.Int64N(4), Lease: "lease-" + strconv.Itoa(rnd.IntN(25))}
			if rnd.IntN(10) == 0 {
				ask.Lease = ""
			}
			h, own := holders[ask.Lease]
			want := Decision{Allowed: true, Used: total}
			switch mode := s.canonical(ask).Mode; {
			case mode == Refund:
				want.Taken, want.Used = h.places, total-h.places
				delete(holders, ask.Lease)
			case mode == Charge || own && mode != Look:
				want.Taken = h.places
				if own {
					holders[ask.Lease] = held{now + s.LeaseTTLUS, h.places}
				}
			case own:
			case total+ask.Cost > s.Requests:
				want.Allowed, want.Never = false, ask.Cost > s.Requests
			case mode != Look:
				want.Taken, want.Used = ask.Cost, total+ask.Cost
				id := ask.Lease
				if id == "" {
					id = fmt.Sprintf("nameless %d", step)
				}
				holders[id] = held{now + s.LeaseTTLUS, ask.Cost}
			}
			want.Remaining = max(0, s.Requests-want.Used)
			require.Equal(t, want, decideAndApply(t, s, &st, now, ask), "sequence %d step %d: %+v", sequence, step, ask)

			latest := int64(0)
			for _, h := range holders {
				latest = max(latest, h.end)
			}
			require.GreaterOrEqual(t, s.IdleAtUS(&st), latest)
			now += logUniform(rnd, s.LeaseTTLUS/2)
		}
	}
}

// TestManyLeasesEnd checks that what has ended is given back, whatever the
// order in which leases were renewed and released.
func TestManyLeasesEnd(t *testing.T) {
	t.Parallel()
	s := mustSpec(t, Limit{Kind: Concurrency, Requests: 10_000, LeaseTTLUS: 1_000_000})
	var st State
	now := int64(1_700_000_000_000_000)
	for i := range int64(10_000) {
		require.True(t, s.Apply(&st, now+i, Ask{Cost: 1, Lease: strconv.FormatInt(i, 10)}).Allowed)
	}
	require.False(t, s.Apply(&st, now+10_000, Ask{Cost: 1, Lease: "more"}).Allowed)
	for i := int64(0); i < 10_000; i += 3 {
		s.Apply(&st, now+20_000+i, Ask{Mode: Charge, Lease: strconv.FormatInt(i, 10)})
	}
	for i := int64(1); i < 10_000; i += 3 {
		s.Apply(&st, now+40_000, Ask{Mode: Refund, Lease: strconv.FormatInt(i, 10)})
	}
	require.EqualValues(t, 6667, s.Decide(&st, now+40_000, Ask{Mode: Look}).Used)
	require.EqualValues(t, 3334, s.Decide(&st, now+1_010_000, Ask{Mode: Look}).Used)
	require.EqualValues(t, 0, s.Decide(&st, now+1_030_000, Ask{Mode: Look}).Used)
	s.Apply(&st, now+1_030_000, Ask{Cost: 1, Lease: "new"})
	require.Len(t, st.Log.leases.heap, 1)
	require.Len(t, st.Log.leases.index, 1)
}

// TestExactLogStaysSmall: charges do not belong there, but must not make it grow.
func TestExactLogStaysSmall(t *testing.T) {
	t.Parallel()
	s := mustSpec(t, Limit{Kind: SlidingWindowLog, Requests: 10, WindowUS: 1_000_000_000, MaxDebt: MaxRequests})
	var st State
	now := int64(1_700_000_000_000_000)
	for i := range int64(10_000) {
		s.Apply(&st, now+i, Ask{Mode: Charge, Cost: 1})
	}
	require.LessOrEqual(t, len(st.Log.entries), maxEntries)
	require.EqualValues(t, 10_000, s.Decide(&st, now+10_000, Ask{Mode: Look}).Used)
	require.NotZero(t, s.Decide(&st, now+9_998+s.WindowUS, Ask{Mode: Look}).Used, "merged hits leave with the last of them")
	require.Zero(t, s.Decide(&st, now+9_999+s.WindowUS, Ask{Mode: Look}).Used)
}

// TestRingStaysSmall: one entry for a sub-window, however many hits it has.
func TestRingStaysSmall(t *testing.T) {
	t.Parallel()
	s := mustSpec(t, Limit{Kind: SlidingWindowLog, Requests: MaxRequests, WindowUS: 10_000_000, Precision: 10})
	var st State
	now := int64(1_700_000_000_000_000)
	for i := range int64(40_000) {
		require.True(t, s.Apply(&st, now+500*i, Ask{Cost: 1}).Allowed)
		require.LessOrEqual(t, len(st.Log.entries), 11)
	}
}

// TestZeroLimit: nothing passes, nothing divides by zero, and an unused state
// is not overdrawn.
func TestZeroLimit(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			l := Limit{Kind: kind, WindowUS: 60_000_000}
			if kind == Concurrency {
				l.WindowUS = 0
			}
			s := mustSpec(t, l)
			var st State
			now := int64(1_700_000_000_000_000)
			for _, ask := range []Ask{{Mode: Look}, {Mode: Spend}, {Mode: TakeUpTo}, {Mode: Refund, Cost: 3}} {
				require.True(t, decideAndApply(t, s, &st, now, ask).Allowed)
			}
			for _, mode := range []Mode{Look, Spend, TakeUpTo} {
				d := decideAndApply(t, s, &st, now, Ask{Mode: mode, Cost: 1})
				require.False(t, d.Allowed)
				require.True(t, d.Never)
				require.Zero(t, d.Remaining)
				require.Zero(t, d.RetryAfterUS)
			}
			require.True(t, decideAndApply(t, s, &st, now, Ask{Mode: Charge, Cost: 5}).Allowed)
		})
	}
}

// TestUnknownMode: whatever a caller passes, nothing is written and nothing breaks.
func TestUnknownMode(t *testing.T) {
	t.Parallel()
	s := mustSpec(t, Limit{Requests: 5, WindowUS: 1_000_000})
	var st State
	d := s.Apply(&st, 5, Ask{Mode: 200, Cost: -7})
	require.Equal(t, Decision{Allowed: true, Remaining: 5, ResetAfterUS: 999_995}, d)
	require.Equal(t, State{}, st)
}

// TestRefusalHolds checks what a cache of refusals relies on: until the wait
// that was named is over nobody passes with that cost or more, whatever smaller
// costs and charges come meanwhile. Refunds are the exception.
func TestRefusalHolds(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(8, 8))
	for _, form := range []string{"fixed_window", "exact_log", "ring", "sliding_window_counter", "token_bucket"} {
		for range 2000 {
			s := randomSpec(rnd, form)
			var st State
			now := int64(1_700_000_000_000_000)
			for range 10 {
				s.Apply(&st, now, Ask{Cost: logUniform(rnd, s.Most())})
				now += logUniform(rnd, s.WindowUS/4)
			}
			refused := Ask{Cost: 1 + logUniform(rnd, s.Most())}
			d := s.Apply(&st, now, refused)
			if d.Allowed || d.Never {
				continue
			}
			until := min(now+d.RetryAfterUS, maxTimeUS)
			for range 10 {
				if now += logUniform(rnd, until-now); now >= until {
					break
				}
				others := Ask{Mode: Charge, Cost: logUniform(rnd, refused.Cost)}
				if rnd.IntN(3) > 0 {
					others.Mode = Spend
				}
				s.Apply(&st, now, others)
				again := Ask{Mode: Look, Cost: refused.Cost + rnd.Int64N(2)}
				require.False(t, s.Decide(&st, now, again).Allowed, "%+v", s.Limit)
			}
		}
	}
}
