package descriptors

import (
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirhq/weir/pkg/algorithm"
)

// limitKeys are the keys of rate_limit and of the elements of rate_limits.
var limitKeys = []string{
	"unit", "window", "requests_per_unit", "unlimited", "name", "replaces",
	"algorithm", "burst", "count_denied", "precision", "max_debt", "post_paid", "lease_ttl",
}

// rule reads the limits of a descriptor and what goes with them.
func (b *builder) rule(nd *node, at *yaml.Node, by fieldsOf, path string) {
	single, list := by["rate_limit"], by["rate_limits"]
	hasSingle, hasList := single.key != nil && !isNull(single.value), list.key != nil && !isNull(list.value)
	exempt := b.flag(by, "exempt", path)
	r := &Rule{
		Domain: b.domain.name, Path: path, Pos: b.pos(at), Exempt: exempt,
		Shadow: b.flag(by, "shadow_mode", path), Quota: b.flag(by, "quota_mode", path),
		DetailedMetric: b.flag(by, "detailed_metric", path), Overridable: b.flag(by, "overridable", path),
		EnforcePercent: nd.enforcePercent,
	}
	b.choices(r, by, path)
	r.Metadata = b.metadata(by, path)
	switch {
	case hasSingle && hasList:
		b.fail(list.key, codeList, path, "put the single limit into the list", "rate_limit and rate_limits stand in one descriptor")
	case hasSingle:
		b.single(r, single, path)
	case hasList:
		b.list(r, list, path)
	case !exempt:
		return // no rule: the options above do nothing without a limit, as in the reference
	}
	if exempt && (hasSingle || hasList) {
		b.warn(by["exempt"].key, true, codeNoEffect, path, "remove the limit or exempt", "a limit beside exempt is never counted")
		r.Limits, r.Unlimited = nil, false
	}
	for i := range r.Limits {
		if r.Consistency == Leased && r.Limits[i].Spec.Kind != algorithm.FixedWindow && r.Limits[i].Spec.Kind != algorithm.TokenBucket {
			b.fail(by["consistency"].key, codeOption, path, "use exact, or one of these algorithms", "consistency leased goes with fixed_window and token_bucket, not with %s", r.Limits[i].Spec.Kind)
		}
	}
	nd.rule = r
}

// choices reads the rule's keys that have domain-wide defaults.
func (b *builder) choices(r *Rule, by fieldsOf, path string) {
	r.OnError, r.Consistency = b.defaults.onError, b.defaults.consistency
	r.Headers, r.Refused = b.defaults.headers, b.defaults.refused
	if f, ok := by["on_error"]; ok {
		r.OnError = b.onError(f, path)
	}
	if f, ok := by["consistency"]; ok {
		r.Consistency = b.consistency(f, path)
	}
	if f, ok := by["headers"]; ok {
		r.Headers = b.headerForms(f, path)
	}
	if f, ok := by["refused"]; ok {
		r.Refused = b.refused(f, path)
	}
}

func (b *builder) metadata(by fieldsOf, path string) map[string]any {
	f, ok := by["metadata"]
	if !ok || isNull(f.value) {
		return nil
	}
	if f.value.Kind != yaml.MappingNode {
		b.fail(f.value, codeMetadata, path, "", "metadata must be a map")
		return nil
	}
	m, _ := b.value(f.value, path, 0).(map[string]any)
	return m
}

func (b *builder) single(r *Rule, f field, path string) {
	l, ok := b.limit(f.value, path, false)
	if !ok {
		return
	}
	r.Name, r.Replaces, r.Unlimited = l.name, l.replaces, l.unlimited
	if !l.unlimited {
		r.Limits = []Limit{l.Limit}
	}
}

// list reads rate_limits: at least one limit, each of another algorithm or
// window, since these separate their counters.
func (b *builder) list(r *Rule, f field, path string) {
	elements := b.elements(f, path)
	if f.value.Kind == yaml.SequenceNode && len(elements) == 0 {
		b.fail(f.value, codeList, path, "", "rate_limits lists nothing")
	}
	seen := map[string]*yaml.Node{}
	for _, n := range elements {
		l, ok := b.limit(n, path, true)
		if !ok {
			continue
		}
		if before := seen[l.Spec.KeySuffix()]; before != nil {
			b.fail(n, codeList, path, "two limits of one list differ in algorithm or window", "a limit of the same algorithm and window is at %s already", b.pos(before))
			continue
		}
		seen[l.Spec.KeySuffix()] = n
		r.Limits = append(r.Limits, l.Limit)
	}
}

