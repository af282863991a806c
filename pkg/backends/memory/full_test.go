package memory_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends/memory"
)

// TestFullDropsExpiredFirst: as long as anything has expired, new keys get
// states of their own.
func TestFullDropsExpiredFirst(t *testing.T) {
	w := open(t, memory.Options{MaxKeys: 50, MaxKeysPerRule: 50, Shards: 1})
	s := perMinute(t, 60)
	w.fill("rule", "a", 50, s)
	w.pass(second + grace)
	w.fill("rule", "b", 50, s)
	require.Empty(t, w.overflowed)
	require.Zero(t, w.store.Stats().Shared)
	w.fill("rule", "c", 1, s)
	require.Equal(t, []string{"rule"}, w.overflowed)

	w = open(t, memory.Options{MaxKeys: 50, MaxKeysPerRule: 50, Shards: 1})
	w.fill("rule", "long", 47, perMinute(t, 1))
	w.fill("rule", "short", 3, s)
	w.pass(second + grace)
	w.fill("rule", "new", 3, perMinute(t, 1))
	require.Empty(t, w.overflowed, "three of fifty are found")
}

// TestFullIsStrict: whatever happens, no key ever gets more than its limit, and
// those that had a state keep it.
func TestFullIsStrict(t *testing.T) {
	w := open(t, memory.Options{MaxKeys: 100, MaxKeysPerRule: 100})
	s := spec(t, algorithm.Limit{Requests: 3, WindowUS: hour})
	taken := map[string]int{}
	for round := range 5 {
		for i := range 20_000 {
			key := "key" + strconv.Itoa(i)
			if w.spend(key, s).Allowed {
				taken[key]++
			}
		}
		require.LessOrEqual(t, w.store.Stats().Keys, int64(100), "round %d", round)
		require.LessOrEqual(t, w.store.Stats().Shared, int64(4096), "round %d", round)
	}
	full, all := 0, 0
	for key, n := range taken {
		require.LessOrEqual(t, n, 3, key)
		all += n
		if n == 3 {
			full++
		}
	}
	require.GreaterOrEqual(t, full, 100, "keys with a state have their whole limit")
	require.LessOrEqual(t, all, 3*(100+4096), "the others share cells of one limit each")
	require.Greater(t, all, 3*(100+4000), "which are nearly all in use")
}

// TestStaysInCell: a key that overflowed stays in its cell although there is
// room again, until the cell is as new.
func TestStaysInCell(t *testing.T) {
	w := open(t, memory.Options{MaxKeys: 1, Shards: 1})
	s := spec(t, algorithm.Limit{Requests: 3, WindowUS: hour})
	short := perMinute(t, 60)
	w.ask("other", "holds the place", short, algorithm.Ask{Cost: 1})
	require.EqualValues(t, 2, w.spend("key", s).Remaining)
	require.EqualValues(t, 1, w.store.Stats().Shared)

	w.pass(second + grace)
	require.EqualValues(t, 1, w.spend("key", s).Remaining)
	require.EqualValues(t, 0, w.spend("key", s).Remaining)
	require.False(t, w.spend("key", s).Allowed)
	require.EqualValues(t, 1, w.store.Stats().Shared)

	w.pass(hour + grace)
	require.EqualValues(t, 2, w.spend("key", s).Remaining)
	var keys []string
	require.NoError(t, w.store.Scan(t.Context(), "", func(key string) bool { keys = append(keys, key); return true }))
	require.Equal(t, []string{"key"}, keys, "a state of its own")
}

// TestCellsAreUsedAgain: a cell that has expired is no further one when its keys
// come back.
func TestCellsAreUsedAgain(t *testing.T) {
	w := open(t, memory.Options{MaxKeys: 1, Shards: 1})
	s := perMinute(t, 60)
	w.ask("other", "holds the place", spec(t, algorithm.Limit{Requests: 3, WindowUS: 24 * hour}), algorithm.Ask{Cost: 1})
	for range 5 {
		require.EqualValues(t, 59, w.spend("key", s).Remaining)
		w.pass(second + grace)
	}
	require.EqualValues(t, 1, w.store.Stats().Shared)
}

