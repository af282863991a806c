// Package backendtest is the contract that every store passes: what
// backends.Store promises, and that a store decides as pkg/algorithm does,
// verdict by verdict.
//
// It owns the tests, not the stores: a store's own test calls Run with a way to
// make one.
package backendtest

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
)

// Harness makes the stores under test.
type Harness struct {
	// Open makes a store whose time is what now gives, in µs. It is closed by
	// the test.
	Open func(t *testing.T, now func() int64) backends.Store
	// Keys makes a key of one hash tag from a name; nil takes the name.
	Keys func(name string) string
}

// Start is the time at which the tests begin: 10 s into a minute, an hour and a
// day, in µs.
const Start = 1_796_083_210_000_000

// Run runs the whole contract.
func Run(t *testing.T, h Harness) {
	if h.Keys == nil {
		h.Keys = func(name string) string { return name }
	}
	t.Run("random traffic is decided as by the algorithms", func(t *testing.T) { h.random(t) })
	t.Run("random batches are decided as by the model", func(t *testing.T) { h.randomBatches(t) })
	t.Run("every mode takes any cost", func(t *testing.T) { h.costs(t) })
	t.Run("groups are taken together or not at all", func(t *testing.T) { h.groups(t) })
	t.Run("random groups", func(t *testing.T) { h.randomGroups(t) })
	t.Run("items of one key are decided as before the call", func(t *testing.T) { h.oneKeyManyModes(t) })
	t.Run("groups that cross each other", func(t *testing.T) { h.crossedGroups(t) })
	t.Run("nothing to decide", func(t *testing.T) { h.nothing(t) })
	t.Run("any key is a key", func(t *testing.T) { h.oddKeys(t) })
	t.Run("many callers never exceed", func(t *testing.T) { h.manyCallers(t) })
	t.Run("a batch is answered once, call by call", func(t *testing.T) { h.batches(t) })
	t.Run("reset forgets", func(t *testing.T) { h.reset(t) })
	t.Run("a changed limit keeps what was used", func(t *testing.T) { h.changedLimits(t) })
	t.Run("a deadline in the past is answered", func(t *testing.T) { h.past(t) })
	t.Run("a closed store says so", func(t *testing.T) { h.closed(t) })
	t.Run("closing answers every batch once", func(t *testing.T) { h.closing(t) })
}

// world is one store under a clock that the test moves.
type world struct {
	t     *testing.T
	nowUS atomic.Int64
	store backends.Store
}

func (h Harness) open(t *testing.T) *world {
	w := &world{t: t}
	w.nowUS.Store(Start)
	w.store = h.Open(t, w.nowUS.Load)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(t, w.store.Close(ctx))
	})
	return w
}

// pass moves the clock, but not beyond what the algorithms count with (the year
// 2112).
func (w *world) pass(us int64) {
	if w.nowUS.Load()+us < 1<<52 {
		w.nowUS.Add(us)
	}
}

// decide submits one call and gives its items back.
func (w *world) decide(items ...backends.Item) []backends.Item {
	w.t.Helper()
	b := &backends.Batch{Calls: []backends.Call{{Items: items}}, Deadline: time.Now().Add(10 * time.Second)}
	require.NoError(w.t, backends.Decide(context.Background(), w.store, b))
	require.NoError(w.t, b.Calls[0].Err)
	return b.Calls[0].Items
}

func (w *world) one(key string, s *algorithm.Spec, ask algorithm.Ask) algorithm.Decision {
	w.t.Helper()
	return w.decide(backends.Item{Key: key, Spec: s, Ask: ask})[0].Decision
}

func spend(n int64) algorithm.Ask { return algorithm.Ask{Mode: algorithm.Spend, Cost: n} }

// Spec makes a spec of a limit that is known to be valid.
func Spec(t testing.TB, l algorithm.Limit) *algorithm.Spec {
	t.Helper()
	s, err := algorithm.NewSpec(l)
	require.NoError(t, err)
	return s
}

