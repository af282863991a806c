package memory_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/memory"
)

const (
	second = int64(1_000_000)
	minute = 60 * second
	hour   = 60 * minute
	// grace is how long a state is kept after it is as new.
	grace = algorithm.MaxSkewUS
	start = 1_800_000_000 * second // begins an hour
)

// world is a store under a clock that the test moves. Its sweeper is off unless
// the options ask for it.
type world struct {
	t     testing.TB
	nowUS atomic.Int64
	store *memory.Store

	mu         sync.Mutex
	overflowed []string
}

func open(t testing.TB, opts memory.Options) *world {
	w := &world{t: t}
	w.nowUS.Store(start)
	if opts.SweepEvery == 0 {
		opts.SweepEvery = -1
	}
	opts.NowUS = w.nowUS.Load
	opts.OnOverflow = func(rule string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.overflowed = append(w.overflowed, rule)
	}
	w.store = memory.New(opts)
	t.Cleanup(func() { require.NoError(t, w.store.Close(context.Background())) })
	return w
}

func spec(t testing.TB, l algorithm.Limit) *algorithm.Spec {
	s, err := algorithm.NewSpec(l)
	require.NoError(t, err)
	return s
}

func (w *world) pass(us int64) { w.nowUS.Add(us) }

func (w *world) batch(items ...backends.Item) *backends.Batch {
	return &backends.Batch{Calls: []backends.Call{{Items: items}}, Done: func(*backends.Batch) {}}
}

// items are spends of one hit for keys of their own.
func (w *world) items(l algorithm.Limit, n int) []backends.Item {
	s := spec(w.t, l)
	items := make([]backends.Item, n)
	for i := range items {
		items[i] = backends.Item{Key: "key" + strconv.Itoa(i), Spec: s, Ask: algorithm.Ask{Cost: 1}, Rule: "rule", Member: i}
	}
	return items
}

func (w *world) ask(rule, key string, s *algorithm.Spec, ask algorithm.Ask) algorithm.Decision {
	b := w.batch(backends.Item{Rule: rule, Key: key, Spec: s, Ask: ask})
	w.store.Submit(b)
	require.NoError(w.t, b.Calls[0].Err)
	return b.Calls[0].Items[0].Decision
}

func (w *world) spend(key string, s *algorithm.Spec) algorithm.Decision {
	return w.ask("rule", key, s, algorithm.Ask{Cost: 1})
}

// fill spends one hit for each of n keys.
func (w *world) fill(rule, prefix string, n int, s *algorithm.Spec) {
	for i := range n {
		w.ask(rule, prefix+strconv.Itoa(i), s, algorithm.Ask{Cost: 1})
	}
}
