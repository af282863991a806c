package envoyrls

import (
	"fmt"
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirhq/weir/internal/headers"
	"github.com/weirhq/weir/pkg/algorithm"
)

// addMetadata adds the dynamic metadata, the only way for a verdict's reasons
// into Envoy's access log. Its keys are documented in docs/CONFIG.md.
func (s *Service) addMetadata(c *Call) {
	fields := map[string]*structpb.Value{}
	if s.opts.ReferenceMetadata {
		referenceMetadata(c, fields)
	}
	s.verdictMetadata(c, fields)
	leaseMetadata(c, fields)
	if len(fields) > 0 {
		c.Response.DynamicMetadata = &structpb.Struct{Fields: fields}
	}
}

// verdictMetadata tells the verdict and the rule that it rests on.
func (s *Service) verdictMetadata(c *Call, fields map[string]*structpb.Value) {
	var speaker *Descriptor
	var shadow []*structpb.Value
	bad := false
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		bad = bad || d.Match.BadOverride
		switch {
		case d.Check == nil:
		case d.Over && d.Match.Shadow:
			shadow = append(shadow, structpb.NewStringValue(d.name()))
		case speaker == nil || d.speaksBefore(speaker):
			speaker = d
		}
	}
	refusal := c.Over || c.OverShadowed || len(shadow) > 0
	if s.opts.Metadata == MetadataOff || s.opts.Metadata == MetadataRefused && !refusal && !bad {
		return
	}
	fields["verdict"] = structpb.NewStringValue(verdict(c))
	if len(shadow) > 0 {
		fields["shadow"] = structpb.NewListValue(&structpb.ListValue{Values: shadow})
	}
	if bad {
		fields["bad_override"] = structpb.NewBoolValue(true)
	}
	if c.Exempt {
		fields["cause"] = structpb.NewStringValue("exempt")
	}
	if speaker == nil {
		return
	}
	fields["rule"] = structpb.NewStringValue(speaker.name())
	if c.Over || c.OverShadowed || speaker.failed() {
		fields["cause"] = structpb.NewStringValue(speaker.Check.Result.Cause.String())
	}
	if limit, decision, ok := speaker.shown(); ok {
		fields["remaining"] = structpb.NewNumberValue(float64(remaining(limit, decision)))
		if decision.RetryAfterUS > 0 {
			wait := headers.Seconds(time.Duration(decision.RetryAfterUS) * time.Microsecond)
			fields["retry_after"] = structpb.NewNumberValue(float64(wait))
		}
	}
}

func verdict(c *Call) string {
	switch {
	case c.Over:
		return "over_limit"
	case c.OverShadowed:
		return "shadow"
	default:
		return "ok"
	}
}

// speaksBefore tells whether d says more about the verdict than the other: a
// refusal with the longest wait, else the least remaining.
func (d *Descriptor) speaksBefore(other *Descriptor) bool {
	if d.Enforced != other.Enforced {
		return d.Enforced
	}
	a, b := d.Check.Result.Decision(), other.Check.Result.Decision()
	if d.Enforced {
		return a.RetryAfterUS > b.RetryAfterUS
	}
	return a.Remaining < b.Remaining
}

// name is the name of the limit that the descriptor's answer speaks of, or its
// rule's path.
func (d *Descriptor) name() string {
	if d.Check != nil && d.Check.Result.Index < len(d.Match.Limits) {
		if limit := &d.Match.Limits[d.Check.Result.Index]; limit.Name != "" {
			return text(limit.Name)
		}
	}
	if d.Match.Rule != nil {
		return text(d.Match.Rule.Path)
	}
	return "override"
}

