// Package metrics exposes what weir does as Prometheus series.
//
// It owns names, labels and their bounds. It implements the observers that the
// packages below declare; none of them knows Prometheus. Labels come from the
// configuration, never from requests, so that no caller can make series.
package metrics

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc/status"

	"github.com/weirhq/weir/pkg/descriptors"
	"github.com/weirhq/weir/pkg/envoyrls"
	"github.com/weirhq/weir/pkg/limiter"
)

// Verdicts of a descriptor, as label values.
const (
	verdictOK     = "ok"
	verdictOver   = "over_limit"
	verdictShadow = "shadow" // over the limit, not enforced
	verdictError  = "error"
)

// maxRules is how many rules have series of their own; those further down in the
// configuration share the label otherRule. A series costs about a kilobyte for
// each verdict, which a hundred thousand rules would pay at each collection.
const (
	maxRules  = 1000
	otherRule = "other"
)

// noRule is the label of limits that requests bring along and no rule matches.
const noRule = "override"

// Metrics are all series of one server.
type Metrics struct {
	Registry *prometheus.Registry

	requests  *prometheus.CounterVec
	decisions *prometheus.CounterVec
	hits      *prometheus.CounterVec
	overrides prometheus.Counter
	phases    *prometheus.HistogramVec
	limits    *prometheus.GaugeVec
	loads     *prometheus.CounterVec
	loadedAt  prometheus.Gauge
	config    *prometheus.GaugeVec
	storeErrs *prometheus.CounterVec
	overflow  prometheus.Counter
	folded    prometheus.Gauge
	breaker   prometheus.Gauge

	own atomic.Pointer[map[string]bool] // rules by id that have series of their own
}

// New makes all series. store names the store in use.
func New(store string) *Metrics {
	m := &Metrics{
		Registry:  prometheus.NewRegistry(),
		requests:  counters("requests_total", "Rate limit calls by gRPC code and overall verdict.", "code", "verdict"),
		decisions: counters("decisions_total", "Decided descriptors by rule, verdict and what the verdict rests on.", "domain", "rule", "verdict", "cause"),
		hits:      counters("hits_total", "Hits asked for by rule and verdict.", "domain", "rule", "verdict"),
		loads:     counters("config_loads_total", "Loads of the rules by result.", "result"),
		storeErrs: counters("store_errors_total", "Failed store commands by class.", "class"),
		overrides: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_bad_overrides_total", Help: "Limits in requests that made no sense and were ignored."}),
		overflow:  prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_memory_overflow_total", Help: "Times that a rule's keys began to share cells because the memory store was full."}),
		breaker:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_store_breaker_open", Help: "1 while nothing is sent to the store because it has been silent."}),
		folded:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_rules_folded", Help: "Rules without series of their own: they are counted under the rule \"other\"."}),
		loadedAt:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_config_loaded_timestamp_seconds", Help: "Time of the last successful load."}),
		limits:    gauges("limit_requests", "Configured limit.", "domain", "rule", "limit", "window"),
		config:    gauges("config_info", "1, with the hash of the configuration in force.", "hash"),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_phase_seconds", Help: "Time of a call by phase: match, store, reply.",
			Buckets: []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1},
		}, []string{"phase"}),
	}
	info := gauges("store_info", "1, with the kind of the store in use.", "store")
	info.WithLabelValues(store).Set(1)
	m.Registry.MustRegister(m.requests, m.decisions, m.hits, m.loads, m.storeErrs, m.overrides, m.overflow, m.folded, m.breaker, m.loadedAt,
		m.limits, m.config, m.phases, info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, result := range []string{"success", "error"} {
		m.loads.WithLabelValues(result)
	}
	for _, phase := range []string{"match", "store", "reply"} {
		m.phases.WithLabelValues(phase)
	}
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_" + name, Help: help}, labels)
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_" + name, Help: help}, labels)
}

// Observe implements envoyrls.Observer.
func (m *Metrics) Observe(c *envoyrls.Call) {
	m.requests.WithLabelValues(status.Code(c.Err).String(), overall(c)).Inc()
	m.phases.WithLabelValues("match").Observe(c.Matched.Sub(c.Began).Seconds())
	m.phases.WithLabelValues("store").Observe(c.Decided.Sub(c.Matched).Seconds())
	m.phases.WithLabelValues("reply").Observe(c.Answered.Sub(c.Decided).Seconds())
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		if d.Match.BadOverride {
			m.overrides.Inc()
		}
		if d.Check == nil {
			continue
		}
		domain, rule := text(c.Request.GetDomain()), m.rule(d.Match.Rule)
		v := verdict(d)
		m.decisions.WithLabelValues(domain, rule, v, d.Check.Result.Cause.String()).Inc()
		m.hits.WithLabelValues(domain, rule, v).Add(float64(d.Hits))
	}
}

// rule is the label of a rule.
func (m *Metrics) rule(r *descriptors.Rule) string {
	if r == nil {
		return noRule
	}
	if own := m.own.Load(); own != nil && !(*own)[r.ID()] {
		return otherRule
	}
	return text(r.Path)
}

func overall(c *envoyrls.Call) string {
	switch {
	case c.Err != nil:
		return verdictError
	case c.Over:
		return verdictOver
	case c.OverShadowed:
		return verdictShadow
	default:
		return verdictOK
	}
}

func verdict(d *envoyrls.Descriptor) string {
	switch {
	case d.Check.Result.Cause == limiter.CauseError:
		return verdictError
	case d.Enforced:
		return verdictOver
	case d.Over:
		return verdictShadow
	default:
		return verdictOK
	}
}

// Loaded tells of a successful load at a time. The series of the first maxRules
// rules exist from then on, at zero.
func (m *Metrics) Loaded(s *descriptors.Snapshot, at time.Time) {
	m.loads.WithLabelValues("success").Inc()
	m.loadedAt.Set(float64(at.UnixMilli()) / 1e3)
	m.config.Reset()
	m.config.WithLabelValues(s.Hash()).Set(1)
	m.limits.Reset()
	rules, own := s.Rules(), map[string]bool{}
	m.folded.Set(float64(max(0, len(rules)-maxRules)))
	for _, r := range rules[:min(len(rules), maxRules)] {
		own[r.ID()] = true
		for i := range r.Limits {
			l := &r.Limits[i]
			domain, rule := text(r.Domain), text(r.Path)
			m.limits.WithLabelValues(domain, rule, l.PolicyName, l.Window.String()).Set(float64(l.Requests))
			for _, v := range []string{verdictOK, verdictOver} {
				m.decisions.WithLabelValues(domain, rule, v, limiter.CauseLimit.String())
				m.hits.WithLabelValues(domain, rule, v)
			}
		}
	}
	m.own.Store(&own)
}

// LoadFailed tells of a load that was refused.
func (m *Metrics) LoadFailed() { m.loads.WithLabelValues("error").Inc() }

// StoreError counts a failed store command.
func (m *Metrics) StoreError(class string) { m.storeErrs.WithLabelValues(class).Inc() }

// BreakerChanged tells that the store is no longer asked, or again.
func (m *Metrics) BreakerChanged(open bool) {
	m.breaker.Set(0)
	if open {
		m.breaker.Set(1)
	}
}

// MemoryOverflow counts a rule that found no room.
func (m *Metrics) MemoryOverflow() { m.overflow.Inc() }

// text makes a label value of what may be any bytes.
func text(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
