package load

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rls is a real grpc-go server whose answers a test chooses.
type rls struct {
	rlsv3.UnimplementedRateLimitServiceServer
	answer func(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error)
	asked  atomic.Uint64
}

func (s *rls) ShouldRateLimit(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	s.asked.Add(1)
	return s.answer(ctx, req)
}

func serve(t *testing.T, s *rls, options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(options...)
	rlsv3.RegisterRateLimitServiceServer(server, s)
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		served.Wait()
	})
	return listener.Addr().String()
}

// byKey refuses what asks for the key "deny".
func byKey(_ context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	out := &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK}
	for _, d := range req.GetDescriptors() {
		code := rlsv3.RateLimitResponse_OK
		if d.GetEntries()[0].GetKey() == "deny" {
			code = rlsv3.RateLimitResponse_OVER_LIMIT
			out.OverallCode = code
		}
		out.Statuses = append(out.Statuses, &rlsv3.RateLimitResponse_DescriptorStatus{Code: code})
	}
	return out, nil
}

func testShape() Shape {
	return Shape{Domain: "bench", Descriptors: 2, Keys: 100, Keyed: Uniform, AllowKey: "allow", DenyKey: "deny"}
}

func dialTest(t *testing.T, cfg Config) *Load {
	t.Helper()
	l, err := Dial(cfg)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

func TestClosedLoopCountsEveryVerdict(t *testing.T) {
	server := &rls{answer: byKey}
	shape := testShape()
	shape.Denied = 0.25
	l := dialTest(t, Config{Addr: serve(t, server), Connections: 3, Timeout: time.Second, Shape: shape})
	primed := server.asked.Load()
	require.EqualValues(t, 3, primed)

	for range 2 { // runs follow each other on the same connections
		before := server.asked.Load()
		r, err := l.Closed(t.Context(), 8, 150*time.Millisecond)
		require.NoError(t, err)
		require.Empty(t, r.Failed)
		require.Equal(t, server.asked.Load()-before, r.Answered())
		require.Greater(t, r.OverLimit, uint64(10))
		require.InDelta(t, 0.25, float64(r.OverLimit)/float64(r.Answered()), 0.02)
		require.EqualValues(t, r.Answered(), r.Latency.Count())
		require.Zero(t, r.Lateness.Count())
	}
}

func TestClosedLoopKeepsTheCallersInFlight(t *testing.T) {
	var inFlight, most atomic.Int64
	server := &rls{answer: func(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
		n := inFlight.Add(1)
		defer inFlight.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-time.After(2 * time.Millisecond) // a slow server, so that all callers wait at once
		return byKey(ctx, req)
	}}
	l := dialTest(t, Config{Addr: serve(t, server), Connections: 2, Shape: testShape()})
	_, err := l.Closed(t.Context(), 5, 100*time.Millisecond)
	require.NoError(t, err)
	require.EqualValues(t, 10, most.Load())
}

func TestRequestsDecodeAsWritten(t *testing.T) {
	var mu sync.Mutex
	clients, routes := map[string]int{}, map[string]int{}
	timeouts := 0
	server := &rls{answer: func(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= time.Second {
			timeouts++
		}
		if req.GetDomain() != "bench" || len(req.GetDescriptors()) != 3 {
			return nil, status.Errorf(codes.InvalidArgument, "%v", req)
		}
		for _, d := range req.GetDescriptors() {
			routes[d.GetEntries()[0].GetValue()]++
			clients[d.GetEntries()[1].GetKey()+"="+d.GetEntries()[1].GetValue()]++
		}
		return byKey(ctx, req)
	}}
	shape := testShape()
	shape.Descriptors, shape.Keys, shape.Routes, shape.AllowKey = 3, 20, 4, "client"
	l := dialTest(t, Config{Addr: serve(t, server), Connections: 1, Timeout: time.Second, Shape: shape})
	r, err := l.Closed(t.Context(), 4, 200*time.Millisecond)
	require.NoError(t, err)
	require.Empty(t, r.Failed)
	mu.Lock()
	defer mu.Unlock()
	require.EqualValues(t, r.Answered()+1, timeouts)
	require.Len(t, routes, 4)
	require.Contains(t, routes, "r00000003")
	require.Len(t, clients, 60) // 20 in each of the three places
	require.Contains(t, clients, "client=d2k00000019")
}

func TestFailuresAreCountedByReason(t *testing.T) {
	cases := []struct {
		name   string
		answer func() (*rlsv3.RateLimitResponse, error)
		reason string
	}{
		{"grpc status", func() (*rlsv3.RateLimitResponse, error) { return nil, status.Error(codes.Unavailable, "no") }, "grpc-status 14"},
		{"too few statuses", func() (*rlsv3.RateLimitResponse, error) {
			return &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK}, nil
		}, "0 statuses"},
		{"unknown", func() (*rlsv3.RateLimitResponse, error) {
			return &rlsv3.RateLimitResponse{Statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{{}, {}}}, nil
		}, "overall code UNKNOWN"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			var primed atomic.Bool
			server := &rls{answer: func(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
				if primed.CompareAndSwap(false, true) {
					return byKey(ctx, req)
				}
				return tc.answer()
			}}
			l := dialTest(t, Config{Addr: serve(t, server), Connections: 1, Shape: testShape()})
			r, err := l.Closed(t.Context(), 2, 50*time.Millisecond)
			require.NoError(t, err)
			require.Zero(t, r.Answered())
			require.Positive(t, r.Failed[tc.reason], "%v", r.Failed)
			require.Equal(t, r.Failed[tc.reason], r.Failures())
		})
	}
}

