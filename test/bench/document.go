package main

import (
	_ "embed"
	"fmt"
	"os"
	"strings"
)

// method is the part of the page that does not change with the numbers.
//
//go:embed method.md
var method string

func writeDocument(r *report, f facts, path string) error {
	return os.WriteFile(path, []byte(document(r, f)), 0o644)
}

// document is docs/BENCHMARKS.md.
func document(r *report, f facts) string {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\nWritten by `make bench BENCHFLAGS=--write`; edits are lost.\n\n")
	b.WriteString("## Marks\n\n")
	b.WriteString(r.marks().markdown())
	b.WriteString("\n## Costs\n\n")
	b.WriteString(r.costs().markdown())
	b.WriteString("\n" + r.noise() + "\n\n## Scenarios\n\n")
	for i, e := range r.entries {
		if i == 0 || e.scenario.name != r.entries[i-1].scenario.name {
			fmt.Fprintf(&b, "* **%s**: %s.\n", e.scenario.name, e.scenario.what)
		}
	}
	b.WriteString("\n## Machine and versions\n\n")
	rows := table{{"what", "which"}}
	for _, fact := range f {
		rows = append(rows, fact[:])
	}
	b.WriteString(rows.markdown())
	b.WriteString("\n" + method)
	return b.String()
}

// markdown is the table as Markdown has it; the first row is the head.
func (t table) markdown() string {
	var b strings.Builder
	for i, row := range t {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("| --- ", len(row)) + "|\n")
		}
	}
	return b.String()
}
