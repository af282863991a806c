// Package refstats keeps the statistics of envoyproxy/ratelimit: its names and
// its arithmetic, for dashboards and mapping files that were made for it.
//
// It owns the counters between two flushes and their number. It must not know
// how weir's own metrics look; a sink takes what is flushed.
package refstats

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/envoyrls"
	"github.com/weirhq/weir/pkg/limiter"
)

// Counter is what a counter gained since the last flush. Name is the dotted
// name; for counters of a rule Suffix and Parts are its parts: the domain, then
// each level.
type Counter struct {
	Name   string
	Suffix string
	Parts  []string
	Value  uint64
}

// Sink takes what is flushed, and times at once.
type Sink interface {
	Count([]Counter)
	Time(method string, took time.Duration)
}

// maxCounters bounds the names that requests can make (values in names, limits
// of their own, unknown domains); what goes beyond is counted in foldedName.
const (
	maxCounters = 5000
	foldedName  = "ratelimit.service.names_folded"
)

const (
	service = "ratelimit.service."
	ruleSet = service + "rate_limit."
)

// Options of Stats.
type Options struct {
	// NearLimitRatio is the share of a limit from which hits are near it; the
	// reference's default is 0.8.
	NearLimitRatio float64
	// FlushEvery is the time between flushes.
	FlushEvery time.Duration
}

// Stats counts; it implements envoyrls.Observer.
type Stats struct {
	opts Options
	sink Sink

	mu       sync.Mutex
	counters map[string]*Counter
	names    int // made since the start
	known    map[string]bool
}

// New makes empty statistics.
func New(sink Sink, opts Options) *Stats {
	return &Stats{opts: opts, sink: sink, counters: map[string]*Counter{}, known: map[string]bool{}}
}

// Run flushes until the context ends, and a last time then.
func (s *Stats) Run(ctx context.Context) {
	ticker := time.NewTicker(s.opts.FlushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.flush()
		case <-ctx.Done():
			s.flush()
			return
		}
	}
}

func (s *Stats) flush() {
	s.mu.Lock()
	var out []Counter
	for _, c := range s.counters {
		out = append(out, *c)
	}
	clear(s.counters)
	s.mu.Unlock()
	if len(out) > 0 {
		s.sink.Count(out)
	}
}

// add counts under a name of weir's own making.
func (s *Stats) add(name string, n uint64) { s.addTo(Counter{Name: name, Value: n}) }

// addTo counts, as long as there are not too many names.
func (s *Stats) addTo(c Counter) {
	if c.Value == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known[c.Name] {
		if s.names >= maxCounters {
			c = Counter{Name: foldedName, Value: c.Value}
		} else {
			s.known[c.Name] = true
			s.names++
		}
	}
	if have := s.counters[c.Name]; have != nil {
		have.Value += c.Value
	} else {
		s.counters[c.Name] = &c
	}
}

// Loaded counts a load of the rules.
func (s *Stats) Loaded(ok bool) {
	if ok {
		s.add(service+"config_load_success", 1)
	} else {
		s.add(service+"config_load_error", 1)
	}
}

// Observe implements envoyrls.Observer.
func (s *Stats) Observe(c *envoyrls.Call) {
	switch {
	case c.Err == nil:
	case status.Code(c.Err) == codes.InvalidArgument || len(c.Descriptors) == 0:
		s.add(service+"call.should_rate_limit.service_error", 1)
	default:
		s.add(service+"call.should_rate_limit.redis_error", 1)
	}
	if c.OverShadowed {
		s.add(service+"global_shadow_mode", 1)
	}
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		if !d.Match.DomainKnown {
			s.add(ruleSet+clean(c.Request.GetDomain())+".domain_not_found", 1)
		}
		if d.Check != nil && d.Check.Ask.Mode != algorithm.Refund {
			s.decided(d)
		}
	}
}

// decided counts one descriptor as the reference does.
func (s *Stats) decided(d *envoyrls.Descriptor) {
	parts := d.Match.StatsParts()
	for i := range parts {
		parts[i] = clean(parts[i])
	}
	key := ruleSet + strings.Join(parts, ".") + "."
	count := func(suffix string, n uint64) {
		s.addTo(Counter{Name: key + suffix, Suffix: suffix, Parts: parts, Value: n})
	}
	hits := uint64(d.Hits)
	count("total_hits", hits)
	r := &d.Check.Result
	if len(r.Decisions) == 0 || r.Cause == limiter.CauseError {
		return
	}
	limit := uint64(d.Match.Limits[r.Index].Requests)
	after := used(d, hits)
	before := after - min(hits, after)
	near := uint64(float32(limit) * float32(s.opts.NearLimitRatio))
	if r.Allowed {
		count("within_limit", hits)
		if after > near {
			count("near_limit", min(hits, after-max(near, before)))
		}
		return
	}
	over := after - min(limit, after)
	if before >= limit {
		over = hits
	} else {
		count("near_limit", limit-min(limit, max(near, before)))
	}
	count("over_limit", over)
	if d.Match.Shadow {
		count("shadow_mode", over)
	}
}

// used is the count after the hits, also where a refusal was not counted.
func used(d *envoyrls.Descriptor, hits uint64) uint64 {
	r := &d.Check.Result
	after := uint64(max(0, r.Decision().Used))
	if !r.Allowed && !d.Match.Limits[r.Index].Spec.CountDenied {
		after += hits
	}
	return after
}

// Unary counts and times the calls of each gRPC method.
func (s *Stats) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	began := time.Now()
	resp, err := handler(ctx, req)
	method := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	s.add("ratelimit_server."+method+".total_requests", 1)
	s.sink.Time(method, time.Since(began))
	return resp, err
}

var ipv4 = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+`)

// clean makes a part of a name fit for statsd, as the reference does.
func clean(part string) string {
	part = strings.NewReplacer(":", "_", "|", "_").Replace(strings.ToValidUTF8(part, "_"))
	return ipv4.ReplaceAllStringFunc(part, func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}
