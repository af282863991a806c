package memory_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/memory"
)

func perMinute(t testing.TB, n int64) *algorithm.Spec {
	return spec(t, algorithm.Limit{Kind: algorithm.TokenBucket, Requests: n, WindowUS: minute})
}

// TestNewKeysMakeRoom: without any sweeper, new keys find those that expired.
func TestNewKeysMakeRoom(t *testing.T) {
	w := open(t, memory.Options{Shards: 4})
	s := perMinute(t, 60) // a hit is forgotten after a second
	for round := range 20 {
		w.fill("rule", strconv.Itoa(round)+"/", 1000, s)
		w.pass(second + grace)
	}
	require.Less(t, w.store.Stats().Keys, int64(2000))
	require.Greater(t, w.store.Stats().Expired, uint64(18_000))
}

// TestSweeper: without any new key, the sweeper drops what has expired.
func TestSweeper(t *testing.T) {
	w := open(t, memory.Options{SweepEvery: 20 * time.Millisecond})
	w.fill("rule", "a", 3000, perMinute(t, 60))
	w.fill("rule", "b", 10, spec(t, algorithm.Limit{Requests: 5, WindowUS: hour}))
	require.EqualValues(t, 3010, w.store.Stats().Keys)
	w.pass(second + grace)
	require.Eventually(t, func() bool { return w.store.Stats().Keys == 10 }, 5*time.Second, time.Millisecond)
	require.EqualValues(t, 3000, w.store.Stats().Expired)
	w.pass(hour + grace)
	require.Eventually(t, func() bool { return w.store.Stats().Keys == 0 }, 5*time.Second, time.Millisecond)
}

// TestShortAmongLong: what expires soon is found among states that live long,
// whether it was short from the start or became so by a refund.
func TestShortAmongLong(t *testing.T) {
	w := open(t, memory.Options{Shards: 1})
	s := perMinute(t, 60)
	w.ask("rule", "long", s, algorithm.Ask{Cost: 60})
	w.ask("rule", "short", s, algorithm.Ask{Cost: 1})
	w.pass(second + grace)
	w.ask("rule", "new", s, algorithm.Ask{Cost: 60})
	require.EqualValues(t, 1, w.store.Stats().Expired)

	w = open(t, memory.Options{Shards: 1})
	w.ask("rule", "refunded", s, algorithm.Ask{Cost: 60})
	w.ask("rule", "refunded", s, algorithm.Ask{Mode: algorithm.Refund, Cost: 59})
	w.pass(second + grace)
	w.ask("rule", "new", s, algorithm.Ask{Cost: 60})
	require.EqualValues(t, 1, w.store.Stats().Expired)
}

// TestOwnsItsKeys: the store keeps nothing of the caller's memory.
func TestOwnsItsKeys(t *testing.T) {
	w := open(t, memory.Options{})
	buffer := []byte("key")
	w.spend(unsafe.String(&buffer[0], len(buffer)), perMinute(t, 5))
	copy(buffer, "xxx")
	require.EqualValues(t, 3, w.spend("key", perMinute(t, 5)).Remaining)
}

