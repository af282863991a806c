package algorithm

import "strconv"

// Kind names an algorithm. The zero value is FixedWindow, the default.
type Kind uint8

// The algorithms, docs/ALGORITHMS.md has a section on each.
const (
	FixedWindow Kind = iota
	SlidingWindowLog
	SlidingWindowCounter
	TokenBucket
	LeakyBucket
	Concurrency
)

var kindNames = [...]string{
	FixedWindow:          "fixed_window",
	SlidingWindowLog:     "sliding_window_log",
	SlidingWindowCounter: "sliding_window_counter",
	TokenBucket:          "token_bucket",
	LeakyBucket:          "leaky_bucket",
	Concurrency:          "concurrency",
}

// String gives the name used in rule files.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// Kinds lists every algorithm in declaration order.
func Kinds() []Kind {
	return []Kind{FixedWindow, SlidingWindowLog, SlidingWindowCounter, TokenBucket, LeakyBucket, Concurrency}
}

// ParseKind reads a name as written in a rule file; "gcra" is an alias of
// token_bucket. ok is false for any other text.
func ParseKind(name string) (k Kind, ok bool) {
	if name == "gcra" {
		return TokenBucket, true
	}
	for i, n := range kindNames {
		if n == name {
			return Kind(i), true
		}
	}
	return 0, false
}

// Bounds of the numbers of a limit.
const (
	MaxRequests  = 1<<32 - 1                          // requests per window, and burst
	MinWindowUS  = 1_000                              // 1 ms
	MaxWindowUS  = 366 * 24 * 3600 * int64(1_000_000) // a little above the 365 days of unit year
	MaxPrecision = 120                                // sub-windows of the ring log
	MaxLogExact  = 128                                // largest limit kept as an exact log

	DefaultPrecision  = 60
	DefaultLeaseTTLUS = 60 * 1_000_000

	// MaxSkewUS bounds Spec.SkewUS; docs/ALGORITHMS.md, "Clocks".
	MaxSkewUS = 1_000_000

	// maxExact bounds every product: doubles are exact for integers up to 2^53.
	maxExact = 1 << 53
)

// Limit is a rate limit as a user states it. The zero value of each optional
// field means its default.
type Limit struct {
	Kind     Kind
	Requests int64 // hits per window, or hits in flight for Concurrency; 0 … MaxRequests, 0 refuses everything
	WindowUS int64 // length in µs, whole milliseconds, MinWindowUS … MaxWindowUS; 0 for Concurrency

	Burst       int64 // capacity of the buckets in hits; 0 = Requests
	CountDenied bool  // FixedWindow: a refused cost is counted too, as envoyproxy/ratelimit does
	Precision   int64 // SlidingWindowLog: sub-windows of the ring; 0 = DefaultPrecision (exact log where the limit is small)
	PostPaid    bool  // any non-zero cost is taken without asking, up to MaxDebt beyond the limit
	MaxDebt     int64 // hits that charges may overdraw; 0 = one further limit (buckets: one further burst)
	LeaseTTLUS  int64 // Concurrency: life of an unreleased place; 0 = DefaultLeaseTTLUS
}

// Mode says what is asked of a limit.
type Mode uint8

const (
	// Spend takes the whole cost if it fits, nothing otherwise.
	Spend Mode = iota
	// Look asks whether a cost would fit and writes nothing. Cost 0 asks whether
	// the state is overdrawn: exactly used up passes.
	Look
	// Charge takes the cost without asking (for costs known afterwards), up to
	// the limit plus MaxDebt. It is always allowed.
	Charge
	// TakeUpTo takes as much of the cost as fits: Decision.Taken says how much.
	// It is allowed when that is the whole cost.
	TakeUpTo
	// Refund gives the cost back, never below zero used. It is always allowed.
	// For Concurrency it releases the place of the Ask's lease.
	Refund
)

var modeNames = [...]string{Spend: "spend", Look: "look", Charge: "charge", TakeUpTo: "take_up_to", Refund: "refund"}

// String gives the mode's name for logs and diagnostics.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "Mode(" + strconv.Itoa(int(m)) + ")"
}

// Ask is one question to one limit.
type Ask struct {
	Mode Mode
	Cost int64 // hits, 0 … MaxCost; larger ones are clamped by ClampCost before they get here
	// Lease is the id of a place (Concurrency only): made by the server for a
	// Spend, named by the holder for a Refund (release) or a Charge (renewal).
	Lease string
}

// MaxCost is the largest cost that is computed with; anything above can never
// fit, so clamping to it changes no verdict.
const MaxCost = 1 << 32

// ClampCost brings a hits addend from the wire into the range of Ask.Cost.
func ClampCost(hits uint64) int64 {
	if hits > MaxCost {
		return MaxCost
	}
	return int64(hits)
}

// Decision is the answer of one limit.
type Decision struct {
	Allowed bool
	Never   bool // refused, and the cost is above what an unused state could take

	Taken     int64 // hits taken (a Charge cut by MaxDebt: less than its cost); for Refund the hits given back
	Remaining int64 // hits that would pass now, 0 … max(limit, burst); fixed windows say 0 when refused
	Used      int64 // hits held against the limit after the decision, rounded up; may exceed the limit

	// RetryAfterUS is the exact wait after which the same ask passes if nobody
	// else comes. 0 when allowed, when Never, and where no wait can be known
	// (Concurrency).
	RetryAfterUS int64
	// ResetAfterUS is the time until the state is as new; for fixed windows
	// the rest of the window. 0 for an unused state of the other algorithms.
	ResetAfterUS int64
}