// Limits is one limit of each form, with small and with large numbers.
func Limits() []algorithm.Limit {
	const minute, day = 60_000_000, 86_400_000_000
	return []algorithm.Limit{
		{Kind: algorithm.FixedWindow, Requests: 10, WindowUS: minute, CountDenied: true},
		{Kind: algorithm.FixedWindow, Requests: 10, WindowUS: 1_000_000},
		{Kind: algorithm.FixedWindow, Requests: algorithm.MaxRequests, WindowUS: 365 * day},
		{Kind: algorithm.SlidingWindowLog, Requests: 7, WindowUS: 3_000_000},
		{Kind: algorithm.SlidingWindowLog, Requests: 128, WindowUS: minute},
		{Kind: algorithm.SlidingWindowLog, Requests: 500, WindowUS: minute},
		{Kind: algorithm.SlidingWindowLog, Requests: 20, WindowUS: 7_000, Precision: 120},
		{Kind: algorithm.SlidingWindowLog, Requests: 10, WindowUS: minute, PostPaid: true, MaxDebt: 15},
		{Kind: algorithm.SlidingWindowCounter, Requests: 10, WindowUS: 4_000_000},
		{Kind: algorithm.SlidingWindowCounter, Requests: algorithm.MaxRequests, WindowUS: day},
		{Kind: algorithm.SlidingWindowCounter, Requests: 5, WindowUS: minute, PostPaid: true},
		{Kind: algorithm.TokenBucket, Requests: 10, WindowUS: 1_000_000, Burst: 5},
		{Kind: algorithm.TokenBucket, Requests: 7, WindowUS: minute},
		{Kind: algorithm.TokenBucket, Requests: algorithm.MaxRequests, WindowUS: 365 * day},
		{Kind: algorithm.TokenBucket, Requests: 3, WindowUS: 1_000_000, PostPaid: true, MaxDebt: 4},
		{Kind: algorithm.LeakyBucket, Requests: 1, WindowUS: 4_000_000, Burst: 3},
		{Kind: algorithm.LeakyBucket, Requests: 0, WindowUS: minute},
		{Kind: algorithm.Concurrency, Requests: 4, LeaseTTLUS: 2_000_000},
	}
}

// Steps is how many random steps are taken for each limit; WEIR_TEST_STEPS sets
// it for longer runs.
func Steps() int {
	if n, err := strconv.Atoi(os.Getenv("WEIR_TEST_STEPS")); err == nil && n > 0 {
		return n
	}
	return 1500
}

// traffic makes random asks for a limit.
type traffic struct {
	rand  *rand.Rand
	limit algorithm.Limit
}

func newTraffic(seed uint64, l algorithm.Limit) *traffic {
	return &traffic{rand.New(rand.NewPCG(seed, 1)), l}
}

// ask draws one: mostly spends of a few hits, sometimes anything.
func (t *traffic) ask() algorithm.Ask {
	modes := []algorithm.Mode{algorithm.Spend, algorithm.Spend, algorithm.Spend, algorithm.Spend, algorithm.Look, algorithm.Charge, algorithm.TakeUpTo, algorithm.Refund}
	a := algorithm.Ask{Mode: modes[t.rand.IntN(len(modes))]}
	switch t.rand.IntN(10) {
	case 0:
		a.Cost = t.limit.Requests + t.rand.Int64N(3) - 1
	case 1:
		a.Cost = t.rand.Int64N(algorithm.MaxCost + 1)
	case 2:
		a.Cost = 0
	default:
		a.Cost = 1 + t.rand.Int64N(3)
	}
	a.Cost = max(0, a.Cost)
	if t.limit.Kind == algorithm.Concurrency {
		a.Lease = string('a' + rune(t.rand.IntN(6)))
		a.Cost = min(a.Cost, 6)
		if a.Mode == algorithm.TakeUpTo {
			a.Mode = algorithm.Spend
		}
	}
	return a
}