// TestKeptUntilAsNew: a state is dropped no earlier than a late caller could
// tell, for each algorithm.
func TestKeptUntilAsNew(t *testing.T) {
	for _, l := range []algorithm.Limit{
		{Kind: algorithm.FixedWindow, Requests: 5, WindowUS: minute},
		{Kind: algorithm.SlidingWindowLog, Requests: 5, WindowUS: minute},
		{Kind: algorithm.SlidingWindowCounter, Requests: 5, WindowUS: minute},
		{Kind: algorithm.TokenBucket, Requests: 5, WindowUS: minute},
		{Kind: algorithm.LeakyBucket, Requests: 5, WindowUS: minute},
		{Kind: algorithm.Concurrency, Requests: 5, LeaseTTLUS: minute},
	} {
		t.Run(l.Kind.String(), func(t *testing.T) {
			w := open(t, memory.Options{Shards: 1})
			s := spec(t, l)
			w.spend("gone before", spec(t, algorithm.Limit{Requests: 5, WindowUS: 1000}))
			d := w.ask("rule", "key", s, algorithm.Ask{Cost: 5, Lease: "a"})
			wait := d.ResetAfterUS
			if l.Kind == algorithm.Concurrency {
				wait = minute
			}
			other := spec(t, algorithm.Limit{Requests: 5, WindowUS: 24 * hour})
			w.pass(wait + grace - 1)
			w.fill("rule", "early", 10, other)
			require.EqualValues(t, 1, w.store.Stats().Expired)
			w.pass(-grace) // a caller whose time was read earlier
			require.False(t, w.ask("rule", "key", s, algorithm.Ask{Cost: 5, Lease: "b"}).Allowed)
			w.pass(grace + 1)
			w.fill("rule", "late", 50, other)
			require.EqualValues(t, 2, w.store.Stats().Expired)
		})
	}
}

// TestReset: a key forgotten is not counted any more, and unknown ones do no harm.
func TestReset(t *testing.T) {
	w := open(t, memory.Options{})
	s := perMinute(t, 5)
	w.fill("rule", "key", 3, s)
	items := []backends.Item{{Key: "key0", Spec: s}, {Key: "nobody", Spec: s}}
	require.NoError(t, w.store.Reset(context.Background(), items))
	require.EqualValues(t, 2, w.store.Stats().Keys)
	require.EqualValues(t, 4, w.spend("key0", s).Remaining)
}

func TestScan(t *testing.T) {
	w := open(t, memory.Options{})
	w.fill("rule", "a/", 300, perMinute(t, 5))
	w.fill("rule", "b/", 5, perMinute(t, 5))
	scan := func(prefix string, most int) (keys []string) {
		err := w.store.Scan(context.Background(), prefix, func(key string) bool {
			keys = append(keys, key)
			return len(keys) < most
		})
		require.NoError(t, err)
		slices.Sort(keys)
		return keys
	}
	require.Equal(t, []string{"b/0", "b/1", "b/2", "b/3", "b/4"}, scan("b/", 100))
	require.Len(t, scan("", 1000), 305)
	require.Len(t, scan("a/", 7), 7)
	require.Empty(t, scan("c", 7))
	n, err := w.store.CountKeys(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, 305, n)

	gone, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, w.store.Scan(gone, "", func(string) bool { return true }), context.Canceled)
}

// TestShrinks: a map that was large and is nearly empty is made anew, with all
// that it holds.
func TestShrinks(t *testing.T) {
	w := open(t, memory.Options{Shards: 1, SweepEvery: 5 * time.Millisecond})
	long := spec(t, algorithm.Limit{Requests: 5, WindowUS: 24 * hour})
	w.fill("rule", "short", 5000, perMinute(t, 60))
	w.fill("rule", "long", 300, long)
	w.pass(second + grace)
	require.Eventually(t, func() bool { return w.store.Stats().Keys == 300 }, 5*time.Second, time.Millisecond)
	for i := range 300 {
		require.EqualValues(t, 3, w.spend(fmt.Sprintf("long%d", i), long).Remaining)
	}
}

func TestRealClock(t *testing.T) {
	store := memory.New(memory.Options{})
	defer func() { require.NoError(t, store.Close(context.Background())) }()
	s := spec(t, algorithm.Limit{Requests: 5, WindowUS: hour})
	b := &backends.Batch{Calls: []backends.Call{{Items: []backends.Item{{Key: "a", Spec: s, Ask: algorithm.Ask{Cost: 1}}}}}}
	require.NoError(t, backends.Decide(context.Background(), store, b))
	end := time.Now().UnixMicro() + b.Calls[0].Items[0].Decision.ResetAfterUS
	wantEnd := time.Now().Truncate(time.Hour).Add(time.Hour).UnixMicro()
	require.InDelta(t, wantEnd, end, float64(5*second))
}
