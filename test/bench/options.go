package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// options are those of a comparison.
type options struct {
	weir, root, redis string
	others            []other
	scenarios         []scenario
	rounds            int
	duration          time.Duration
	write             bool
	profiles          string
}

// other is a server beside weir, given as name=path.
type other struct{ name, path string }

func (o options) wants(name string) bool {
	return slices.ContainsFunc(o.scenarios, func(s scenario) bool { return s.name == name })
}

func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.weir, "weir", "", "weir's `binary` (default: built from --root)")
	flags.StringVar(&o.root, "root", "../..", "weir's source `folder`")
	flags.StringVar(&o.redis, "redis", "redis-server", "Redis or Valkey server `program`")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each server gets each scenario, 1 to 1000")
	flags.DurationVar(&o.duration, "duration", 500*time.Millisecond, "load in one round, up to 1m")
	flags.BoolVar(&o.write, "write", false, "write docs/BENCHMARKS.md below --root")
	flags.StringVar(&o.profiles, "profiles", "", "`folder` for a CPU profile of weir in each scenario, taken after the rounds")
	names := flags.String("scenarios", "", "comma list (default: all): "+strings.Join(scenarioNames(), ","))
	flags.Func("other", "another server with the reference's environment, `name=path`; may be repeated", func(text string) error {
		name, path, ok := strings.Cut(text, "=")
		if !ok || name == "" || path == "" {
			return fmt.Errorf("want name=path")
		}
		o.others = append(o.others, other{name, path})
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if o.rounds < 1 || o.rounds > 1000 || o.duration <= 0 || o.duration > time.Minute {
		return options{}, fmt.Errorf("%d rounds of %v: want 1 to 1000 of at most 1m", o.rounds, o.duration)
	}
	wanted := strings.FieldsFunc(*names, func(r rune) bool { return r == ',' })
	for _, name := range wanted {
		if !slices.Contains(scenarioNames(), name) {
			return options{}, fmt.Errorf("scenario %q: want one of %s", name, strings.Join(scenarioNames(), ", "))
		}
	}
	o.scenarios = chosen(wanted)
	return o, nil
}

func scenarioNames() []string {
	var names []string
	for _, s := range allScenarios() {
		names = append(names, s.name)
	}
	return names
}
