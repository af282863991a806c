// Package server makes a running weir of settings. It is the only place that
// wires: it opens the store, loads and watches the rules, serves the ports, and
// closes everything in order.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/weirhq/weir/internal/headers"
	"github.com/weirhq/weir/internal/metrics"
	"github.com/weirhq/weir/internal/refstats"
	"github.com/weirhq/weir/internal/settings"
	"github.com/weirhq/weir/internal/web"
	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/memory"
	"github.com/weirhq/weir/pkg/descriptors"
	"github.com/weirhq/weir/pkg/envoyrls"
	"github.com/weirhq/weir/pkg/limiter"
)

// Server is everything opened and not yet serving. Run serves it, once.
type Server struct {
	settings settings.Settings
	log      *slog.Logger

	metrics  *metrics.Metrics
	store    backends.Store
	local    *memory.Store
	rules    *rules
	service  *envoyrls.Service
	refstats *refstats.Stats // nil unless the reference's names are asked for
	health   *health
	grpc     *grpc.Server
	web      []*webServer
	listener net.Listener // gRPC
	closers  []func()     // in order of opening
	draining atomic.Bool
	started  time.Time
}

// webServer is an HTTP port.
type webServer struct {
	name     string
	server   *http.Server
	listener net.Listener
}

// Open checks the settings, opens the store, loads the rules and binds the
// ports. What was opened is closed again when it fails half-way. In the layout
// of --config broken rules are an error; in the reference's layout the server
// starts and answers Unavailable until a good load.
func Open(ctx context.Context, s settings.Settings, log *slog.Logger) (*Server, error) {
	srv := &Server{settings: s, log: log, started: time.Now()}
	if err := srv.open(ctx); err != nil {
		srv.close()
		return nil, err
	}
	return srv, nil
}

func (s *Server) open(ctx context.Context) error {
	if s.settings.Rules.Config == "" && s.settings.Rules.ConfigType != "FILE" {
		// Serving without any rule would look like serving.
		return fmt.Errorf("CONFIG_TYPE=%s: rules by xDS are not supported yet; use FILE", s.settings.Rules.ConfigType)
	}
	kind, err := storeKind(s.settings)
	if err != nil {
		return err
	}
	s.metrics = metrics.New(kind)
	if err := s.openRefstats(); err != nil {
		return err
	}
	if err := s.openStore(ctx, kind); err != nil {
		return err
	}
	if s.rules, err = openRules(s.settings, s.log, s.metrics, s.refstats); err != nil {
		return err
	}
	if err := s.openService(); err != nil {
		return err
	}
	s.health = newHealth(s)
	if err := s.openGRPC(ctx); err != nil {
		return err
	}
	if err := s.openWeb(); err != nil {
		return err
	}
	s.log.Info("weir is ready to serve", "grpc", s.GRPCAddr(), "http", s.HTTPAddr(), "debug", s.DebugAddr(), "store", kind)
	return nil
}

// openService puts the engine together: limiter over store, the protocol over
// the limiter.
func (s *Server) openService() error {
	a := &s.settings.Answers
	s.local = memory.New(memory.Options{MaxKeys: s.settings.Store.MemoryKeys})
	s.closers = append(s.closers, func() { _ = s.local.Close(context.Background()) })
	engine := limiter.New(s.store, limiter.Options{
		Timeout:  s.settings.Store.Timeout,
		Local:    s.local,
		Replicas: s.settings.Rules.DefaultReplicas,
	})
	opts := envoyrls.Options{
		HeaderNames:       headers.Names{Limit: a.LimitHeader, Remaining: a.RemainingHeader, Reset: a.ResetHeader},
		NoRetryAfter:      !a.RetryAfter,
		StatusLimits:      map[string]envoyrls.StatusLimits{"refusing": envoyrls.StatusLimitsRefusing, "enforced": envoyrls.StatusLimitsEnforced}[a.StatusLimits],
		Metadata:          map[string]envoyrls.MetadataMode{"all": envoyrls.MetadataAll, "off": envoyrls.MetadataOff}[a.Metadata],
		Body:              map[string]envoyrls.Body{"text": envoyrls.BodyText, "problem+json": envoyrls.BodyProblem}[a.RefusedBody],
		ReferenceMetadata: a.RefMetadata,
		ShadowMode:        a.ShadowMode,
		QuotaMode:         a.QuotaMode,
		AllOrNothing:      a.StopIncrement,
		OnError:           failMode(s.settings.Rules.OnError),
		MaxDescriptors:    s.settings.Limits.MaxDescriptors,
		MaxEntries:        s.settings.Limits.MaxEntries,
		MaxKeyBytes:       s.settings.Limits.MaxKeyBytes,
		MaxValueBytes:     s.settings.Limits.MaxValueBytes,
		Observer:          s.observer(),
	}
	if a.Headers {
		opts.Headers = descriptors.HeadersRateLimit
	}
	s.service = envoyrls.New(s.rules.snapshot, engine, opts)
	return nil
}

// observer tells weir's own metrics of each call, and the reference's where they
// are asked for.
func (s *Server) observer() envoyrls.Observer {
	if s.refstats == nil {
		return s.metrics
	}
	return observers{s.metrics, s.refstats}
}

type observers []envoyrls.Observer

// Observe implements envoyrls.Observer.
func (o observers) Observe(c *envoyrls.Call) {
	for _, one := range o {
		one.Observe(c)
	}
}

