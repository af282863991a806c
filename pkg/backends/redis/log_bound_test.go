package redis_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/internal/testutil/redistest"
	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/backendtest"
	"github.com/weirhq/weir/pkg/backends/redis"
)

// A log that is charged without being asked stays bounded, and says what the
// algorithm says once it shares entries.
func TestChargesBeyondTheBoundOfALog(t *testing.T) {
	server := redistest.Start(t)
	var now atomic.Int64
	now.Store(backendtest.Start)
	store := open(t, redis.Options{Addrs: []string{server.Addr()}, NowUS: now.Load})
	spec := backendtest.Spec(t, algorithm.Limit{Kind: algorithm.SlidingWindowLog, Requests: 5, WindowUS: 60_000_000, MaxDebt: 5000})
	var state algorithm.State
	for i := range 2400 {
		ask := algorithm.Ask{Mode: algorithm.Charge, Cost: 1}
		switch i % 10 {
		case 7:
			ask.Mode = algorithm.Refund
		case 9:
			ask.Mode = algorithm.Spend
		}
		want := spec.Apply(&state, now.Load(), ask)
		got, err := call(t, store, 5*time.Second, backends.Item{Key: "k", Spec: spec, Ask: ask})
		require.NoError(t, err)
		require.Equal(t, want, got, "step %d", i)
		if i%3 > 0 {
			now.Add(int64(i%7) * 10_000)
		}
	}
	length, err := server.Client().LLen(context.Background(), "k").Result()
	require.NoError(t, err)
	require.LessOrEqual(t, length, int64(257))
}
