package descriptors

// Severity tells errors, which refuse a load, from warnings, which do not.
type Severity uint8

// The severities.
const (
	Warning Severity = iota
	Error
)

// Diagnostic is one problem of a rule file.
type Diagnostic struct {
	Severity Severity
	Code     string // stable: WEIR1xxx, listed in docs/CONFIG.md
	Pos      Position
	Path     string // path of the rule, or of the key within the file
	Message  string // lower case, quotes the offending value
	Hint     string // what to write instead; may be empty
	Related  []Position
}

// Diagnostics are all problems of a load, in order of file and position.
type Diagnostics []Diagnostic
