package descriptors

import (
	"hash/fnv"
	"strings"
	"time"

	"github.com/weirhq/weir/pkg/algorithm"
)

// Match finds the rule for a descriptor and fills m. It follows the reference:
// exact depth, no way back once a node is chosen, and what is compared is the
// joined text key_value. It allocates the keys only.
func (s *Snapshot) Match(domain string, entries []Entry, override *Override, m *Match) {
	*m = Match{Keys: m.Keys[:0], path: m.path[:0], scratch: m.scratch[:0]}
	d := s.domains[domain]
	if d == nil {
		return
	}
	m.DomainKnown = true
	n := d.find(entries, m)
	if n != nil && n.rule != nil {
		m.Rule = n.rule
	}
	if m.Rule != nil && m.Rule.Exempt { // before anything that the request says
		m.Exempt = true
		return
	}
	if override != nil && s.override(d, entries, override, m) {
		return
	}
	if m.Rule == nil {
		return
	}
	m.Unlimited = m.Rule.Unlimited
	m.Shadow, m.Quota = m.Rule.Shadow, m.Rule.Quota
	m.Limits = m.Rule.Limits
	if len(m.Limits) == 0 {
		return
	}
	s.makeKeys(d, entries, m)
	if n.enforcePercent < 100 && percentOf(m.Keys[0]) >= n.enforcePercent {
		m.Shadow = true
	}
	m.statsKey = n.statsKey
	if n.dynamic {
		m.statsKey = s.requestStatsKey(d, entries, m)
	}
}

// find walks down to the node of the last entry. m.path holds the nodes met.
func (d *domain) find(entries []Entry, m *Match) *node {
	level := d.root
	for i, e := range entries {
		if level == nil {
			return nil
		}
		n := level.find(e, &m.scratch)
		if n == nil {
			return nil
		}
		m.path = append(m.path, n)
		if i == len(entries)-1 {
			return n
		}
		level = n.children
	}
	return nil
}

// makeKeys builds one key per limit; they share the part in braces.
func (s *Snapshot) makeKeys(d *domain, entries []Entry, m *Match) {
	b := append(m.scratch[:0], s.keyPrefix...)
	b = append(b, keyVersion...)
	b = append(b, '{')
	b = appendPart(b, d.name)
	for i, e := range entries {
		var n *node
		if i < len(m.path) {
			n = m.path[i]
		}
		b = append(b, '|')
		b = appendPart(b, e.Key)
		b = append(b, '=')
		b = appendValue(b, n, e.Value, s.secret)
	}
	b = append(b, '}')
	base := len(b)
	for i := range m.Limits {
		b = append(b[:base], m.Limits[i].Spec.KeySuffix()...)
		m.Keys = append(m.Keys, string(b))
	}
	m.scratch = b
}

// percentOf puts a key into one of a hundred parts, the same one at each call
// and on each replica.
func percentOf(key string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // a hash does not fail
	return int(h.Sum32() % 100)
}

// override puts the request's own limit in place of the rule's. It keeps the
// matched single rule's algorithm and fail mode, and drops shadow and quota. It
// reports false where the limit makes no sense; then the rule stays in force.
func (s *Snapshot) override(d *domain, entries []Entry, o *Override, m *Match) bool {
	limit, ok := s.overrideLimit(o, m.Rule)
	if !ok {
		m.BadOverride = true
		return false
	}
	m.Overridden = true
	m.Limits = []Limit{limit}
	s.makeKeys(d, entries, m)
	m.statsKey = overrideStatsKey(d.name, entries)
	return true
}

func (s *Snapshot) overrideLimit(o *Override, rule *Rule) (Limit, bool) {
	unit := Unit(0)
	if o.Unit > 0 && o.Unit < int32(len(unitLengths)) {
		unit = Unit(o.Unit)
	}
	if unit == UnitUnknown {
		return Limit{}, false
	}
	multiplier := max(1, o.Multiplier)
	if int64(multiplier) > algorithm.MaxWindowUS/unit.length().Microseconds() {
		return Limit{}, false
	}
	window := time.Duration(multiplier) * unit.length()
	l := algorithm.Limit{Kind: s.defaultKind, CountDenied: s.defaultKind == algorithm.FixedWindow}
	if rule != nil && len(rule.Limits) == 1 {
		l = rule.Limits[0].Spec.Limit
		l.Burst, l.MaxDebt = 0, 0
	}
	l.Requests = int64(o.Requests)
	if l.Kind != algorithm.Concurrency {
		l.WindowUS = window.Microseconds()
	}
	spec, err := algorithm.NewSpec(l)
	if err != nil {
		return Limit{}, false
	}
	return Limit{
		Requests: o.Requests, Unit: unit, Multiplier: multiplier, Spec: spec, Window: window, PolicyName: "override",
	}, true
}

// Resolve applies the replaces lists of all matches of one request to each
// other: a matched limit whose name is listed is dropped. Unlimited limits list
// names too, and are never dropped.
func Resolve(matches []Match) {
	for i := range matches {
		if matches[i].Overridden || matches[i].Rule == nil {
			continue
		}
		for _, name := range matches[i].Rule.Replaces {
			for j := range matches {
				m := &matches[j]
				if !m.Overridden && !m.Unlimited && m.Rule != nil && m.Rule.named(name) {
					m.Replaced = true
				}
			}
		}
	}
}

// named tells whether the rule's limit, or one of its list, has the name: a list
// is replaced as a whole.
func (r *Rule) named(name string) bool {
	for i := range r.Limits {
		if r.Limits[i].Name == name {
			return true
		}
	}
	return r.Name == name
}

// overrideStatsKey is the statistics name of a request's own limit.
func overrideStatsKey(domain string, entries []Entry) string {
	var b strings.Builder
	b.WriteString(domain)
	for _, e := range entries {
		b.WriteString(statsSeparator + e.Key)
		if e.Value != "" {
			b.WriteString("_" + e.Value)
		}
	}
	return b.String()
}

// requestStatsKey is the statistics name of a rule that shows real values:
// detailed_metric shows all of them, value_to_metric those of its level,
// share_threshold hides what it shares.
func (s *Snapshot) requestStatsKey(d *domain, entries []Entry, m *Match) string {
	shared := false
	for _, n := range m.path {
		shared = shared || n.share
	}
	var b strings.Builder
	b.WriteString(d.name)
	for i, n := range m.path {
		b.WriteString(statsSeparator + s.statsPart(n, entries[i], m.Rule.DetailedMetric, shared))
	}
	return b.String()
}

func (s *Snapshot) statsPart(n *node, e Entry, detailed, shared bool) string {
	value := e.Value
	if n.hashed {
		value = string(appendSecret(nil, s.secret, value)[1:])
	}
	switch {
	case n.share:
		return n.label()
	case detailed && (value != "" || !shared):
		return e.Key + "_" + value
	case detailed:
		return e.Key
	case n.kind == condExact || !n.valueMetric:
		return n.label()
	case value == "":
		return n.key
	default:
		return n.key + "_" + value
	}
}
