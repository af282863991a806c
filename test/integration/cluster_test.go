package integration

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/internal/testutil/redistest"
)

// TestClusterTakesAnyKey decides for 10,000 keys over a cluster of three
// masters, among them values that a key's text could stumble over. No call may
// fail. WEIR_TEST_DECISIONS sets how many decisions are made.
func TestClusterTakesAnyKey(t *testing.T) {
	decisions := int64(20_000)
	if n, err := strconv.ParseInt(os.Getenv("WEIR_TEST_DECISIONS"), 10, 64); err == nil {
		decisions = n
	}
	servers := redistest.StartCluster(t, 3)
	var seeds []string
	for _, s := range servers {
		seeds = append(seeds, s.Addr())
	}
	weir, _ := serve(t, `
domain: d
descriptors:
  - {key: a, rate_limit: {unit: hour, requests_per_unit: 1000000}}
  - {key: b, rate_limit: {unit: hour, requests_per_unit: 1000000, algorithm: token_bucket}}
  - {key: c, rate_limits: [{unit: second, requests_per_unit: 1000000}, {unit: day, requests_per_unit: 1000000, algorithm: sliding_window_counter}]}
  - {key: e, rate_limit: {unit: hour, requests_per_unit: 1000000, algorithm: sliding_window_log}}
`, map[string]string{"BACKEND_TYPE": "redis", "REDIS_TYPE": "cluster", "REDIS_URL": strings.Join(seeds, ",")})
	c := client(t, weir)
	odd := []string{"{", "}", "{}", "}{", "{a}", "a\nb", "nul\x00", "", strings.Repeat("x", 10_000), "ż", "a|b=c", "%7B", "*", "~", "#", " "}
	var next, failed atomic.Int64
	var wait sync.WaitGroup
	began := time.Now()
	for range 32 {
		wait.Go(func() {
			for n := next.Add(4) - 4; n < decisions && failed.Load() == 0; n = next.Add(4) - 4 {
				value := fmt.Sprint("user", n%10_000)
				if n%7 == 0 {
					value = odd[int(n/7)%len(odd)]
				}
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				resp, err := c.ShouldRateLimit(ctx, ask("d", entry("a", value), entry("b", value), entry("c", value), entry("e", value)))
				cancel()
				if err != nil || resp.GetOverallCode() != rls.RateLimitResponse_OK {
					failed.Add(1)
					t.Errorf("%q: %v %v", value, resp, err)
				}
			}
		})
	}
	wait.Wait()
	t.Logf("%d decisions in %s", decisions, time.Since(began).Round(time.Millisecond))
	require.Zero(t, failed.Load())
	for _, s := range servers {
		own := s.Client()
		ctx := context.Background()
		for it := own.Scan(ctx, 0, "*", 1000).Iterator(); it.Next(ctx); {
			ttl, err := own.Do(ctx, "PTTL", it.Val()).Int64()
			require.NoError(t, err)
			require.NotEqual(t, int64(-1), ttl, "%q never expires", it.Val())
		}
	}
}
