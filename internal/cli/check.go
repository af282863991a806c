package cli

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirhq/weir/internal/source/file"
	"github.com/weirhq/weir/pkg/descriptors"
)

type checkCmd struct {
	Config string `arg:"" help:"Rule file, or folder of *.yaml files." type:"path"`
	Strict bool   `help:"Treat warnings that are surely mistakes as errors."`
	Output string `enum:"text,json" default:"text" help:"text or json."`
}

// Run reports every problem of the files. It runs the code that the server
// loads with.
func (c *checkCmd) Run(s *streams) error {
	files, err := file.Layout{Path: c.Config, SkipDot: true}.Read()
	if err != nil {
		return err
	}
	// A secret of the server's is not needed to check a rule that uses one.
	snapshot, problems := descriptors.Load(files, descriptors.Options{AllDocuments: true, SkipForeign: true, HashSecret: []byte("check")})
	if c.Strict {
		problems = problems.Strict()
	}
	if c.Output == "json" {
		err = printJSON(s, problems)
	} else {
		fmt.Fprint(s.out, problems.String())
	}
	switch {
	case err != nil:
		return err
	case problems.HasErrors():
		return exitError(ExitFailed)
	case snapshot == nil:
		return errors.New("the rules could not be loaded")
	}
	if c.Output == "text" {
		fmt.Fprintf(s.out, "ok: %d files, %d domains, %d rules\n", len(files), len(snapshot.Domains()), len(snapshot.Rules()))
	}
	return nil
}

type jsonProblem struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	File     string `json:"file"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Rule     string `json:"rule,omitempty"`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
}

func printJSON(s *streams, problems descriptors.Diagnostics) error {
	out := make([]jsonProblem, len(problems))
	for i, p := range problems {
		out[i] = jsonProblem{p.Severity.String(), p.Code, p.Pos.File, p.Pos.Line, p.Pos.Column, p.Path, p.Message, p.Hint}
	}
	encoder := json.NewEncoder(s.out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(out)
}
