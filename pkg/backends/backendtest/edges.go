package backendtest

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
)

// costs holds every mode with costs at the edges against the algorithms, on an
// unused, a half used and a used up state of each form.
func (h Harness) costs(t *testing.T) {
	costs := []int64{0, 1, 5, 10, 11, math.MaxUint32, algorithm.MaxCost, math.MaxInt64, -1}
	modes := []algorithm.Mode{algorithm.Spend, algorithm.Look, algorithm.Charge, algorithm.TakeUpTo, algorithm.Refund}
	for i, l := range Limits() {
		t.Run(strconv.Itoa(i)+"_"+l.Kind.String(), func(t *testing.T) {
			w := h.open(t)
			model := NewModel(w.nowUS.Load)
			s := Spec(t, l)
			for _, used := range []int64{0, l.Requests / 2, l.Requests} {
				for _, mode := range modes {
					for _, cost := range costs {
						if l.Kind == algorithm.Concurrency && cost > l.Requests && mode == algorithm.TakeUpTo {
							continue // a lease has all its places or none
						}
						key := h.Keys(fmt.Sprintf("cost%d/%d/%d/%d", i, used, mode, cost))
						asks := []algorithm.Ask{
							{Mode: algorithm.Charge, Cost: used, Lease: "before"},
							{Mode: mode, Cost: cost, Lease: "this"},
							{Mode: algorithm.Look, Lease: "after"},
						}
						for _, ask := range asks {
							want, got := w.both(model, backends.Item{Key: key, Spec: s, Ask: ask})
							require.Equal(t, want, got, "%s of %d with %d used", mode, cost, used)
						}
					}
				}
			}
		})
	}
}

// both asks a model and the store.
func (w *world) both(m *Model, item backends.Item) (want, got algorithm.Decision) {
	w.t.Helper()
	b := &backends.Batch{Calls: []backends.Call{{Items: []backends.Item{item}}}}
	require.NoError(w.t, backends.Decide(context.Background(), m, b))
	return b.Calls[0].Items[0].Decision, w.decide(item)[0].Decision
}

// oneKeyManyModes: the items of one key have their verdicts from the state
// before the call.
func (h Harness) oneKeyManyModes(t *testing.T) {
	w := h.open(t)
	s := Spec(t, algorithm.Limit{Kind: algorithm.TokenBucket, Requests: 10, WindowUS: 3_600_000_000})
	key := h.Keys("modes")
	require.True(t, w.one(key, s, spend(6)).Allowed)
	item := func(mode algorithm.Mode, cost int64, member int) backends.Item {
		return backends.Item{Key: key, Spec: s, Ask: algorithm.Ask{Mode: mode, Cost: cost}, Member: member}
	}
	got := w.decide(item(algorithm.Spend, 3, 0), item(algorithm.Look, 4, 1), item(algorithm.Spend, 1, 2))
	require.Equal(t, int64(4), got[0].Decision.Taken)
	require.Equal(t, got[0].Decision, got[2].Decision)
	require.True(t, got[2].Decision.Allowed)
	require.Equal(t, int64(0), w.one(key, s, algorithm.Ask{Mode: algorithm.Look}).Remaining)

	require.Equal(t, int64(5), w.one(key, s, algorithm.Ask{Mode: algorithm.Refund, Cost: 5}).Taken)
	got = w.decide(item(algorithm.Spend, 0, 0), item(algorithm.Spend, 5, 1))
	require.Equal(t, int64(0), got[0].Decision.Taken, "a spend of nothing is a look")
	require.Equal(t, int64(5), got[1].Decision.Taken)

	got = w.decide(item(algorithm.Spend, 1, 0), item(algorithm.Refund, 2, 1))
	require.False(t, got[0].Decision.Allowed, "the refund comes too late for it")
	require.Equal(t, int64(2), got[1].Decision.Taken, "and is given although another item refuses")
}

