package backendtest

import (
	"context"
	"slices"
	"sync"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
)

// Model is a store that is slow and obviously right: plain states under one
// lock, decided as backends.Call says. What it answers is what any store must.
type Model struct {
	nowUS func() int64

	mu     sync.Mutex
	states map[string]*algorithm.State
	closed bool
}

var _ backends.Store = (*Model)(nil)

// NewModel makes a model whose time is what nowUS gives, in µs.
func NewModel(nowUS func() int64) *Model {
	return &Model{nowUS: nowUS, states: map[string]*algorithm.State{}}
}

// Submit decides the batch before it returns.
func (m *Model) Submit(b *backends.Batch) {
	m.mu.Lock()
	now := m.nowUS()
	for i := range b.Calls {
		if m.closed {
			b.Calls[i].Err = backends.ErrClosed
		} else {
			m.decide(b.Calls[i].Items, now)
		}
	}
	m.mu.Unlock()
	b.Done(b)
}

func (m *Model) decide(items []backends.Item, now int64) {
	var merged []backends.Item
	at := make([]int, len(items))
	for i, it := range items {
		if it.Ask.Mode == algorithm.Spend && it.Ask.Cost <= 0 {
			it.Ask.Mode = algorithm.Look
		}
		at[i] = slices.IndexFunc(merged, func(o backends.Item) bool { return o.Key == it.Key && o.Ask.Mode == it.Ask.Mode })
		if at[i] < 0 {
			at[i] = len(merged)
			merged = append(merged, it)
		} else {
			merged[at[i]].Ask.Cost += it.Ask.Cost
		}
	}
	if len(items) == 1 {
		items[0].Decision = items[0].Spec.Apply(m.state(items[0].Key), now, items[0].Ask)
		return
	}
	decisions := model(merged, m.states, now)
	for i := range items {
		items[i].Decision = decisions[at[i]]
	}
}

func (m *Model) state(key string) *algorithm.State {
	if m.states[key] == nil {
		m.states[key] = &algorithm.State{}
	}
	return m.states[key]
}

// Reset forgets the states of the keys.
func (m *Model) Reset(_ context.Context, items []backends.Item) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range items {
		delete(m.states, it.Key)
	}
	return nil
}

// Close makes batches submitted later answer ErrClosed.
func (m *Model) Close(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
