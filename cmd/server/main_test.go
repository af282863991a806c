package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weirhq/weir/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"weir": func() { os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// TestStories plays testdata/*.txtar, one story for each subcommand.
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata"})
}
