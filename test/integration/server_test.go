package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirhq/weir/internal/testutil/redistest"
)

func entry(key, value string) *ratelimit.RateLimitDescriptor {
	return &ratelimit.RateLimitDescriptor{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: key, Value: value}}}
}

func ask(domain string, d ...*ratelimit.RateLimitDescriptor) *rls.RateLimitRequest {
	return &rls.RateLimitRequest{Domain: domain, Descriptors: d}
}

// TestTwoProcessesShareExactly floods one key through two processes on one
// Redis. WEIR_TEST_SECONDS sets how long.
func TestTwoProcessesShareExactly(t *testing.T) {
	seconds := 3
	if n := os.Getenv("WEIR_TEST_SECONDS"); n != "" {
		_, err := fmt.Sscan(n, &seconds)
		require.NoError(t, err)
	}
	redis := redistest.Start(t)
	env := func() map[string]string {
		return map[string]string{"BACKEND_TYPE": "redis", "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": redis.Addr()}
	}
	const rules = `
domain: d
descriptors:
  - {key: fixed, rate_limit: {unit: second, requests_per_unit: 100}}
  - {key: bucket, rate_limit: {unit: second, requests_per_unit: 100, burst: 100, algorithm: token_bucket}}
`
	var clients []rls.RateLimitServiceClient
	for range 2 {
		weir, _ := serve(t, rules, env())
		clients = append(clients, client(t, weir))
	}
	for _, key := range []string{"fixed", "bucket"} {
		t.Run(key, func(t *testing.T) {
			// Begin and end inside windows, so that whole ones can be counted.
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1100 * time.Millisecond)))
			began := time.Now()
			ends := began.Add(time.Duration(seconds) * time.Second)
			var allowed atomic.Int64
			var wait sync.WaitGroup
			for caller := range 64 {
				wait.Go(func() {
					for time.Now().Before(ends) {
						ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
						resp, err := clients[caller%2].ShouldRateLimit(ctx, ask("d", entry(key, "k")))
						cancel()
						if err != nil {
							t.Errorf("a call failed: %v", err)
							return
						}
						if resp.GetOverallCode() == rls.RateLimitResponse_OK {
							allowed.Add(1)
						}
					}
				})
			}
			wait.Wait()
			took := time.Since(began)
			least, most := bound(key, began, took)
			t.Logf("%s: %d allowed in %s, between %d and %d", key, allowed.Load(), took, least, most)
			require.LessOrEqual(t, allowed.Load(), most)
			require.GreaterOrEqual(t, allowed.Load(), least*99/100)
		})
	}
}

// bound is how many of a flood must and may pass at 100 a second.
func bound(key string, began time.Time, took time.Duration) (least, most int64) {
	if key == "bucket" {
		n := 100 + int64(took.Seconds()*100)
		return n - 1, n + 1
	}
	windows := began.Add(took).Unix() - began.Unix() + 1
	return (windows - 1) * 100, windows * 100
}

func TestBadInputIsAnsweredAndChangesNothing(t *testing.T) {
	redis := redistest.Start(t)
	weir, _ := serve(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 10}}]\n",
		map[string]string{"BACKEND_TYPE": "redis", "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": redis.Addr()})
	c := client(t, weir)
	ctx := context.Background()

	many := make([]*ratelimit.RateLimitDescriptor_Entry, 100_000)
	for i := range many {
		many[i] = &ratelimit.RateLimitDescriptor_Entry{Key: "k", Value: "v"}
	}
	badUnit := entry("none", "a")
	badUnit.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: 77}
	huge := entry("k", "a")
	huge.HitsAddend = wrapperspb.UInt64(1<<64 - 1)

	for name, tt := range map[string]struct {
		req  *rls.RateLimitRequest
		want string // code, or overall code
	}{
		"no domain":         {ask("", entry("k", "a")), "InvalidArgument"},
		"no descriptors":    {ask("d"), "InvalidArgument"},
		"100,000 entries":   {ask("d", &ratelimit.RateLimitDescriptor{Entries: many}), "InvalidArgument"},
		"a 1 MB value":      {ask("d", entry("k", strings.Repeat("x", 1<<20))), "InvalidArgument"},
		"5 MB":              {ask("d", entry("k", strings.Repeat("x", 5<<20))), "ResourceExhausted"},
		"an unheard unit":   {ask("d", badUnit), "OK"},
		"2^64-1 hits":       {ask("d", huge), "OVER_LIMIT"},
		"an unknown domain": {ask("nosuch", entry("k", "a")), "OK"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := c.ShouldRateLimit(ctx, tt.req)
			got := status.Code(err).String()
			if err == nil {
				got = resp.GetOverallCode().String()
			}
			require.Equal(t, tt.want, got)
		})
	}
	t.Run("invalid UTF-8", func(t *testing.T) {
		err := connect(t, weir).Invoke(ctx, "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", raw("\x0a\x02\xff\xfe"), new(raw), rawOption)
		require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
	})
	size, err := redis.Client().DBSize(ctx).Result()
	require.NoError(t, err)
	require.Zero(t, size, "nothing was stored")
	resp, err := c.ShouldRateLimit(ctx, ask("d", entry("k", "a")))
	require.NoError(t, err)
	require.Equal(t, uint32(9), resp.GetStatuses()[0].GetLimitRemaining())
}