func TestDialNeedsAVerdict(t *testing.T) {
	server := &rls{answer: func(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
		return nil, status.Error(codes.Unavailable, "no rules yet")
	}}
	_, err := Dial(Config{Addr: serve(t, server), Connections: 1, Shape: testShape()})
	require.ErrorContains(t, err, "grpc-status 14")
}

func TestConfigIsChecked(t *testing.T) {
	cases := map[string]func(*Config){
		"no loopback address": func(c *Config) { c.Addr = "192.0.2.1:8081" },
		"0 connections":       func(c *Config) { c.Connections = 0 },
		"0 descriptors":       func(c *Config) { c.Shape.Descriptors = 0 },
		`distribution "fair"`: func(c *Config) { c.Shape.Keyed = "fair" },
	}
	for want, spoil := range cases {
		t.Run(want, func(t *testing.T) {
			cfg := Config{Addr: "127.0.0.1:1", Connections: 1, Shape: testShape()}
			spoil(&cfg)
			_, err := Dial(cfg)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestALostConnectionFailsWhatItOwes(t *testing.T) {
	const callers = 7
	var calls atomic.Int64
	allHere, hold := make(chan struct{}), make(chan struct{})
	server := &rls{answer: func(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
		switch n := calls.Add(1); {
		case n == 1:
			return byKey(ctx, req)
		case n == 1+callers:
			close(allHere)
		}
		<-hold
		return byKey(ctx, req)
	}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := grpc.NewServer()
	rlsv3.RegisterRateLimitServiceServer(g, server)
	var served sync.WaitGroup
	served.Go(func() { _ = g.Serve(listener) })
	l := dialTest(t, Config{Addr: listener.Addr().String(), Connections: 1, Shape: testShape()})
	served.Go(func() {
		<-allHere
		close(hold)
		g.Stop()
	})
	r, err := l.Closed(t.Context(), callers, 300*time.Millisecond)
	require.NoError(t, err)
	served.Wait()
	require.Positive(t, r.Failures())
	for reason := range r.Failed {
		require.True(t, strings.HasPrefix(reason, "connection: ") || strings.HasPrefix(reason, "grpc-status"), reason)
	}
	_, err = l.Closed(t.Context(), callers, 50*time.Millisecond)
	require.ErrorContains(t, err, "connection lost")
}

func TestPeersStreamLimitIsKept(t *testing.T) {
	server := &rls{answer: byKey}
	addr := serve(t, server, grpc.MaxConcurrentStreams(3))
	l := dialTest(t, Config{Addr: addr, Connections: 1, Shape: testShape()})
	r, err := l.Closed(t.Context(), 50, 100*time.Millisecond)
	require.NoError(t, err)
	require.Empty(t, r.Failed)
	require.Positive(t, r.OK)
}

func TestLargeRequestsAndAnswersFlow(t *testing.T) {
	big := strings.Repeat("x", 100_000)
	server := &rls{answer: func(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
		out, err := byKey(ctx, req)
		out.RawBody = []byte(big)
		return out, err
	}}
	shape := testShape()
	shape.Descriptors = 500 // more requests than the peer's first window takes
	l := dialTest(t, Config{Addr: serve(t, server), Connections: 1, Shape: shape})
	r, err := l.Closed(t.Context(), 20, 300*time.Millisecond)
	require.NoError(t, err)
	require.Empty(t, r.Failed)
	require.Greater(t, r.OK, uint64(20))
}

func TestLongHeadersComeInSeveralFrames(t *testing.T) {
	server := &rls{answer: func(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
		if err := grpc.SetTrailer(ctx, metadata.Pairs("story", strings.Repeat("x~", 20_000))); err != nil {
			return nil, err
		}
		return byKey(ctx, req)
	}}
	l := dialTest(t, Config{Addr: serve(t, server), Connections: 1, Shape: testShape()})
	r, err := l.Closed(t.Context(), 3, 50*time.Millisecond)
	require.NoError(t, err)
	require.Empty(t, r.Failed)
	require.Positive(t, r.OK)
}

func TestTimeoutsOfThePeerAreFailures(t *testing.T) {
	var primed atomic.Bool
	server := &rls{answer: func(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
		if primed.CompareAndSwap(false, true) {
			return byKey(ctx, req)
		}
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}}
	l := dialTest(t, Config{Addr: serve(t, server), Connections: 1, Timeout: 100 * time.Millisecond, Shape: testShape()})
	r, err := l.Closed(t.Context(), 2, 50*time.Millisecond)
	require.NoError(t, err)
	require.Zero(t, r.Answered())
	require.EqualValues(t, 2, r.Failures())
	for reason := range r.Failed {
		require.Contains(t, []string{"grpc-status 4", "reset: CANCEL"}, reason)
	}
}

func TestUnansweredRequestsAreFailures(t *testing.T) {
	hold := make(chan struct{})
	var primed atomic.Bool
	server := &rls{answer: func(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
		if !primed.CompareAndSwap(false, true) {
			<-hold
		}
		return byKey(ctx, req)
	}}
	addr := serve(t, server)
	t.Cleanup(func() { close(hold) })
	l := dialTest(t, Config{Addr: addr, Connections: 1, Shape: testShape()})
	r, err := l.Closed(t.Context(), 4, 10*time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"unanswered": 4}, r.Failed)
}
