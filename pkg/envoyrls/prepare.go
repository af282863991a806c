package envoyrls

import (
	"crypto/rand"
	"math"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/descriptors"
	"github.com/weirhq/weir/pkg/limiter"
)

// prepare checks a request, matches its descriptors and makes the checks to be
// decided. The error is a gRPC status.
func (s *Service) prepare(snapshot *descriptors.Snapshot, c *Call) error {
	if err := s.validate(c.Request); err != nil {
		return err
	}
	if snapshot == nil {
		return status.Error(codes.Unavailable, "no rate limit configuration loaded")
	}
	domain, descs := c.Request.GetDomain(), c.Request.GetDescriptors()
	c.Descriptors = make([]Descriptor, len(descs))
	matches := make([]descriptors.Match, len(descs))
	leases := make([]string, len(descs))
	var entries []descriptors.Entry
	for i, d := range descs {
		entries = appendEntries(entries[:0], d)
		leases[i] = match(snapshot, domain, d, entries, &matches[i])
	}
	descriptors.Resolve(matches)

	_, allOrNothing := snapshot.Domain(domain)
	c.decision = limiter.Request{
		Checks:       make([]limiter.Check, 0, len(descs)),
		AllOrNothing: allOrNothing || s.opts.AllOrNothing,
		Deadline:     c.Deadline,
	}
	for i := range matches {
		c.Exempt = c.Exempt || matches[i].Exempt
	}
	for i, d := range descs {
		c.Descriptors[i].Match = matches[i]
		c.Descriptors[i].Hits = algorithm.ClampCost(hits(c.Request, d))
		if !c.Exempt && countable(&matches[i]) {
			s.addCheck(c, i, d, leases[i])
		}
	}
	return nil
}

func (s *Service) validate(req *rls.RateLimitRequest) error {
	switch {
	case isMalformed(req):
		return status.Error(codes.InvalidArgument, "request is no valid protobuf message, or holds text that is not UTF-8")
	case req.GetDomain() == "":
		return status.Error(codes.InvalidArgument, "rate limit domain must not be empty")
	case len(req.GetDomain()) > s.opts.MaxValueBytes:
		return status.Errorf(codes.InvalidArgument, "domain of %d bytes is longer than %d", len(req.GetDomain()), s.opts.MaxValueBytes)
	case len(req.GetDescriptors()) == 0:
		return status.Error(codes.InvalidArgument, "rate limit descriptor list must not be empty")
	case len(req.GetDescriptors()) > s.opts.MaxDescriptors:
		return status.Errorf(codes.InvalidArgument, "%d descriptors are more than %d", len(req.GetDescriptors()), s.opts.MaxDescriptors)
	}
	for i, d := range req.GetDescriptors() {
		if len(d.GetEntries()) > s.opts.MaxEntries {
			return status.Errorf(codes.InvalidArgument, "descriptor %d: %d entries are more than %d", i, len(d.GetEntries()), s.opts.MaxEntries)
		}
		for j, e := range d.GetEntries() {
			if len(e.GetKey()) > s.opts.MaxKeyBytes {
				return status.Errorf(codes.InvalidArgument, "descriptor %d, entry %d: key of %d bytes is longer than %d", i, j, len(e.GetKey()), s.opts.MaxKeyBytes)
			}
			if len(e.GetValue()) > s.opts.MaxValueBytes {
				return status.Errorf(codes.InvalidArgument, "descriptor %d, entry %d: value of %d bytes is longer than %d", i, j, len(e.GetValue()), s.opts.MaxValueBytes)
			}
		}
	}
	return nil
}

func appendEntries(dst []descriptors.Entry, d *ratelimit.RateLimitDescriptor) []descriptors.Entry {
	for _, e := range d.GetEntries() {
		dst = append(dst, descriptors.Entry{Key: e.GetKey(), Value: e.GetValue()})
	}
	return dst
}

