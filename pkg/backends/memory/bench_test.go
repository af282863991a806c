package memory_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/memory"
)

var benchLimits = []algorithm.Limit{
	{Kind: algorithm.FixedWindow, Requests: 1000, WindowUS: hour},
	{Kind: algorithm.SlidingWindowLog, Requests: 1000, WindowUS: hour},
	{Kind: algorithm.SlidingWindowCounter, Requests: 1000, WindowUS: hour},
	{Kind: algorithm.TokenBucket, Requests: 1000, WindowUS: hour},
}

// longKey is a key as rules make them, of 60 bytes.
func longKey(n int) string {
	return fmt.Sprintf("weir1{edge|tenant_acme|user_%09d|route_/search}tb:60000", n)[:60]
}

// TestAllocations: deciding for a key in use makes no garbage, alone or with
// others.
func TestAllocations(t *testing.T) {
	for _, l := range benchLimits {
		for _, items := range []int{1, 2, 8} {
			t.Run(fmt.Sprintf("%s of %d", l.Kind, items), func(t *testing.T) {
				w := open(t, memory.Options{})
				b := w.batch(w.items(l, items)...)
				require.Zero(t, testing.AllocsPerRun(2000, func() { w.store.Submit(b) }))
			})
		}
	}
}

// TestRefusedKeysAreNotKept: what leaves nothing to remember costs no memory.
func TestRefusedKeysAreNotKept(t *testing.T) {
	w := open(t, memory.Options{})
	s := spec(t, algorithm.Limit{Kind: algorithm.TokenBucket, Requests: 0, WindowUS: hour})
	b := w.batch(backends.Item{Key: "a", Spec: s, Ask: algorithm.Ask{Cost: 1}})
	require.Zero(t, testing.AllocsPerRun(100, func() { w.store.Submit(b) }))
	require.Zero(t, w.store.Stats().Keys)
}

// Bounds for keys of 60 bytes, text and map included. A map that has just grown
// takes most.
const (
	meanBytesPerKey = 160
	maxBytesPerKey  = 170
)

func TestBytesPerKey(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes memory of its own")
	}
	w := open(t, memory.Options{SweepEvery: -1})
	s := spec(t, benchLimits[3])
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	mean, most, n := 0.0, 0.0, 0
	sizes := []int{150_000, 180_000, 210_000, 240_000, 270_000} // around a doubling
	for _, size := range sizes {
		for ; n < size; n++ {
			w.spend(longKey(n), s)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		each := float64(after.HeapAlloc-before.HeapAlloc) / float64(n)
		mean += each / float64(len(sizes))
		most = max(most, each)
	}
	t.Logf("%.0f bytes per key on average, %.0f at most", mean, most)
	require.Less(t, mean, float64(meanBytesPerKey))
	require.Less(t, most, float64(maxBytesPerKey))
	runtime.KeepAlive(w.store)
}

func BenchmarkDecide(b *testing.B) {
	for _, l := range benchLimits {
		for _, items := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("%s/items=%d", l.Kind, items), func(b *testing.B) {
				w := open(b, memory.Options{})
				batch := w.batch(w.items(l, items)...)
				b.ReportAllocs()
				for b.Loop() {
					w.store.Submit(batch)
				}
			})
		}
	}
}

// BenchmarkMillion decides for keys that are in no cache.
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	store := memory.New(memory.Options{MaxKeys: 2 * n})
	defer func() { require.NoError(b, store.Close(context.Background())) }()
	s := spec(b, benchLimits[3])
	keys := make([]string, n)
	for i := range keys {
		keys[i] = longKey(i)
	}
	one := func(i int) {
		store.Submit(&backends.Batch{
			Calls: []backends.Call{{Items: []backends.Item{{Key: keys[i%n], Spec: s, Ask: algorithm.Ask{Cost: 1}, Rule: "r"}}}},
			Done:  func(*backends.Batch) {},
		})
	}
	for i := range n {
		one(i)
	}
	var next atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			one(int(next.Add(7919)))
		}
	})
}

// BenchmarkFlood is new keys only, into a store that is full.
func BenchmarkFlood(b *testing.B) {
	for _, window := range []int64{second, hour} {
		b.Run(fmt.Sprintf("window=%ds", window/second), func(b *testing.B) {
			store := memory.New(memory.Options{MaxKeys: 100_000})
			defer func() { require.NoError(b, store.Close(context.Background())) }()
			s := spec(b, algorithm.Limit{Kind: algorithm.TokenBucket, Requests: 10, WindowUS: window})
			one := func(i int) {
				store.Submit(&backends.Batch{
					Calls: []backends.Call{{Items: []backends.Item{{Key: longKey(i), Spec: s, Ask: algorithm.Ask{Cost: 10}, Rule: "r"}}}},
					Done:  func(*backends.Batch) {},
				})
			}
			for i := range 200_000 {
				one(i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				one(200_000 + i)
			}
			b.ReportMetric(float64(store.Stats().Keys), "keys")
			b.ReportMetric(float64(store.Stats().Shared), "shared")
		})
	}
}