// leaseMetadata gives back what the caller has to return at the end of the
// stream: the lease and the places held, in total and by rule.
func leaseMetadata(c *Call, fields map[string]*structpb.Value) {
	total, matched := 0.0, false
	by := map[string]*structpb.Value{}
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		if d.Check == nil || !d.concurrency() {
			continue
		}
		matched = true
		held := d.held(c)
		total += held
		by[d.name()] = structpb.NewNumberValue(held)
	}
	if !matched {
		return
	}
	fields["held"] = structpb.NewNumberValue(total)
	if len(by) > 1 {
		fields["held_by"] = structpb.NewStructValue(&structpb.Struct{Fields: by})
	}
	if total > 0 {
		fields["lease"] = structpb.NewStringValue(c.lease)
	}
}

func (d *Descriptor) concurrency() bool {
	return d.Match.Limits[0].Spec.Kind == algorithm.Concurrency
}

// held is how many places the call keeps: none once it is refused.
func (d *Descriptor) held(c *Call) float64 {
	if c.Over || d.Check.Ask.Mode != algorithm.Spend {
		return 0
	}
	return float64(d.Check.Result.Decision().Taken)
}

// referenceMetadata is the layout of the reference's RESPONSE_DYNAMIC_METADATA.
func referenceMetadata(c *Call, fields map[string]*structpb.Value) {
	list := make([]*structpb.Value, len(c.Request.GetDescriptors()))
	for i, d := range c.Request.GetDescriptors() {
		list[i] = structpb.NewStructValue(&structpb.Struct{Fields: descriptorMetadata(d)})
	}
	fields["domain"] = structpb.NewStringValue(text(c.Request.GetDomain()))
	fields["descriptors"] = structpb.NewListValue(&structpb.ListValue{Values: list})
	if n := c.Request.GetHitsAddend(); n != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(n))
	}
	merged := map[string]*structpb.Value{}
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		if d.Check == nil || d.Enforced || d.Match.Overridden || d.Match.Rule == nil {
			continue
		}
		if own, err := structpb.NewStruct(d.Match.Rule.Metadata); err == nil {
			mergeFields(merged, own.GetFields())
		}
	}
	if len(merged) > 0 {
		fields["metadata"] = structpb.NewStructValue(&structpb.Struct{Fields: merged})
	}
}

func descriptorMetadata(d *ratelimit.RateLimitDescriptor) map[string]*structpb.Value {
	entries := make([]*structpb.Value, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		entries[i] = structpb.NewStringValue(text(e.GetKey() + "=" + e.GetValue()))
	}
	out := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
	if l := d.GetLimit(); l != nil {
		out["limit"] = structpb.NewStringValue(overrideText(l))
	}
	if d.GetHitsAddend() != nil {
		out["hitsAddend"] = structpb.NewNumberValue(float64(d.GetHitsAddend().GetValue()))
	}
	return out
}

func overrideText(l *ratelimit.RateLimitDescriptor_RateLimitOverride) string {
	var parts []string
	if l.GetRequestsPerUnit() != 0 {
		parts = append(parts, fmt.Sprintf("requests_per_unit:%d", l.GetRequestsPerUnit()))
	}
	if l.GetUnit() != typev3.RateLimitUnit_UNKNOWN {
		parts = append(parts, "unit:"+l.GetUnit().String())
	}
	if l.GetUnitMultiplier() != nil {
		parts = append(parts, fmt.Sprintf("unit_multiplier:{value:%d}", l.GetUnitMultiplier().GetValue()))
	}
	return strings.Join(parts, " ")
}

// mergeFields adds src to dst: structs merge, any other clash keeps the first.
// dst's structs are its own, so nothing of the configuration is written to.
func mergeFields(dst, src map[string]*structpb.Value) {
	for key, value := range src {
		old, exists := dst[key]
		if !exists {
			dst[key] = value
			continue
		}
		if into, from := old.GetStructValue(), value.GetStructValue(); into != nil && from != nil {
			if into.Fields == nil {
				into.Fields = map[string]*structpb.Value{}
			}
			mergeFields(into.Fields, from.GetFields())
		}
	}
}

// text makes a value fit for a protobuf string.
func text(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