// leaseEntry is the key of the entry that names a lease when places in flight
// are given back. It is no part of the rule's path.
const leaseEntry = "lease"

// match fills m. A descriptor that gives hits back and ends with a lease entry
// is matched without it if that finds a concurrency rule; the lease is returned.
func match(snapshot *descriptors.Snapshot, domain string, d *ratelimit.RateLimitDescriptor, entries []descriptors.Entry, m *descriptors.Match) (lease string) {
	override := overrideOf(d)
	last := len(entries) - 1
	if d.GetIsNegativeHits() && last > 0 && entries[last].Key == leaseEntry {
		snapshot.Match(domain, entries[:last], override, m)
		if len(m.Limits) > 0 && m.Limits[0].Spec.Kind == algorithm.Concurrency {
			return entries[last].Value
		}
	}
	snapshot.Match(domain, entries, override, m)
	return ""
}

func overrideOf(d *ratelimit.RateLimitDescriptor) *descriptors.Override {
	l := d.GetLimit()
	if l == nil {
		return nil
	}
	o := &descriptors.Override{Requests: l.GetRequestsPerUnit(), Unit: int32(l.GetUnit()), Multiplier: 1}
	if l.GetUnitMultiplier() != nil {
		// A multiplier of 0 is no limit; the largest number makes the override bad.
		if o.Multiplier = l.GetUnitMultiplier().GetValue(); o.Multiplier == 0 {
			o.Multiplier = 1<<32 - 1
		}
	}
	return o
}

// hits is what the descriptor asks for: its own number, where 0 is a look, else
// the request's, where 0 means one.
func hits(req *rls.RateLimitRequest, d *ratelimit.RateLimitDescriptor) uint64 {
	if d.GetHitsAddend() != nil {
		return d.GetHitsAddend().GetValue()
	}
	return uint64(max(1, req.GetHitsAddend()))
}

func countable(m *descriptors.Match) bool {
	return len(m.Limits) > 0 && !m.Unlimited && !m.Replaced
}

func (s *Service) addCheck(c *Call, i int, d *ratelimit.RateLimitDescriptor, lease string) {
	out := &c.Descriptors[i]
	m := &out.Match
	check := limiter.Check{
		Limits:   make([]limiter.Limit, len(m.Limits)),
		Ask:      algorithm.Ask{Mode: algorithm.Spend, Cost: out.Hits},
		Advisory: m.Shadow || m.Quota,
		OnError:  s.opts.OnError,
	}
	for j := range m.Limits {
		check.Limits[j] = limiter.Limit{Key: m.Keys[j], Spec: m.Limits[j].Spec}
	}
	if m.Rule != nil {
		check.Rule = m.Rule.ID()
		check.OnError = failMode(m.Rule.OnError, s.opts.OnError)
	}
	switch {
	case out.Hits == 0:
		check.Ask.Mode = algorithm.Look
	case d.GetIsNegativeHits():
		check.Ask.Mode, check.Ask.Lease = algorithm.Refund, lease
	case hits(c.Request, d) > math.MaxUint32:
		// Most likely a negative number in disguise: refused, and not counted,
		// which would lock a fixed window to its end.
		check.Ask.Mode = algorithm.Look
	case m.Limits[0].Spec.Kind == algorithm.Concurrency:
		if c.lease == "" {
			c.lease = rand.Text()
		}
		check.Ask.Lease = c.lease
	}
	c.decision.Checks = append(c.decision.Checks, check)
	out.Check = &c.decision.Checks[len(c.decision.Checks)-1]
}

func failMode(rule descriptors.OnError, standard limiter.FailMode) limiter.FailMode {
	switch rule {
	case descriptors.OnErrorAllow:
		return limiter.FailAllow
	case descriptors.OnErrorDeny:
		return limiter.FailDeny
	case descriptors.OnErrorLocal:
		return limiter.FailLocal
	case descriptors.OnErrorError:
		return limiter.FailError
	default:
		return standard
	}
}