// rawLimit is a limit with what belongs to the rule.
type rawLimit struct {
	Limit
	name      string
	replaces  []string
	unlimited bool
}

// limit reads one limit. ok is false where it cannot be used.
func (b *builder) limit(n *yaml.Node, path string, inList bool) (out rawLimit, ok bool) {
	fields, isMap := b.fields(n, path)
	if !isMap {
		b.fail(n, codeType, path, "write {unit: minute, requests_per_unit: 10}", "a limit must be a map")
		return out, false
	}
	errorsBefore := b.errors()
	by := fieldsOf{}
	for _, f := range fields {
		by[f.key.Value] = f
		if !contains(limitKeys, f.key.Value) {
			b.unknown(f, path, limitKeys)
		}
	}
	out.unlimited = b.flag(by, "unlimited", path)
	if f, has := by["name"]; has {
		out.name = b.text(f, path)
		b.checkName(f, out.name, path)
	}
	out.Name = out.name
	out.replaces = b.replaces(by, out.name, path)
	spec := b.numbers(&out, by, path, inList)
	if inList {
		b.checkElement(&out, by, spec, path)
	}
	if out.unlimited {
		b.checkUnlimited(by, path)
		return out, b.errors() == errorsBefore
	}
	_, unit := by["unit"]
	_, window := by["window"]
	if b.errors() != errorsBefore && !unit && !window {
		return out, false // the missing unit may be what was misspelt
	}
	b.time(&out, by, n, &spec, path)
	if b.errors() != errorsBefore {
		return out, false
	}
	var err error
	if out.Spec, err = algorithm.NewSpec(spec); err != nil {
		b.fail(n, codeOption, path, "", "%s", err)
		return out, false
	}
	out.PolicyName = policyName(out.name, path, out.Spec, inList)
	return out, true
}

func (r *reader) errors() int {
	n := 0
	for _, d := range r.found {
		if d.Severity == Error {
			n++
		}
	}
	return n
}

// numbers reads algorithm, requests and the options of algorithms.
func (b *builder) numbers(out *rawLimit, by fieldsOf, path string, inList bool) algorithm.Limit {
	spec := algorithm.Limit{Kind: b.defaults.kind(b.snapshot.defaultKind)}
	if f, ok := by["algorithm"]; ok {
		spec.Kind = b.algorithm(f, path, spec.Kind)
	}
	number := func(key string, least, most int64) int64 {
		f, ok := by[key]
		if !ok {
			return 0
		}
		n, _ := b.number(f, path, least, most)
		return n
	}
	spec.Requests = number("requests_per_unit", 0, algorithm.MaxRequests)
	out.Requests = uint32(spec.Requests)
	spec.Burst = number("burst", 1, algorithm.MaxRequests)
	spec.Precision = number("precision", 1, algorithm.MaxPrecision)
	spec.MaxDebt = number("max_debt", 1, algorithm.MaxRequests)
	spec.PostPaid = b.flag(by, "post_paid", path)
	bucket := spec.Kind == algorithm.TokenBucket || spec.Kind == algorithm.LeakyBucket
	if spec.Burst == 0 && bucket && b.defaults.burstRatio > 0 {
		spec.Burst = int64(min(math.Ceil(b.defaults.burstRatio*float64(spec.Requests)), algorithm.MaxRequests))
	}
	if spec.Kind == algorithm.FixedWindow {
		spec.CountDenied = !inList
		if b.defaults.countDenied != nil {
			spec.CountDenied = *b.defaults.countDenied && !inList
		}
	}
	if _, ok := by["count_denied"]; ok {
		spec.CountDenied = b.flag(by, "count_denied", path)
	}
	if f, ok := by["lease_ttl"]; ok {
		if d, err := parseWindow(b.text(f, path)); err != nil {
			b.fail(f.value, codeWindow, path, "write it as 30s or 5m", "lease_ttl %q %s", f.value.Value, err)
		} else {
			spec.LeaseTTLUS = d.Microseconds()
		}
	}
	return spec
}

func (b *builder) algorithm(f field, path string, standard algorithm.Kind) algorithm.Kind {
	name := b.text(f, path)
	kind, ok := algorithm.ParseKind(name)
	if !ok {
		names := []string{"gcra"}
		for _, k := range algorithm.Kinds() {
			names = append(names, k.String())
		}
		b.fail(f.value, codeAlgorithm, path, didYouMean(name, names), "algorithm %q is none of %s", name, strings.Join(names[1:], ", "))
		return standard
	}
	return kind
}

