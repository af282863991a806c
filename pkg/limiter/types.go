package limiter

import (
	"time"

	"github.com/weirhq/weir/pkg/algorithm"
)

// FailMode is what a check answers when its store cannot.
type FailMode uint8

// The fail modes. FailError is the default: the caller is told of the failure.
const (
	FailError FailMode = iota
	FailAllow
	FailDeny
	// FailLocal decides by the same limits in this process, divided by the
	// expected number of replicas.
	FailLocal
)

var failModeNames = [...]string{FailError: "error", FailAllow: "allow", FailDeny: "deny", FailLocal: "local"}

// String gives the name used in rule files and metrics.
func (m FailMode) String() string { return failModeNames[m] }

// Cause says what a verdict rests on.
type Cause uint8

// The causes of a verdict.
const (
	CauseLimit   Cause = iota // the state of the limit
	CauseOnError              // the store failed; FailAllow or FailDeny answered
	CauseLocal                // the store failed; the local limiter answered
	CauseError                // the store failed and nothing answered (Result.Err)
)

var causeNames = [...]string{CauseLimit: "limit", CauseOnError: "on_error", CauseLocal: "local", CauseError: "error"}

// String gives the name used in metadata and metrics.
func (c Cause) String() string { return causeNames[c] }

// Causes lists every cause.
func Causes() []Cause { return []Cause{CauseLimit, CauseOnError, CauseLocal, CauseError} }

// Limit is one limit and the key of its state.
type Limit struct {
	Key  string
	Spec *algorithm.Spec
}

// Check is one rule that a request met: its limits are decided together, so
// that a refused one costs nothing from the others.
type Check struct {
	// Rule identifies the rule among all of the configuration, for stores that
	// bound what one rule may hold.
	Rule   string
	Limits []Limit // at least one
	Ask    algorithm.Ask
	// Advisory checks (shadow, quota) commit by their own verdict and hold no
	// other check back.
	Advisory bool
	OnError  FailMode

	Result Result // set when the request is done
}

// Result is the answer of one check.
type Result struct {
	Allowed bool
	// Index is the limit that the answer speaks of: of the refusing ones the one
	// with the longest wait, else the one with the least share remaining.
	Index int
	// Decisions has one element per limit; empty when the store did not answer
	// (CauseOnError, CauseError).
	Decisions []algorithm.Decision
	Cause     Cause
	Err       error // why the store did not answer, also when a fail mode stood in
}

// Decision is the one that the answer speaks of; the zero Decision where there
// is none.
func (r *Result) Decision() algorithm.Decision {
	if r.Index >= len(r.Decisions) {
		return algorithm.Decision{}
	}
	return r.Decisions[r.Index]
}

// Request is all that one caller asks at once.
type Request struct {
	Checks []Check
	// AllOrNothing counts the checks only if none of the enforcing ones refuses.
	AllOrNothing bool
	// Deadline is when the caller stops waiting; zero means never.
	Deadline time.Time
}
