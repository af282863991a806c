package memory_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/backendtest"
	"github.com/weirhq/weir/pkg/backends/memory"
)

func TestContractPerSecond(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		Open: func(_ *testing.T, now func() int64) backends.Store {
			return &backends.PerSecond{Main: memory.New(memory.Options{NowUS: now}), Second: memory.New(memory.Options{NowUS: now})}
		},
	})
}

func TestLimitsPerSecondHaveTheirOwnStore(t *testing.T) {
	main, second := memory.New(memory.Options{SweepEvery: -1}), memory.New(memory.Options{SweepEvery: -1})
	store := &backends.PerSecond{Main: main, Second: second}
	defer func() { require.NoError(t, store.Close(context.Background())) }()
	item := func(key string, l algorithm.Limit, member int) backends.Item {
		return backends.Item{Key: key, Spec: backendtest.Spec(t, l), Ask: algorithm.Ask{Cost: 1}, Member: member}
	}
	perSecond := algorithm.Limit{Requests: 5, WindowUS: 1_000_000}
	perHour := algorithm.Limit{Requests: 5, WindowUS: 3_600_000_000}
	b := &backends.Batch{Calls: []backends.Call{
		{Items: []backends.Item{item("s", perSecond, 0)}},
		{Items: []backends.Item{item("h", perHour, 0)}},
		{Items: []backends.Item{item("list-s", perSecond, 0), item("list-h", perHour, 0)}},
		{Items: []backends.Item{item("c", algorithm.Limit{Kind: algorithm.Concurrency, Requests: 1}, 0)}},
	}}
	require.NoError(t, backends.Decide(context.Background(), store, b))
	for i := range b.Calls {
		require.NoError(t, b.Calls[i].Err)
		require.True(t, b.Calls[i].Items[0].Decision.Allowed)
	}
	keys := func(s *memory.Store) int {
		n, err := s.CountKeys(context.Background())
		require.NoError(t, err)
		return int(n)
	}
	require.Equal(t, 1, keys(second))
	require.Equal(t, 4, keys(main))
}
