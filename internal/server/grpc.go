package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/weirhq/weir/pkg/envoyrls"
)

// minPing is how often a client may ping. Envoy's connection_keepalive pings
// each second, also without a call in flight; grpc-go's own limit of five
// minutes would answer that by closing the connection.
const minPing = 500 * time.Millisecond

func (s *Server) openGRPC(ctx context.Context) error {
	g := &s.settings.GRPC
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(envoyrls.Codec()),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: g.MaxAge, MaxConnectionAgeGrace: g.MaxAgeGrace}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(s.interceptors()...),
		grpc.ChainStreamInterceptor(s.health.endable),
	}
	if g.UseTLS {
		config, closeTLS, err := serverTLS(ctx, g)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, closeTLS)
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	s.grpc = grpc.NewServer(options...)
	rls.RegisterRateLimitServiceServer(s.grpc, s.service)
	healthpb.RegisterHealthServer(s.grpc, s.health.grpc)
	reflection.Register(s.grpc)
	return s.listenGRPC()
}

func (s *Server) interceptors() []grpc.UnaryServerInterceptor {
	if s.refstats == nil {
		return []grpc.UnaryServerInterceptor{recovering(s.log)}
	}
	return []grpc.UnaryServerInterceptor{s.refstats.Unary, recovering(s.log)}
}

func (s *Server) listenGRPC() (err error) {
	l := &s.settings.Listen
	if l.GRPCUDS == "" {
		s.listener, err = net.Listen("tcp", net.JoinHostPort(l.GRPCHost, strconv.Itoa(l.GRPCPort)))
		if err != nil {
			return fmt.Errorf("gRPC port: %w", err)
		}
		return nil
	}
	if err := removeStale(l.GRPCUDS); err != nil {
		return fmt.Errorf("gRPC socket: %w", err)
	}
	s.listener, err = net.Listen("unix", l.GRPCUDS)
	if err != nil {
		return fmt.Errorf("gRPC socket: %w", err)
	}
	return nil
}

// removeStale removes a socket that a process left behind: one that nobody
// listens on.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("%q exists and is no socket", path)
	}
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close()
		return fmt.Errorf("%q is in use by another process", path)
	}
	return os.Remove(path)
}

// recovering answers a panic as an error: no request may end the process.
func recovering(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			if p := recover(); p != nil {
				log.Error("a call failed by a fault of weir", "method", info.FullMethod, "panic", p, "stack", string(debug.Stack()))
				err = status.Error(codes.Internal, "internal fault")
			}
		}()
		return handler(ctx, req)
	}
}
