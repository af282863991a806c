package descriptors

import "go.yaml.in/yaml/v3"

// Source is one rule file. Either Data or Node is set; Node serves sources that
// are no text (xDS resources), with positions left zero.
type Source struct {
	Name string // relative path with slashes; orders files of one domain
	Data []byte
	Node *yaml.Node
}

// Options are the server-wide choices that rules are read under.
type Options struct {
	KeyPrefix string // put before each store key (CACHE_KEY_PREFIX)
	// Defaults for rules and domains that do not choose.
	DefaultAlgorithm string // a name of pkg/algorithm; "" = fixed_window
	// RefuseMerge makes a second file of a domain an error (an explicit
	// MERGE_DOMAIN_CONFIG=false).
	RefuseMerge bool
	// AllDocuments loads each document of a multi-document file; otherwise only
	// the first one counts, as in the reference's layout.
	AllDocuments bool
	// HashSecret keys the hash of rules with hash_value.
	HashSecret []byte
}

// Snapshot is a checked configuration: immutable, safe for concurrent use.
type Snapshot struct{}

// Load reads and checks all files. It reports every problem of every file; the
// snapshot is nil if one of them is an error.
func Load(files []Source, opts Options) (*Snapshot, Diagnostics) { panic("not built yet") }

// Match finds the rule for a descriptor and fills m.
func (s *Snapshot) Match(domain string, entries []Entry, override *Override, m *Match) {
	panic("not built yet")
}

// Resolve applies the replaces lists of all matches of one request to each other.
func Resolve(matches []Match) { panic("not built yet") }

// StatsKey is the statistics name of the matched limit, as the reference forms
// it: domain and path joined by dots, with real values where the rule asks.
func (m *Match) StatsKey() string { return m.statsKey }

// Rules lists every rule, in order of domain, then of the file.
func (s *Snapshot) Rules() []*Rule { panic("not built yet") }

// Domain tells whether the domain is configured, and its all_or_nothing.
func (s *Snapshot) Domain(name string) (known, allOrNothing bool) { panic("not built yet") }

// Domains lists the names of the configured domains, sorted.
func (s *Snapshot) Domains() []string { panic("not built yet") }

// Hash is a short text that changes when the configuration does (hex).
func (s *Snapshot) Hash() string { panic("not built yet") }