// pause draws the time to the next ask: often none, mostly a part of the
// window, sometimes several windows. The clock sometimes steps back, but not
// for fixed windows and leases: a store may keep each window under a name of its
// own, and need not remember when it last saw a lease.
func (t *traffic) pause() int64 {
	window := max(t.limit.WindowUS, t.limit.LeaseTTLUS)
	switch t.rand.IntN(8) {
	case 0, 1:
		return 0
	case 2:
		return t.rand.Int64N(3 * window)
	case 3:
		return t.rand.Int64N(window + 1)
	case 4:
		if t.limit.Kind != algorithm.FixedWindow && t.limit.Kind != algorithm.Concurrency && t.rand.IntN(10) == 0 {
			return -t.rand.Int64N(2 * window)
		}
		return 1
	default:
		return t.rand.Int64N(window/10 + 2)
	}
}

func (h Harness) random(t *testing.T) {
	for i, l := range Limits() {
		t.Run(strconv.Itoa(i)+"_"+l.Kind.String(), func(t *testing.T) {
			w := h.open(t)
			now, changed := Spec(t, l), changedSpec(t, l)
			traffic := newTraffic(uint64(i), l)
			key := h.Keys("random")
			var model algorithm.State
			for step := range Steps() {
				if traffic.rand.IntN(100) == 0 {
					now, changed = changed, now // a reload with other numbers
				}
				s := now
				ask := traffic.ask()
				want := s.Apply(&model, w.nowUS.Load(), ask)
				got := w.one(key, s, ask)
				require.Equal(t, want, got, "step %d: %s of %d at %d", step, ask.Mode, ask.Cost, w.nowUS.Load()-Start)
				w.pass(traffic.pause())
			}
		})
	}
}

// changedSpec is the same form of a limit with other numbers.
func changedSpec(t *testing.T, l algorithm.Limit) *algorithm.Spec {
	after := Spec(t, withOtherNumbers(l))
	require.Equal(t, Spec(t, l).KeySuffix(), after.KeySuffix())
	return after
}

func withOtherNumbers(l algorithm.Limit) algorithm.Limit {
	l.Requests = max(0, l.Requests*2/3)
	if l.Burst > 0 {
		l.Burst++
	}
	return l
}

func (h Harness) oddKeys(t *testing.T) {
	w := h.open(t)
	s := Spec(t, algorithm.Limit{Kind: algorithm.TokenBucket, Requests: 2, WindowUS: 60_000_000})
	for _, name := range []string{"", "{", "}", "{}", "}{", "a\nb", "nul\x00", "\xff\xfe", "ż", string(make([]byte, 10_000)), "a b", "a'b\"c\\"} {
		for left := int64(1); left >= 0; left-- {
			require.Equal(t, left, w.one(h.Keys("odd"+name), s, spend(1)).Remaining, "%.20q", name)
		}
		require.False(t, w.one(h.Keys("odd"+name), s, spend(1)).Allowed, "%.20q", name)
	}
}

func (h Harness) manyCallers(t *testing.T) {
	for _, kind := range []algorithm.Kind{algorithm.FixedWindow, algorithm.SlidingWindowLog, algorithm.SlidingWindowCounter, algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.Concurrency} {
		t.Run(kind.String(), func(t *testing.T) {
			w := h.open(t)
			l := algorithm.Limit{Kind: kind, Requests: 100, WindowUS: 60_000_000}
			if kind == algorithm.Concurrency {
				l.WindowUS = 0
			}
			s := Spec(t, l)
			var allowed atomic.Int64
			var wait sync.WaitGroup
			for range 64 {
				wait.Go(func() {
					for range 5 {
						if w.one(h.Keys("shared"), s, spend(1)).Allowed {
							allowed.Add(1)
						}
					}
				})
			}
			wait.Wait()
			require.Equal(t, int64(100), allowed.Load())
		})
	}
}