// openRefstats makes the reference's statistics where its switch is on.
func (s *Server) openRefstats() error {
	m := &s.settings.Metrics
	if !m.UsePrometheus || m.Disable {
		return nil
	}
	mapping, err := "", error(nil)
	if m.Mapper != "" {
		text, err := os.ReadFile(m.Mapper)
		if err != nil {
			s.log.Warn("the metric mapping is passed over", "PROMETHEUS_MAPPER_YAML", m.Mapper, "error", err)
		}
		mapping = string(text)
	}
	sink, closeSink, err := refstats.NewPrometheus(s.metrics.Registry, refstats.PrometheusOptions{Mapping: mapping, Milliseconds: m.Milliseconds})
	if err != nil && mapping != "" {
		s.log.Warn("the metric mapping is passed over", "PROMETHEUS_MAPPER_YAML", m.Mapper, "error", err)
		sink, closeSink, err = refstats.NewPrometheus(s.metrics.Registry, refstats.PrometheusOptions{Milliseconds: m.Milliseconds})
	}
	if err != nil {
		return err
	}
	s.closers = append(s.closers, closeSink)
	s.refstats = refstats.New(sink, refstats.Options{NearLimitRatio: s.settings.Store.NearLimit, FlushEvery: m.FlushInterval})
	return nil
}

func failMode(name string) limiter.FailMode {
	return map[string]limiter.FailMode{
		"allow": limiter.FailAllow, "deny": limiter.FailDeny, "local": limiter.FailLocal,
	}[name]
}

func (s *Server) openWeb() error {
	l, m := &s.settings.Listen, &s.settings.Metrics
	state := web.State{
		Service: s.service, Metrics: s.metrics.Registry, Snapshot: s.rules.snapshot,
		Healthy: s.health.healthy, Ready: s.health.ready, Stats: s.stats, Pprof: l.Pprof,
	}
	if err := s.addWeb("http", l.Host, l.Port, web.Main(state)); err != nil {
		return err
	}
	if err := s.addWeb("debug", l.DebugHost, l.DebugPort, web.Debug(state)); err != nil {
		return err
	}
	if !m.UsePrometheus {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle(m.PrometheusPath, web.Metrics(s.metrics.Registry))
	listener, err := net.Listen("tcp", m.PrometheusAddr)
	if err != nil {
		return fmt.Errorf("metrics port %q (PROMETHEUS_ADDR): %w", m.PrometheusAddr, err)
	}
	s.web = append(s.web, &webServer{"metrics", web.NewServer(mux), listener})
	return nil
}

func (s *Server) addWeb(name, host string, port int, h http.Handler) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("%s port: %w", name, err)
	}
	s.web = append(s.web, &webServer{name, web.NewServer(h), listener})
	return nil
}

// Run serves until the context ends, then drains: health says no, what runs is
// finished within the time set, everything is closed. A second call's context,
// now, ends the drain at once. The error is that of serving, if any.
func (s *Server) Run(ctx, now context.Context) error {
	var wait sync.WaitGroup
	failed := make(chan error, len(s.web)+1)
	for _, w := range s.web {
		wait.Go(func() {
			if err := w.server.Serve(w.listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("%s port: %w", w.name, err)
			}
		})
	}
	wait.Go(func() {
		if err := s.grpc.Serve(s.listener); err != nil {
			failed <- fmt.Errorf("gRPC port: %w", err)
		}
	})
	rulesCtx, stopRules := context.WithCancel(context.Background())
	wait.Go(func() { s.rules.run(rulesCtx) })
	wait.Go(func() { s.health.run(rulesCtx) })
	if s.refstats != nil {
		wait.Go(func() { s.refstats.Run(rulesCtx) })
	}

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.drain(now)
	stopRules()
	wait.Wait()
	s.close()
	return err
}

// drain ends service without cutting calls: not ready, a pause for balancers to
// notice, no new calls, and the rest of those in flight.
func (s *Server) drain(now context.Context) {
	s.log.Info("draining")
	s.draining.Store(true)
	s.health.update(context.Background())
	select {
	case <-time.After(s.settings.Listen.ShutdownDelay):
	case <-now.Done():
	}
	s.health.endStreams()
	limit, cancel := context.WithTimeout(now, s.settings.Listen.ShutdownTimeout)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(ended)
	}()
	select {
	case <-ended:
	case <-limit.Done():
		s.log.Warn("calls in flight are cut: they took longer than the time set", "limit", s.settings.Listen.ShutdownTimeout)
		s.grpc.Stop()
		<-ended
	}
	for _, w := range s.web {
		if err := w.server.Shutdown(limit); err != nil {
			_ = w.server.Close()
		}
	}
}

// close closes what open has opened, the last first.
func (s *Server) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
	s.closers = nil
	if s.listener != nil {
		_ = s.listener.Close()
	}
	for _, w := range s.web {
		_ = w.listener.Close()
	}
}

// Reload reads the rules again now.
func (s *Server) Reload() { s.rules.reload() }

// GRPCAddr is the address that gRPC is served on.
func (s *Server) GRPCAddr() string { return s.listener.Addr().String() }

// HTTPAddr is the address of the HTTP port.
func (s *Server) HTTPAddr() string { return s.web[0].listener.Addr().String() }

// DebugAddr is the address of the debug port.
func (s *Server) DebugAddr() string { return s.web[1].listener.Addr().String() }

// stats are the lines of /stats.
func (s *Server) stats() []string {
	status := s.rules.status()
	lines := []string{
		"uptime: " + time.Since(s.started).Round(time.Second).String(),
		"pid: " + strconv.Itoa(os.Getpid()),
		"ready: " + strconv.FormatBool(s.health.ready()),
		"draining: " + strconv.FormatBool(s.draining.Load()),
	}
	return append(lines, status...)
}
