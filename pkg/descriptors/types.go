package descriptors

import (
	"time"

	"github.com/weirhq/weir/pkg/algorithm"
)

// Entry is one key and value of a request's descriptor. Values may be empty.
type Entry struct {
	Key, Value string
}

// Unit is a unit of time with the numbers of the protocol's RateLimit.Unit, in
// which the order of numbers is not the order of lengths.
type Unit uint8

// The units. Month and year are 30 and 365 days.
const (
	UnitUnknown Unit = iota
	Second
	Minute
	Hour
	Day
	Month
	Year
	Week
)

// Override is a limit that a request brings along (RateLimitDescriptor.limit).
// It is bad when Unit is unknown to weir or the window is too long; then the
// configured rule stays in force.
type Override struct {
	Requests   uint32
	Unit       int32  // as on the wire, any number
	Multiplier uint32 // 0 is taken as 1
}

// OnError is what a rule answers when its store cannot.
type OnError uint8

// The fail modes of a rule. OnErrorUnset leaves it to the server's default.
const (
	OnErrorUnset OnError = iota
	OnErrorAllow
	OnErrorDeny
	OnErrorError // gRPC Unavailable, so that Envoy's failure_mode_deny decides
	OnErrorLocal // the same limit in memory, divided by the expected replicas
)

// Consistency says how exactly replicas share a rule's limit.
type Consistency uint8

// Exact asks the store for each decision; Leased may take hits ahead.
const (
	Exact Consistency = iota
	Leased
)

// HeaderForm is one way of telling a client its limits in response headers.
type HeaderForm uint8

// The header forms, combined as bits. HeadersUnset leaves it to the server,
// HeadersNone asks for none.
const (
	HeadersNone       HeaderForm = 1 << iota
	HeadersRateLimit             // RateLimit-Limit, -Remaining, -Reset
	HeadersXRateLimit            // X-RateLimit-Limit, -Remaining, -Reset
	HeadersDraft10               // RateLimit-Policy and RateLimit lists

	HeadersUnset HeaderForm = 0
)

// Refused is what a client gets when the rule refuses.
type Refused struct {
	// Body is the body's text, or one of the forms "none", "text" and
	// "problem+json"; "" leaves it to the server.
	Body        string
	ContentType string            // of a text of one's own; "" leaves text/plain
	Headers     map[string]string // further response headers
}

// Position is a place in a rule file; the zero Line means the place is unknown
// (rules that did not come from a text).
type Position struct {
	File         string
	Line, Column int // from 1
}

// Limit is one limit of a rule.
type Limit struct {
	Name string // as configured, may be empty
	// Shown in answers: Requests per Multiplier × Unit. Concurrency limits have
	// UnitUnknown.
	Requests   uint32
	Unit       Unit
	Multiplier uint32
	Spec       *algorithm.Spec
	// PolicyName is Name made safe for headers, or made from the rule's path.
	PolicyName string
	Window     time.Duration
}

// Rule is one descriptor of the configuration that has something to say: limits,
// unlimited, exempt, or a plain allow-list entry. It is immutable.
type Rule struct {
	id     string
	Domain string
	// Path is the rule's place as text: key or key_value of each level, joined
	// by dots, without the domain ("tenant.route_/search").
	Path string
	Pos  Position
	// Limits is empty for allow-list, unlimited and exempt rules, has one element
	// for rate_limit and several for rate_limits.
	Limits    []Limit
	Unlimited bool
	Exempt    bool
	Name      string   // of the only limit, also for unlimited ones
	Replaces  []string // names of limits that this one replaces

	Shadow         bool
	Quota          bool
	DetailedMetric bool
	Metadata       map[string]any // read-only: shared by all requests
	OnError        OnError
	Consistency    Consistency
	EnforcePercent int // 100 enforces all keys; the rest is shadow
	Headers        HeaderForm
	Refused        *Refused // nil: the server's default
	Overridable    bool
}

// Match is what one descriptor of a request met. Use it again for the next
// request to save its memory.
type Match struct {
	Rule *Rule // nil when no rule matched; set beside an override where one matched
	// Limits in force: the rule's, or the single limit of an override. Empty when
	// nothing is to be counted.
	Limits []Limit
	// Keys holds the store key of each limit.
	Keys []string

	Overridden  bool // Limits come from the request
	BadOverride bool // the request's limit made no sense and was ignored
	Unlimited   bool
	Exempt      bool
	Replaced    bool // dropped by another limit's replaces; set by Resolve
	Shadow      bool // refusals are not enforced (shadow_mode, or the key is outside enforce_percent)
	Quota       bool
	DomainKnown bool

	statsKey string  // parts separated by statsSeparator
	path     []*node // the node that each entry met
	scratch  []byte
}

// ID names the rule among all of a configuration, and stays the same over
// reloads that leave its domain and path.
func (r *Rule) ID() string { return r.id }
