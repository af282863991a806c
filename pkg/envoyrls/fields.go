package envoyrls

import (
	"sort"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/weirhq/weir/internal/headers"
	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/descriptors"
)

// addHeaders adds the response headers and, on a refusal, the body.
func (s *Service) addHeaders(c *Call) {
	var fields []headers.Field
	if p, ok := s.tightest(c, descriptors.HeadersRateLimit); ok {
		fields = headers.Single(fields, s.opts.HeaderNames, p)
	}
	if p, ok := s.tightest(c, descriptors.HeadersXRateLimit); ok {
		fields = headers.Single(fields, headers.XRateLimitNames, p)
	}
	fields = headers.Draft10(fields, s.policies(c, descriptors.HeadersDraft10))
	if c.Over {
		fields = s.addRefusal(c, fields)
	}
	for _, f := range fields {
		if headers.Valid(f, c.Over) {
			c.Response.ResponseHeadersToAdd = append(c.Response.ResponseHeadersToAdd, &core.HeaderValue{Key: f.Key, Value: f.Value})
		}
	}
}

// form tells whether the descriptor's limits are told in the form.
func (s *Service) form(d *Descriptor, form descriptors.HeaderForm) bool {
	chosen := descriptors.HeadersUnset
	if d.Match.Rule != nil {
		chosen = d.Match.Rule.Headers
	}
	if chosen == descriptors.HeadersUnset {
		chosen = s.opts.Headers
	}
	hidden := s.opts.StatusLimits == StatusLimitsEnforced && d.Match.Shadow
	return chosen&form != 0 && !hidden
}

// tightest picks the one limit that three single fields tell, as the reference
// does: the last refusing ordinary rule, else the first with least remaining.
func (s *Service) tightest(c *Call, form descriptors.HeaderForm) (headers.Policy, bool) {
	var picked *Descriptor
	least := uint32(1<<32 - 1)
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		limit, decision, ok := d.shown()
		if !ok || !s.form(d, form) {
			continue
		}
		quota := d.Match.Quota || s.opts.QuotaMode
		if left := remaining(limit, decision); left < least || d.Enforced && !quota {
			least, picked = left, d
		}
	}
	if picked == nil {
		return headers.Policy{}, false
	}
	limit, decision, _ := picked.shown()
	return policy(limit, decision), true
}

// policies lists every limit of every rule that is told in the form.
func (s *Service) policies(c *Call, form descriptors.HeaderForm) []headers.Policy {
	var out []headers.Policy
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		if d.Check == nil || !s.form(d, form) {
			continue
		}
		for j := range d.Check.Result.Decisions {
			out = append(out, policy(&d.Match.Limits[j], &d.Check.Result.Decisions[j]))
		}
	}
	return out
}

func policy(limit *descriptors.Limit, d *algorithm.Decision) headers.Policy {
	p := headers.Policy{
		Name:      limit.PolicyName,
		Limit:     limit.Spec.ShownLimit(),
		Remaining: int64(remaining(limit, d)),
		Window:    limit.Window,
		Reset:     -1,
	}
	if reset, ok := resetAfter(limit, d); ok {
		p.Reset = reset
	}
	return p
}

// addRefusal adds what only a refusal carries: retry-after, the rule's own
// headers, and the body with its content-type.
func (s *Service) addRefusal(c *Call, fields []headers.Field) []headers.Field {
	if wait, ok := s.retryAfter(c); ok && !s.opts.NoRetryAfter {
		fields = append(fields, headers.RetryAfter(wait))
	}
	own := ownRefusal(c)
	if own != nil {
		for _, key := range sortedKeys(own.Headers) {
			fields = append(fields, headers.Field{Key: key, Value: own.Headers[key]})
		}
	}
	body, contentType := s.body(c, own)
	c.Response.RawBody = body
	if len(body) > 0 && contentType != "" {
		fields = append(fields, headers.Field{Key: "content-type", Value: contentType})
	}
	return fields
}

// retryAfter is the time until the request could pass: all refusing ordinary
// rules must let it, and one of the quotas. ok is false where waiting does not
// help or nothing is known.
func (s *Service) retryAfter(c *Call) (time.Duration, bool) {
	var longest, shortestQuota int64
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		if !d.Enforced {
			continue
		}
		decision := d.Check.Result.Decision()
		if d.Match.Quota || s.opts.QuotaMode {
			if wait := decision.RetryAfterUS; wait > 0 && (shortestQuota == 0 || wait < shortestQuota) {
				shortestQuota = wait
			}
			continue
		}
		if decision.Never {
			return 0, false
		}
		longest = max(longest, decision.RetryAfterUS)
	}
	wait := longest
	if wait == 0 {
		wait = shortestQuota
	}
	return time.Duration(wait) * time.Microsecond, wait > 0
}

// ownRefusal is what the first refusing rule with an answer of its own says.
func ownRefusal(c *Call) *descriptors.Refused {
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		if d.Enforced && d.Match.Rule != nil && d.Match.Rule.Refused != nil {
			return d.Match.Rule.Refused
		}
	}
	return nil
}

func (s *Service) body(c *Call, own *descriptors.Refused) (body []byte, contentType string) {
	form := s.opts.Body
	if own != nil && own.Body != "" {
		switch own.Body {
		case "none":
			return nil, ""
		case "text":
			form = BodyText
		case "problem+json":
			form = BodyProblem
		default:
			return []byte(own.Body), own.ContentType
		}
	}
	switch form {
	case BodyText:
		return []byte("rate limit exceeded\n"), ""
	case BodyProblem:
		return headers.Problem(violated(c)), headers.ProblemContentType
	default:
		return nil, ""
	}
}

// violated names the policies that refuse.
func violated(c *Call) []string {
	var names []string
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		if !d.Enforced {
			continue
		}
		for j := range d.Check.Result.Decisions {
			if !d.Check.Result.Decisions[j].Allowed {
				names = append(names, d.Match.Limits[j].PolicyName)
			}
		}
	}
	return names
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
