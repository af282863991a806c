package server

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirhq/weir/pkg/backends"
)

// healthNames are the service names that health checks ask for.
var healthNames = []string{"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"}

const healthEvery = 250 * time.Millisecond

// health tells probes how the server is.
//
// Healthy is what /healthcheck and the gRPC health service say. One path serves
// liveness and readiness in many deployments, so it does not follow the store
// unless REDIS_HEALTH_CHECK_ACTIVE_CONNECTION says so: an outage must not take
// every replica out.
type health struct {
	server *Server
	grpc   *grpchealth.Server
	pinged atomic.Bool // the store answered the last ping
	// streams ends the health service's Watch calls, which have no end of their own.
	streams    context.Context
	endStreams context.CancelFunc
}

func newHealth(s *Server) *health {
	h := &health{server: s, grpc: grpchealth.NewServer()}
	h.streams, h.endStreams = context.WithCancel(context.Background())
	h.update(context.Background())
	return h
}

func (h *health) healthy() bool {
	s := h.server
	switch {
	case s.draining.Load():
		return false
	case s.settings.Rules.HealthyWithOne && !h.hasDomain():
		return false
	case s.settings.Redis.HealthCheck && !h.pinged.Load():
		return false
	default:
		return true
	}
}

// ready also wants a configuration.
func (h *health) ready() bool { return h.healthy() && h.server.rules.snapshot() != nil }

func (h *health) hasDomain() bool {
	snapshot := h.server.rules.snapshot()
	return snapshot != nil && len(snapshot.Domains()) > 0
}

// run keeps the gRPC health service up to date.
func (h *health) run(ctx context.Context) {
	ticker := time.NewTicker(healthEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			h.update(ctx)
		}
	}
}

func (h *health) update(ctx context.Context) {
	if h.server.settings.Redis.HealthCheck {
		h.ping(ctx)
	}
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if h.healthy() {
		status = healthpb.HealthCheckResponse_SERVING
	}
	for _, name := range healthNames {
		h.grpc.SetServingStatus(name, status)
	}
}

func (h *health) ping(ctx context.Context) {
	p, ok := h.server.store.(backends.Pinger)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, h.server.settings.Store.Timeout)
	defer cancel()
	h.pinged.Store(p.Ping(ctx) == nil)
}

// endable gives streams a context that the drain can end.
func (h *health) endable(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	stop := context.AfterFunc(h.streams, cancel)
	defer stop()
	return handler(srv, endableStream{stream, ctx})
}

type endableStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s endableStream) Context() context.Context { return s.ctx }
