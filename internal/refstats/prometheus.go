package refstats

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/statsd_exporter/pkg/event"
	"github.com/prometheus/statsd_exporter/pkg/exporter"
	"github.com/prometheus/statsd_exporter/pkg/mapper"
	"github.com/prometheus/statsd_exporter/pkg/registry"
)

// times is the mapping of response times; in is "", or the scale that turns
// milliseconds into seconds.
const times = `
mappings:
  - match: "ratelimit_server.*.response_time"
    name: "ratelimit_service_response_time_seconds"
    observer_type: histogram
    %s
    labels: {grpc_method: "$1"}
`

// Prometheus turns what is flushed into series with the reference's names and
// labels, through statsd_exporter's own exporter.
type Prometheus struct {
	events chan event.Events
	// mapped tells that a mapping file is in use: it gets the dotted names.
	mapped bool
}

// PrometheusOptions of a Prometheus sink.
type PrometheusOptions struct {
	// Mapping is the text of a statsd_exporter mapping file; "" is the
	// reference's built-in mapping.
	Mapping string
	// Milliseconds leaves response times unscaled.
	Milliseconds bool
}

// NewPrometheus makes a sink that registers its series with reg. Run must run
// for it to take anything.
func NewPrometheus(reg prometheus.Registerer, opts PrometheusOptions) (*Prometheus, func(), error) {
	m := &mapper.MetricMapper{Logger: slog.New(slog.DiscardHandler)}
	p := &Prometheus{events: make(chan event.Events, 1024), mapped: opts.Mapping != ""}
	text := opts.Mapping
	if text == "" {
		scale := "scale: 0.001"
		if opts.Milliseconds {
			scale = ""
		}
		text = fmt.Sprintf(times, scale)
	}
	if err := m.InitFromYAMLString(text); err != nil {
		return nil, nil, fmt.Errorf("metric mapping: %w", err)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "statsd_exporter_" + name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	unmapped := prometheus.NewCounter(prometheus.CounterOpts{Name: "statsd_exporter_events_unmapped_total", Help: "Events without a mapping."})
	metrics := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "statsd_exporter_metrics_total", Help: "Metrics by type."}, []string{"type"})
	reg.MustRegister(unmapped, metrics)
	e := exporter.NewExporter(reg, m, slog.New(slog.DiscardHandler),
		counter("events_actions_total", "Events by action.", "action"), unmapped,
		counter("events_error_total", "Events with errors.", "reason"),
		counter("events_total", "Events by type.", "type"),
		counter("events_conflict_total", "Events with conflicting names.", "type", "metric_name"), metrics)
	e.Registry = registry.NewRegistry(reg, m)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Listen(p.events)
	}()
	closer := func() {
		close(p.events)
		<-ended
	}
	return p, closer, nil
}

// Count implements Sink.
func (p *Prometheus) Count(counters []Counter) {
	var out event.Events
	for _, c := range counters {
		name, labels := c.Name, map[string]string{}
		if !p.mapped {
			name, labels = builtIn(c)
		}
		out = append(out, &event.CounterEvent{CMetricName: name, CValue: float64(c.Value), CLabels: labels})
	}
	p.events <- out
}

// builtIn is the reference's own mapping, which folds levels below the second
// into the first two; names and labels come from the parts, so that dots in
// them shift nothing.
func builtIn(c Counter) (string, map[string]string) {
	const errors, requests = service + "call.should_rate_limit.", ".total_requests"
	switch method, isMethod := strings.CutPrefix(c.Name, "ratelimit_server."); {
	case len(c.Parts) > 1:
		labels := map[string]string{"domain": c.Parts[0], "key1": c.Parts[1]}
		if len(c.Parts) > 2 {
			labels["key2"] = c.Parts[2]
		}
		return "ratelimit_service_rate_limit_" + c.Suffix, labels
	case strings.HasPrefix(c.Name, errors):
		return "ratelimit_service_should_rate_limit_error", map[string]string{"err_type": strings.TrimPrefix(c.Name, errors)}
	case isMethod && strings.HasSuffix(method, requests):
		return "ratelimit_service_total_requests", map[string]string{"grpc_method": strings.TrimSuffix(method, requests)}
	default:
		return c.Name, map[string]string{}
	}
}

// Time implements Sink, in milliseconds as statsd has them. A time is dropped
// rather than waited for.
func (p *Prometheus) Time(method string, took time.Duration) {
	ms := float64(took) / float64(time.Millisecond)
	select {
	case p.events <- event.Events{&event.ObserverEvent{OMetricName: "ratelimit_server." + method + ".response_time", OValue: ms, OLabels: map[string]string{}}}:
	default:
	}
}
