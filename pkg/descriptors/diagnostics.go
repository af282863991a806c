package descriptors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity tells errors, which refuse a load, from warnings and notes, which do
// not.
type Severity uint8

// The severities.
const (
	Warning Severity = iota
	Error
	Note
)

// String gives "warning", "error" or "note".
func (s Severity) String() string {
	return [...]string{Warning: "warning", Error: "error", Note: "note"}[s]
}

// Diagnostic is one problem of a rule file.
type Diagnostic struct {
	Severity Severity
	Code     string // stable: WEIR1xxx, listed in docs/CONFIG.md
	Pos      Position
	Path     string // path of the rule, without the domain
	Message  string // lower case, quotes the offending value
	Hint     string // what to write instead; may be empty
	Related  []Position
	// Mistake marks warnings that are surely mistakes: errors to a strict check.
	Mistake bool
}

// String gives the diagnostic on one line, and the hint on a second one.
func (d Diagnostic) String() string {
	var b strings.Builder
	b.WriteString(d.Pos.String())
	fmt.Fprintf(&b, ": %s %s: %s", d.Severity, d.Code, d.Message)
	if d.Path != "" {
		fmt.Fprintf(&b, " (rule %s)", d.Path)
	}
	if d.Hint != "" {
		b.WriteString("\n    hint: " + d.Hint)
	}
	return b.String()
}

// String gives file:line:column, as far as they are known.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Diagnostics are all problems of a load, in order of file and position.
type Diagnostics []Diagnostic

// HasErrors tells whether a problem refuses the load.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}

// Strict gives the same problems with surely mistaken warnings as errors.
func (ds Diagnostics) Strict() Diagnostics {
	out := slices.Clone(ds)
	for i := range out {
		if out[i].Mistake {
			out[i].Severity = Error
		}
	}
	return out
}

// Err is nil without errors, else one error that lists them all.
func (ds Diagnostics) Err() error {
	var lines []string
	for _, d := range ds {
		if d.Severity == Error {
			lines = append(lines, d.String())
		}
	}
	if lines == nil {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(lines, "\n"))
}

// String gives one diagnostic after the other, each ending its line.
func (ds Diagnostics) String() string {
	var b strings.Builder
	for _, d := range ds {
		b.WriteString(d.String() + "\n")
	}
	return b.String()
}

func (ds Diagnostics) sort() {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
}
