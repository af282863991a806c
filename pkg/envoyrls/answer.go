package envoyrls

import (
	"math"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirhq/weir/internal/headers"
	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/descriptors"
	"github.com/weirhq/weir/pkg/limiter"
)

// answer builds the response from the decisions, or the error where a store
// failed a rule that says so and nothing else refuses.
func (s *Service) answer(c *Call) {
	if c.Exempt {
		c.Response = bareOK(len(c.Descriptors))
		s.addMetadata(c)
		return
	}
	var failure error
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		if d.Check == nil {
			continue
		}
		if d.failed() {
			failure = d.Check.Result.Err
			continue
		}
		d.Over = !d.Check.Result.Allowed
		d.Enforced = d.Over && !d.Match.Shadow
	}
	c.Over = s.refuses(c)
	if failure != nil && !c.Over {
		c.Err = statusError(failure)
		return
	}
	if c.Over && s.opts.ShadowMode {
		c.Over, c.OverShadowed = false, true
	}
	c.Response = &rls.RateLimitResponse{
		OverallCode: code(c.Over),
		Statuses:    make([]*rls.RateLimitResponse_DescriptorStatus, len(c.Descriptors)),
	}
	for i := range c.Descriptors {
		c.Response.Statuses[i] = s.status(c, &c.Descriptors[i])
	}
	s.addHeaders(c)
	s.addMetadata(c)
}

// failed tells that the store did not answer and no fail mode stood in.
func (d *Descriptor) failed() bool { return d.Check.Result.Cause == limiter.CauseError }

// refuses tells the overall verdict: a refusing ordinary rule refuses, quotas
// refuse only all together. Unlimited, unmatched and failed descriptors are no
// quota that could stand in the way.
func (s *Service) refuses(c *Call) bool {
	quotas, over := 0, 0
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		switch {
		case d.Check == nil:
		case d.Match.Quota || s.opts.QuotaMode:
			quotas++
			if d.Enforced {
				over++
			}
		case d.Enforced:
			return true
		}
	}
	return quotas > 0 && quotas == over
}

func bareOK(n int) *rls.RateLimitResponse {
	r := &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK, Statuses: make([]*rls.RateLimitResponse_DescriptorStatus, n)}
	for i := range r.Statuses {
		r.Statuses[i] = &rls.RateLimitResponse_DescriptorStatus{Code: rls.RateLimitResponse_OK}
	}
	return r
}

func code(over bool) rls.RateLimitResponse_Code {
	if over {
		return rls.RateLimitResponse_OVER_LIMIT
	}
	return rls.RateLimitResponse_OK
}

func (s *Service) status(c *Call, d *Descriptor) *rls.RateLimitResponse_DescriptorStatus {
	out := &rls.RateLimitResponse_DescriptorStatus{Code: code(d.Enforced)}
	if d.Match.Unlimited {
		out.LimitRemaining = math.MaxUint32
	}
	limit, decision, ok := d.shown()
	if !ok {
		return out
	}
	out.LimitRemaining = remaining(limit, decision)
	if !s.tellsLimit(c, d) {
		return out
	}
	out.CurrentLimit = &rls.RateLimitResponse_RateLimit{
		Name:            headers.Name(limit.Name),
		RequestsPerUnit: limit.Requests,
		Unit:            rls.RateLimitResponse_RateLimit_Unit(limit.Unit),
	}
	if limit.Multiplier > 1 {
		out.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(limit.Multiplier)
	}
	if reset, ok := resetAfter(limit, decision); ok {
		out.DurationUntilReset = durationpb.New(reset)
	}
	return out
}

// shown is the limit that the status speaks of. ok is false where there is
// nothing to show: no limit, or one that was let through without being asked.
func (d *Descriptor) shown() (*descriptors.Limit, *algorithm.Decision, bool) {
	if d.Check == nil || d.failed() {
		return nil, nil, false
	}
	r := &d.Check.Result
	limit := &d.Match.Limits[r.Index]
	if len(r.Decisions) > 0 {
		return limit, &r.Decisions[r.Index], true
	}
	return limit, &algorithm.Decision{}, !r.Allowed
}

func (s *Service) tellsLimit(c *Call, d *Descriptor) bool {
	switch s.opts.StatusLimits {
	case StatusLimitsRefusing:
		return !c.Over || d.Enforced
	case StatusLimitsEnforced:
		return !d.Match.Shadow
	default:
		return true
	}
}

func remaining(limit *descriptors.Limit, d *algorithm.Decision) uint32 {
	return uint32(min(max(0, d.Remaining), limit.Spec.ShownLimit()))
}

// resetAfter is the time to tell with a limit, in whole seconds rounded up,
// because Envoy cuts fractions: for a refusal until the same request could
// pass, else until the state is as new. ok is false where no time can be told.
func resetAfter(limit *descriptors.Limit, d *algorithm.Decision) (reset time.Duration, ok bool) {
	us := d.ResetAfterUS
	switch {
	case limit.Spec.Kind == algorithm.Concurrency:
		return 0, false
	case d.Allowed || limit.Spec.Kind == algorithm.FixedWindow:
		ok = d.Allowed || us > 0 // a refusal by fail mode knows no time
	default:
		us = d.RetryAfterUS
		ok = us > 0 // never: no wait helps
	}
	return wholeSeconds(us), ok
}

func wholeSeconds(us int64) time.Duration {
	return time.Duration(headers.Seconds(time.Duration(us)*time.Microsecond)) * time.Second
}
