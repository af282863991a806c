package redis_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirhq/weir/internal/testutil/redistest"
	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/backendtest"
	"github.com/weirhq/weir/pkg/backends/redis"
)

// BenchmarkScripts prints what the server spends on a decision ("redis-µs/op",
// from INFO commandstats) for each algorithm: by a script for each key, and by
// one script for 16 keys. "empty" is a script that does nothing.
//
//	go test -run '^$' -bench Scripts ./pkg/backends/redis
func BenchmarkScripts(b *testing.B) {
	server := redistest.Start(b)
	own := server.Client()
	store, err := redis.New(redis.Options{Addrs: []string{server.Addr()}, Timeout: 10 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close(context.Background()) }()
	b.Run("empty", func(b *testing.B) { emptyScript(b, own) })

	const minute = 60_000_000
	limits := map[string]algorithm.Limit{
		"fixed_window":           {Requests: 1_000_000, WindowUS: minute, CountDenied: true},
		"token_bucket":           {Kind: algorithm.TokenBucket, Requests: 1_000_000, WindowUS: minute},
		"sliding_window_counter": {Kind: algorithm.SlidingWindowCounter, Requests: 1_000_000, WindowUS: minute},
		"log_60_exact":           {Kind: algorithm.SlidingWindowLog, Requests: 60, WindowUS: minute},
		"log_ring_60":            {Kind: algorithm.SlidingWindowLog, Requests: 1_000_000, WindowUS: minute},
		"concurrency":            {Kind: algorithm.Concurrency, Requests: 1_000_000},
	}
	for _, name := range []string{"fixed_window", "token_bucket", "sliding_window_counter", "log_ring_60", "log_60_exact", "concurrency"} {
		spec := backendtest.Spec(b, limits[name])
		b.Run(name, func(b *testing.B) { scripts(b, own, store, spec, false) })
		b.Run(name+"_16_keys", func(b *testing.B) { scripts(b, own, store, spec, true) })
	}
}

// scripts decides 16 keys at a time, out of many.
func scripts(b *testing.B, own *goredis.Client, store backends.Store, spec *algorithm.Spec, together bool) {
	const keys, at = 4096, 16
	own.FlushAll(context.Background())
	own.ConfigResetStat(context.Background())
	n := 0
	for i := 0; i < b.N; i += at {
		items := make([]backends.Item, at)
		for j := range items {
			items[j] = backends.Item{Key: fmt.Sprintf("w1{bench|user=%05d}x:60000", n%keys), Spec: spec, Ask: algorithm.Ask{Cost: 1}, Member: j}
			n++
		}
		batch := &backends.Batch{Calls: []backends.Call{{Items: items}}}
		if !together {
			batch.Calls = make([]backends.Call, at)
			for j := range items {
				batch.Calls[j].Items = items[j : j+1]
			}
		}
		if err := backends.Decide(context.Background(), store, batch); err != nil || batch.Calls[0].Err != nil {
			b.Fatal(err, batch.Calls[0].Err)
		}
	}
	b.ReportMetric(scriptMicros(b, own)/float64(n), "redis-µs/op")
	if size, err := own.MemoryUsage(context.Background(), own.RandomKey(context.Background()).Val()).Result(); err == nil {
		b.ReportMetric(float64(size), "bytes/key")
	}
}

func emptyScript(b *testing.B, own *goredis.Client) {
	ctx := context.Background()
	sha := own.ScriptLoad(ctx, "return 1").Val()
	own.ConfigResetStat(ctx)
	n := 0
	for i := 0; i < b.N; i += 16 {
		pipe := own.Pipeline()
		for range 16 {
			pipe.EvalSha(ctx, sha, []string{"k"})
			n++
		}
		if _, err := pipe.Exec(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(scriptMicros(b, own)/float64(n), "redis-µs/op")
}

// scriptMicros is the time that the server has spent in scripts, in µs.
func scriptMicros(b *testing.B, own *goredis.Client) float64 {
	info, err := own.Info(context.Background(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	total := 0.0
	for line := range strings.Lines(info) {
		for _, name := range []string{"evalsha", "eval"} {
			var calls, usec int64
			if _, err := fmt.Sscanf(line, "cmdstat_"+name+":calls=%d,usec=%d,", &calls, &usec); err == nil {
				total += float64(usec)
			}
		}
	}
	return total
}