// time reads the window: a unit, or a length; none for concurrency.
func (b *builder) time(out *rawLimit, by fieldsOf, n *yaml.Node, spec *algorithm.Limit, path string) {
	unit, hasUnit := by["unit"]
	window, hasWindow := by["window"]
	hasUnit = hasUnit && !isNull(unit.value) && unit.value.Value != ""
	switch {
	case spec.Kind == algorithm.Concurrency:
		if hasUnit || hasWindow {
			b.fail(n, codeOption, path, "remove unit and window", "concurrency counts what is in flight and has no unit or window")
		}
		return
	case hasUnit && hasWindow:
		b.fail(window.key, codeWindow, path, "keep one of them", "unit and window stand in one limit")
		return
	case hasWindow:
		d, err := parseWindow(b.text(window, path))
		if err != nil {
			b.fail(window.value, codeWindow, path, "write it as 30s, 5m, 1h30m, 7d or 2w", "window %q %s", window.value.Value, err)
			return
		}
		out.Window = d
		out.Unit, out.Multiplier = unitOf(d)
	case !hasUnit:
		b.fail(n, codeUnit, path, "add unit: second, minute, hour, day, week, month or year, or window: 30s", "limit has no unit")
		return
	default:
		u, ok := parseUnit(b.text(unit, path))
		if !ok {
			names := []string{"second", "minute", "hour", "day", "week", "month", "year"}
			hint := didYouMean(unit.value.Value, names)
			if hint == "" {
				hint = "units are " + strings.Join(names, ", ") + "; use window for other lengths"
			}
			b.fail(unit.value, codeUnit, path, hint, "unit %q does not exist", unit.value.Value)
			return
		}
		out.Unit, out.Multiplier, out.Window = u, 1, u.length()
	}
	spec.WindowUS = out.Window.Microseconds()
}

func (b *builder) checkUnlimited(by fieldsOf, path string) {
	f, ok := by["unit"]
	if !ok {
		return
	}
	if _, valid := parseUnit(b.text(f, path)); valid {
		b.fail(f.key, codeUnlimitedUnit, path, "remove unit, or unlimited", "unlimited stands beside unit %q", f.value.Value)
	}
}

func (b *builder) checkElement(out *rawLimit, by fieldsOf, spec algorithm.Limit, path string) {
	switch {
	case out.unlimited:
		b.fail(by["unlimited"].key, codeList, path, "", "unlimited has no place in rate_limits")
	case len(out.replaces) > 0:
		b.fail(by["replaces"].key, codeList, path, "", "replaces has no place in rate_limits: a list is replaced as a whole")
	case spec.Kind == algorithm.Concurrency:
		b.fail(by["algorithm"].key, codeList, path, "use a descriptor of its own", "concurrency has no place in rate_limits")
	case spec.CountDenied:
		b.fail(by["count_denied"].key, codeList, path, "", "count_denied has no place in rate_limits: what one limit refuses costs nothing from the others")
	}
}

func (b *builder) replaces(by fieldsOf, own, path string) []string {
	f, ok := by["replaces"]
	if !ok {
		return nil
	}
	var out []string
	for _, n := range b.elements(f, path) {
		fields, isMap := b.fields(n, path)
		if !isMap {
			b.fail(n, codeNoMap, path, "write - name: NAME", "an element of replaces must be a map")
			continue
		}
		name := ""
		for _, g := range fields {
			if g.key.Value == "name" {
				name = b.text(g, path)
			} else {
				b.unknown(g, path, []string{"name"})
			}
		}
		switch name {
		case "":
			b.fail(n, codeReplaces, path, "name the limit that is replaced", "replaces has an empty name")
		case own:
			b.fail(n, codeReplaces, path, "", "replaces names its own limit %q", own)
		default:
			out = append(out, name)
		}
	}
	return out
}

func (b *builder) checkName(f field, name, path string) {
	if safeName(name) != name {
		b.warn(f.value, false, codeName, path, "use printable ASCII without quotes and backslash", "name %q is sent as %q", name, safeName(name))
	}
}

// policyName is what draft headers call a limit: its name, or its rule's path,
// with the algorithm and window where a list has several.
func policyName(name, path string, spec *algorithm.Spec, inList bool) string {
	if name != "" {
		return safeName(name)
	}
	if inList {
		path += "." + strconv.FormatInt(spec.WindowUS/int64(time.Second/time.Microsecond), 10) + "s"
	}
	return safeName(path)
}

// safeName makes a name fit for a quoted string in a header.
func safeName(name string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return '_'
		}
		return c
	}, name)
}