// TestRuleCap: one flooded rule leaves room for others.
func TestRuleCap(t *testing.T) {
	w := open(t, memory.Options{MaxKeys: 1000})
	s := spec(t, algorithm.Limit{Requests: 3, WindowUS: hour})
	w.fill("flooded", "f", 5000, s)
	require.EqualValues(t, 750, w.store.Stats().Keys)
	w.fill("calm", "c", 250, s)
	require.EqualValues(t, 1000, w.store.Stats().Keys)
	require.Equal(t, []string{"flooded"}, w.overflowed)
	for i := range 250 {
		require.EqualValues(t, 1, w.ask("calm", "c"+strconv.Itoa(i), s, algorithm.Ask{Cost: 1}).Remaining)
	}
}

// TestFormsDoNotShare: states of different algorithms, and of different rules,
// are in different cells.
func TestFormsDoNotShare(t *testing.T) {
	w := open(t, memory.Options{MaxKeys: 1, Shards: 1})
	w.fill("rule", "holds the place", 1, spec(t, algorithm.Limit{Requests: 3, WindowUS: hour}))
	for _, rule := range []string{"a", "b", ""} {
		for _, l := range []algorithm.Limit{
			{Kind: algorithm.FixedWindow, Requests: 3, WindowUS: hour},
			{Kind: algorithm.FixedWindow, Requests: 3, WindowUS: minute},
			{Kind: algorithm.SlidingWindowLog, Requests: 3, WindowUS: hour},
			{Kind: algorithm.SlidingWindowCounter, Requests: 3, WindowUS: hour},
			{Kind: algorithm.TokenBucket, Requests: 3, WindowUS: hour},
			{Kind: algorithm.Concurrency, Requests: 3},
		} {
			d := w.ask(rule, "key", spec(t, l), algorithm.Ask{Cost: 1, Lease: rule})
			require.EqualValues(t, 2, d.Remaining, "%s in %q", l.Kind, rule)
		}
	}
	require.EqualValues(t, 18, w.store.Stats().Shared)
}

// TestTellsOnceAMinute: a rule that overflows again and again is told of seldom.
func TestTellsOnceAMinute(t *testing.T) {
	w := open(t, memory.Options{MaxKeys: 1, Shards: 1, SweepEvery: 1_000_000})
	s := perMinute(t, 60)
	w.ask("other", "holds the place", spec(t, algorithm.Limit{Requests: 3, WindowUS: 24 * hour}), algorithm.Ask{Cost: 1})
	for range 180 {
		w.spend("key", s)
		w.pass(second + grace)
		require.Eventually(t, func() bool { return w.store.Stats().Shared == 0 }, 5e9, 1e6)
	}
	require.Len(t, w.overflowed, 6, "in six minutes")
}

// TestLooksDoNotFill: what is only looked at needs no room.
func TestLooksDoNotFill(t *testing.T) {
	w := open(t, memory.Options{MaxKeys: 10})
	s := perMinute(t, 5)
	for i := range 1000 {
		require.True(t, w.ask("rule", strconv.Itoa(i), s, algorithm.Ask{Mode: algorithm.Look, Cost: 5}).Allowed)
	}
	require.Zero(t, w.store.Stats().Keys+w.store.Stats().Shared)
}

// TestHoldsNoMoreThanAllowed from many callers at once.
func TestHoldsNoMoreThanAllowed(t *testing.T) {
	w := open(t, memory.Options{MaxKeys: 500, SweepEvery: 5_000_000})
	s := spec(t, algorithm.Limit{Requests: 3, WindowUS: second})
	var wait sync.WaitGroup
	for caller := range 8 {
		wait.Go(func() {
			for i := range 3000 {
				w.ask("rule"+strconv.Itoa(i%5), strconv.Itoa(caller)+"/"+strconv.Itoa(i), s, algorithm.Ask{Cost: 1})
				if i%100 == 0 {
					w.pass(second / 2)
				}
			}
		})
	}
	wait.Wait()
	require.LessOrEqual(t, w.store.Stats().Keys, int64(500))
	w.pass(second + grace)
	require.Eventually(t, func() bool { return w.store.Stats() == memory.Stats{Expired: w.store.Stats().Expired} }, 5e9, 1e6)
}
