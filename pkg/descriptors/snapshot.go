package descriptors

import (
	"fmt"
	"io"
	"strings"

	"github.com/weirhq/weir/pkg/algorithm"
)

// Snapshot is a checked configuration: immutable, safe for concurrent use.
type Snapshot struct {
	domains     map[string]*domain
	names       []string // sorted
	keyPrefix   string
	secret      []byte
	defaultKind algorithm.Kind
	hash        string
}

type domain struct {
	name         string
	allOrNothing bool
	root         *level
}

// statsSeparator stands between the parts of a statistics name: values hold dots.
const statsSeparator = "\x00"

// StatsKey is the statistics name of the matched limit, as the reference forms
// it: domain and path joined by dots, with real values where the rule asks.
func (m *Match) StatsKey() string { return strings.ReplaceAll(m.statsKey, statsSeparator, ".") }

// StatsParts is StatsKey as its parts, the domain first; nil where nothing was
// to be counted.
func (m *Match) StatsParts() []string {
	if m.statsKey == "" {
		return nil
	}
	return strings.Split(m.statsKey, statsSeparator)
}

// Rules lists every rule, in order of domain, then of the file.
func (s *Snapshot) Rules() []*Rule {
	var out []*Rule
	for _, name := range s.names {
		s.domains[name].root.walk(func(n *node) {
			if n.rule != nil {
				out = append(out, n.rule)
			}
		})
	}
	return out
}

// Domain tells whether the domain is configured, and its all_or_nothing.
func (s *Snapshot) Domain(name string) (known, allOrNothing bool) {
	d := s.domains[name]
	return d != nil, d != nil && d.allOrNothing
}

// Domains lists the names of the configured domains, sorted.
func (s *Snapshot) Domains() []string { return s.names }

// Hash is a short text that changes when the configuration does (hex).
func (s *Snapshot) Hash() string { return s.hash }

// Dump writes one line per limit, in the form of the reference's /rlconfig,
// followed by what the reference does not have where it is not the default.
func (s *Snapshot) Dump(w io.Writer) error {
	for _, r := range s.Rules() {
		if r.Unlimited {
			if err := dumpLine(w, r, "UNKNOWN", 0, ""); err != nil {
				return err
			}
		}
		for i := range r.Limits {
			l := &r.Limits[i]
			more := ""
			if l.Multiplier > 1 {
				more += fmt.Sprintf(", unit_multiplier: %d", l.Multiplier)
			}
			if kind := l.Spec.Kind; kind != algorithm.FixedWindow {
				more += ", algorithm: " + kind.String()
			}
			if l.Spec.Burst > 0 && l.Spec.Burst != l.Spec.Requests {
				more += fmt.Sprintf(", burst: %d", l.Spec.Burst)
			}
			if l.Name != "" && len(r.Limits) > 1 {
				more += fmt.Sprintf(", name: %q", l.Name)
			}
			if err := dumpLine(w, r, l.Unit.String(), l.Requests, more); err != nil {
				return err
			}
		}
	}
	return nil
}

func dumpLine(w io.Writer, r *Rule, unit string, requests uint32, more string) error {
	_, err := fmt.Fprintf(w, "%s.%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t%s\n",
		r.Domain, r.Path, unit, requests, r.Shadow, r.Quota, more)
	return err
}
