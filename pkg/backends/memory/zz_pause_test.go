package memory_test

import (
	"runtime"
	"sort"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/memory"
)

func cpu() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano())
}

func TestZZPause(t *testing.T) {
	runtime.LockOSThread()
	w := memory.New(memory.Options{MaxKeys: 4_000_000, SweepEvery: 2 * time.Second})
	defer w.Close(nil)
	s := spec(t, algorithm.Limit{Kind: algorithm.TokenBucket, Requests: 10, WindowUS: second})
	b := &backends.Batch{Calls: []backends.Call{{Items: []backends.Item{{Spec: s, Ask: algorithm.Ask{Cost: 10}, Rule: "r"}}}}, Done: func(*backends.Batch) {}}
	const n = 3_000_000
	times := make([]time.Duration, n)
	cpus := make([]time.Duration, n)
	begin := time.Now()
	for i := range n {
		b.Calls[0].Items[0].Key = longKey(i)
		at, c := time.Now(), cpu()
		w.Submit(b)
		times[i], cpus[i] = time.Since(at), cpu()-c
	}
	t.Log(time.Since(begin), w.Stats())
	for _, times := range [][]time.Duration{times, cpus} {
		sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
		t.Log(times[n/2], times[n*99/100], times[n*999/1000], times[n*9999/10000], times[n-10], times[n-1])
	}
}