func TestOneRoundTripForAllDescriptors(t *testing.T) {
	redis := redistest.Start(t)
	weir, _ := serve(t, "domain: d\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 10}}, {key: b, rate_limit: {unit: hour, requests_per_unit: 10, algorithm: token_bucket}}, {key: l, rate_limits: [{unit: minute, requests_per_unit: 5}, {unit: day, requests_per_unit: 50}]}]\n",
		map[string]string{"BACKEND_TYPE": "redis", "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": redis.Addr()})
	c := client(t, weir)
	ctx := context.Background()
	req := ask("d", entry("a", "1"), entry("b", "1"), entry("l", "1"))
	_, err := c.ShouldRateLimit(ctx, req) // loads the scripts
	require.NoError(t, err)
	own := redis.Client()
	events := func() int64 {
		text, err := own.Info(ctx, "stats").Result()
		require.NoError(t, err)
		for line := range strings.Lines(text) {
			var n int64
			if _, err := fmt.Sscanf(line, "total_reads_processed:%d", &n); err == nil {
				return n
			}
		}
		t.Fatal("no total_reads_processed")
		return 0
	}
	before := events()
	const n = 50
	for range n {
		_, err := c.ShouldRateLimit(ctx, req)
		require.NoError(t, err)
	}
	// The test's own INFO is one of the reads.
	require.LessOrEqual(t, events()-before, int64(n+2), "a request is one read of the server's")
}

// TestStopFinishesWhatRuns ends a server under load and with an open health
// stream: calls in flight are answered, and it ends by itself.
func TestStopFinishesWhatRuns(t *testing.T) {
	weir, _ := serve(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1000000}}]\n", nil)
	conn := connect(t, weir)
	watch, err := healthpb.NewHealthClient(conn).Watch(context.Background(), &healthpb.HealthCheckRequest{Service: "ratelimit"})
	require.NoError(t, err)
	first, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, healthpb.HealthCheckResponse_SERVING, first.GetStatus())

	c := rls.NewRateLimitServiceClient(conn)
	var failed, answered atomic.Int64
	var wait sync.WaitGroup
	stop := make(chan struct{})
	for range 8 {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, err := c.ShouldRateLimit(context.Background(), ask("d", entry("k", "a")))
				switch {
				case err == nil:
					answered.Add(1)
				case status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "connect"):
					return // the server is gone: the call was never sent
				default:
					failed.Add(1)
					t.Errorf("a call failed: %v", err)
					return
				}
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	weir.Signal(syscall.SIGTERM)
	require.Equal(t, 0, weir.Wait(10*time.Second), "exit code; −1 is still running")
	close(stop)
	wait.Wait()
	require.Zero(t, failed.Load())
	require.NotZero(t, answered.Load())
}

func TestHangupReadsTheRulesAgain(t *testing.T) {
	weir, _ := serve(t, "domain: d\ndescriptors: []\n", map[string]string{"LOG_LEVEL": "info"})
	before := strings.Count(weir.Log(), "rules are in force")
	weir.Signal(syscall.SIGHUP)
	require.Eventually(t, func() bool { return strings.Count(weir.Log(), "rules are in force") == before+1 }, 5*time.Second, 10*time.Millisecond)
	require.True(t, weir.Running())
}

func TestRulesThatCannotBeLoadedAtTheStart(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(folder+"/r.yaml", []byte("domain: d\ndescriptors: [{kee: k}]\n"), 0o600))
	out, code := run(t, "--config", folder)
	require.Equal(t, 1, code)
	require.True(t, bytes.Contains(out, []byte("r.yaml:2:16")), "%s", out)
	require.True(t, bytes.Contains(out, []byte("did you mean `key`?")), "%s", out)
}

func TestASecondRedisForLimitsPerSecond(t *testing.T) {
	main, second := redistest.Start(t), redistest.Start(t)
	weir, _ := serve(t, "domain: d\ndescriptors: [{key: s, rate_limit: {unit: second, requests_per_unit: 1000}}, {key: h, rate_limit: {unit: hour, requests_per_unit: 10}}]\n", map[string]string{
		"BACKEND_TYPE": "redis", "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": main.Addr(),
		"REDIS_PERSECOND": "true", "REDIS_PERSECOND_SOCKET_TYPE": "tcp", "REDIS_PERSECOND_URL": second.Addr(),
	})
	resp, err := client(t, weir).ShouldRateLimit(context.Background(), ask("d", entry("s", "a"), entry("h", "a")))
	require.NoError(t, err)
	require.Equal(t, uint32(999), resp.GetStatuses()[0].GetLimitRemaining())
	require.Equal(t, uint32(9), resp.GetStatuses()[1].GetLimitRemaining())
	for _, server := range []*redistest.Server{main, second} {
		n, err := server.Client().DBSize(context.Background()).Result()
		require.NoError(t, err)
		require.Equal(t, int64(1), n)
	}
}