func (h Harness) batches(t *testing.T) {
	w := h.open(t)
	s := Spec(t, algorithm.Limit{Requests: 5, WindowUS: 60_000_000})
	const n = 300
	b := &backends.Batch{Calls: make([]backends.Call, n), Deadline: time.Now().Add(10 * time.Second)}
	for i := range b.Calls {
		b.Calls[i].Items = []backends.Item{{Key: h.Keys("batch" + strconv.Itoa(i%60)), Spec: s, Ask: spend(1)}}
	}
	done := make(chan int, 2)
	b.Done = func(*backends.Batch) { done <- 1 }
	w.store.Submit(b)
	<-done
	select {
	case <-done:
		t.Fatal("done was called twice")
	case <-time.After(20 * time.Millisecond):
	}
	for i := range b.Calls {
		require.NoError(t, b.Calls[i].Err)
		require.Equal(t, int64(4-i/60), b.Calls[i].Items[0].Decision.Remaining, "calls of one key are decided in order")
	}
}

func (h Harness) reset(t *testing.T) {
	for i, l := range Limits() {
		if l.Requests == 0 {
			continue
		}
		w := h.open(t)
		s := Spec(t, l)
		key := h.Keys("reset" + strconv.Itoa(i))
		fresh := w.one(key, s, algorithm.Ask{Mode: algorithm.Look})
		w.one(key, s, algorithm.Ask{Mode: algorithm.Spend, Cost: 2, Lease: "a"})
		require.NoError(t, w.store.Reset(context.Background(), []backends.Item{{Key: key, Spec: s}}))
		require.Equal(t, fresh, w.one(key, s, algorithm.Ask{Mode: algorithm.Look}), l.Kind)
	}
}

func (h Harness) changedLimits(t *testing.T) {
	for _, kind := range []algorithm.Kind{algorithm.FixedWindow, algorithm.SlidingWindowLog, algorithm.SlidingWindowCounter, algorithm.TokenBucket, algorithm.LeakyBucket} {
		t.Run(kind.String(), func(t *testing.T) {
			w := h.open(t)
			of := func(n int64) *algorithm.Spec {
				return Spec(t, algorithm.Limit{Kind: kind, Requests: n, WindowUS: 3_600_000_000})
			}
			key := h.Keys("changed")
			for range 10 {
				require.True(t, w.one(key, of(10), spend(1)).Allowed)
			}
			look := algorithm.Ask{Mode: algorithm.Look}
			require.Equal(t, int64(90), w.one(key, of(100), look).Remaining, "raised")
			require.Equal(t, int64(0), w.one(key, of(5), look).Remaining, "lowered")
			require.False(t, w.one(key, of(5), spend(1)).Allowed)
			require.Equal(t, int64(89), w.one(key, of(100), spend(1)).Remaining)
		})
	}
}

func (h Harness) past(t *testing.T) {
	w := h.open(t)
	b := &backends.Batch{
		Calls:    []backends.Call{{Items: []backends.Item{{Key: h.Keys("past"), Spec: Spec(t, algorithm.Limit{Requests: 5, WindowUS: 1_000_000}), Ask: spend(1)}}}},
		Deadline: time.Now().Add(-time.Second),
	}
	require.NoError(t, backends.Decide(context.Background(), w.store, b))
	if b.Calls[0].Err != nil {
		require.ErrorIs(t, b.Calls[0].Err, backends.ErrTimeout)
	}
}

func (h Harness) closed(t *testing.T) {
	w := h.open(t)
	require.NoError(t, w.store.Close(context.Background()))
	b := &backends.Batch{Calls: []backends.Call{{Items: []backends.Item{{Key: h.Keys("closed"), Spec: Spec(t, algorithm.Limit{Requests: 5, WindowUS: 1_000_000}), Ask: spend(1)}}}}}
	require.NoError(t, backends.Decide(context.Background(), w.store, b))
	require.ErrorIs(t, b.Calls[0].Err, backends.ErrClosed)
}