// crossedGroups is many callers at once whose groups name two of ten keys in
// any order: nobody waits for ever, and what was taken from each key is what
// those groups took that passed.
func (h Harness) crossedGroups(t *testing.T) {
	w := h.open(t)
	s := Spec(t, algorithm.Limit{Kind: algorithm.TokenBucket, Requests: 40, WindowUS: 3_600_000_000})
	const keys, callers, each = 10, 16, 25
	var taken [keys]atomic.Int64
	var wait sync.WaitGroup
	for caller := range callers {
		wait.Go(func() {
			for i := range each {
				a := (caller*7 + i) % keys
				b := (a + 1 + (caller+i*3)%(keys-1)) % keys
				if i%2 == 0 {
					a, b = b, a
				}
				got := w.decide(
					backends.Item{Key: h.Keys("crossed" + strconv.Itoa(a)), Spec: s, Ask: spend(1)},
					backends.Item{Key: h.Keys("crossed" + strconv.Itoa(b)), Spec: s, Ask: spend(1), Member: 1},
				)
				if got[0].Decision.Allowed && got[1].Decision.Allowed {
					taken[a].Add(1)
					taken[b].Add(1)
				}
			}
		})
	}
	wait.Wait()
	for i := range taken {
		used := w.one(h.Keys("crossed"+strconv.Itoa(i)), s, algorithm.Ask{Mode: algorithm.Look}).Used
		require.Equal(t, taken[i].Load(), used, "key %d", i)
		require.LessOrEqual(t, used, int64(40))
	}
}

// nothing: a call may be empty.
func (h Harness) nothing(t *testing.T) {
	w := h.open(t)
	s := Spec(t, algorithm.Limit{Requests: 5, WindowUS: 60_000_000})
	mixed := &backends.Batch{Calls: []backends.Call{{}, {Items: []backends.Item{{Key: h.Keys("some"), Spec: s, Ask: spend(1)}}}, {}}}
	require.NoError(t, backends.Decide(context.Background(), w.store, mixed))
	require.NoError(t, mixed.Calls[0].Err)
	require.NoError(t, mixed.Calls[1].Err)
	require.Equal(t, int64(4), mixed.Calls[1].Items[0].Decision.Remaining)
	require.NoError(t, w.store.Reset(context.Background(), nil))
	require.NoError(t, w.store.Reset(context.Background(), []backends.Item{{Key: h.Keys("nobody"), Spec: s}}))
}

// closing: a store closed while batches come answers each of them once, with a
// decision or with ErrClosed, and nothing after the end is counted.
func (h Harness) closing(t *testing.T) {
	w := h.open(t)
	s := Spec(t, algorithm.Limit{Requests: 1_000_000, WindowUS: 3_600_000_000})
	const callers, each = 8, 50
	var answers [callers * each]atomic.Int32
	var submitted, decided sync.WaitGroup
	half := make(chan struct{})
	var once sync.Once
	decided.Add(callers * each)
	for caller := range callers {
		submitted.Go(func() {
			for i := range each {
				if i == each/2 {
					once.Do(func() { close(half) })
				}
				n := caller*each + i
				w.store.Submit(&backends.Batch{
					Calls:    []backends.Call{{Items: []backends.Item{{Key: h.Keys("closing"), Spec: s, Ask: spend(1)}}}},
					Deadline: time.Now().Add(10 * time.Second),
					Done: func(b *backends.Batch) {
						if answers[n].Add(1) > 1 {
							t.Errorf("batch %d was answered twice", n)
							return
						}
						call := &b.Calls[0]
						if call.Err == nil && !call.Items[0].Decision.Allowed {
							t.Errorf("batch %d was refused", n)
						}
						decided.Done()
					},
				})
			}
		})
	}
	<-half
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(t, w.store.Close(ctx))
	require.NoError(t, w.store.Close(ctx), "closing twice does no harm")
	submitted.Wait()
	decided.Wait()
}
