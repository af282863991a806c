// Package cli is weir's command line: subcommands, help, exit codes.
//
// It owns how weir is called and what it prints. It must not decide anything
// itself; commands call the packages that do.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/weirhq/weir/internal/settings"
)

// Exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1 // the command could not do its work, or found errors
	ExitUsage  = 2 // the command line is wrong
)

// commands is the command line. serve is the default, so that /bin/ratelimit
// without arguments serves.
type commands struct {
	Serve       serveCmd       `cmd:"" default:"withargs" help:"Serve rate limit decisions (the default)."`
	Check       checkCmd       `cmd:"" help:"Check rule files: every problem with its place, and what to write instead."`
	Settings    settingsCmd    `cmd:"" help:"Print the effective settings and where each comes from."`
	Healthcheck healthcheckCmd `cmd:"" help:"Ask a running weir for its health: exit 0 if it is healthy."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

// streams are what commands read and write.
type streams struct {
	out, err io.Writer
	args     []string
}

type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// Run runs one command line and gives the process's exit code.
func Run(args []string, out, errs io.Writer) int {
	if err := settings.Tidy(processEnvironment{}); err != nil {
		fmt.Fprintln(errs, "weir: "+strings.ReplaceAll(err.Error(), "\n", "\nweir: "))
		return ExitFailed
	}
	var exit *int
	var c commands
	parser, err := kong.New(&c, options(out, errs, func(code int) { exit = &code })...)
	if err != nil {
		fmt.Fprintln(errs, "weir:", err)
		return ExitFailed
	}
	ctx, err := parser.Parse(args)
	switch {
	case exit != nil: // --help has printed and asked to end
		return *exit
	case err != nil:
		fmt.Fprintf(errs, "weir: %s\nRun weir --help for what there is.\n", err)
		return ExitUsage
	}
	err = ctx.Run(&streams{out: out, err: errs, args: args}, parser)
	var code exitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &code):
		return int(code)
	default:
		fmt.Fprintln(errs, "weir:", err)
		return ExitFailed
	}
}

func options(out, errs io.Writer, exit func(int)) []kong.Option {
	return []kong.Option{
		kong.Name("weir"),
		kong.Description("Rate limit server for Envoy and everything that speaks its protocol."),
		kong.Writers(out, errs), kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	}
}

// processEnvironment is the environment of this process.
type processEnvironment struct{}

func (processEnvironment) Lookup(name string) (string, bool) { return os.LookupEnv(name) }
func (processEnvironment) Set(name, value string) error      { return os.Setenv(name, value) }
func (processEnvironment) Unset(name string) error           { return os.Unsetenv(name) }
