package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/weirhq/weir/test/bench/internal/load"
	"github.com/weirhq/weir/test/bench/internal/proc"
)

const warmUp = 80 * time.Millisecond

// entry is one scenario on one server, with a sample from each round.
type entry struct {
	scenario scenario
	target   *target
	samples  []sample
}

// sample is what one round of one entry showed.
type sample struct {
	load.Result
	server, redis, driver time.Duration // CPU used meanwhile
	strangers             float64       // share of the machine's CPUs that other processes used
	calls                 proc.Calls    // of Redis
}

func runCompare(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parseOptions(args, out)
	if err != nil {
		return err
	}
	fmt.Fprintln(progress, "starting servers")
	ts, err := startTargets(ctx, o)
	if err != nil {
		return err
	}
	defer ts.stop()
	entries := entriesOf(o, ts)
	if err := measureAll(ctx, entries, o, progress); err != nil {
		return err
	}
	r := &report{entries: entries}
	if err := r.print(out); err != nil {
		return err
	}
	if o.profiles != "" {
		if err := profileAll(ctx, entries, o.profiles); err != nil {
			return err
		}
	}
	if o.write {
		facts, err := gatherFacts(ctx, o, ts)
		if err != nil {
			return err
		}
		return writeDocument(r, facts, filepath.Join(o.root, "docs", "BENCHMARKS.md"))
	}
	return nil
}

// entriesOf pairs scenarios with servers.
func entriesOf(o options, ts *targets) []*entry {
	var entries []*entry
	for _, s := range o.scenarios {
		names := slices.Clone(s.servers)
		if s.others {
			for _, other := range o.others {
				names = append(names, other.name)
			}
		}
		for _, name := range names {
			entries = append(entries, &entry{scenario: s, target: ts.find(name)})
		}
	}
	return entries
}

// measureAll goes round by round through all entries, so that what changes on
// the machine meanwhile touches all of them.
func measureAll(ctx context.Context, entries []*entry, o options, progress io.Writer) error {
	for round := range o.rounds {
		fmt.Fprintf(progress, "round %d of %d\n", round+1, o.rounds)
		for _, e := range entries {
			s, err := e.measure(ctx, o.duration*time.Duration(max(1, e.scenario.longer)), uint64(round))
			if err == nil {
				err = context.Cause(ctx) // names the signal
			}
			if err != nil {
				return fmt.Errorf("%s on %s: %w", e.scenario.name, e.target.name, err)
			}
			e.samples = append(e.samples, s)
		}
	}
	return nil
}

func (e *entry) measure(ctx context.Context, duration time.Duration, seed uint64) (sample, error) {
	l, err := load.Dial(load.Config{
		Addr: e.target.addr, Connections: e.scenario.connections,
		Timeout: callerTimeout, Shape: e.scenario.shape, Seed: seed,
	})
	if err != nil {
		return sample{}, err
	}
	defer l.Close()
	if _, err := l.Closed(ctx, e.scenario.callers, warmUp); err != nil {
		return sample{}, err
	}
	before, err := e.target.counters()
	if err != nil {
		return sample{}, err
	}
	began := time.Now()
	var r load.Result
	if e.scenario.rate > 0 {
		r, err = l.Open(ctx, load.Schedule{Rate: e.scenario.rate, Poisson: true}, duration)
	} else {
		r, err = l.Closed(ctx, e.scenario.callers, duration)
	}
	if err != nil {
		return sample{}, err
	}
	took := time.Since(began)
	after, err := e.target.counters()
	if err != nil {
		return sample{}, err
	}
	return after.since(before, r, took), nil
}

// counters are the running totals at one time.
type counters struct {
	server, redis, driver, machine time.Duration
	commands                       map[string]proc.Calls
}

func (t *target) counters() (c counters, err error) {
	if c.server, err = proc.CPU(t.pid); err != nil {
		return c, err
	}
	if c.driver, err = proc.CPU(os.Getpid()); err != nil {
		return c, err
	}
	if c.machine, err = proc.Busy(); err != nil {
		return c, err
	}
	if t.redis == nil {
		return c, nil
	}
	if c.redis, err = proc.CPU(t.redis.PID()); err != nil {
		return c, err
	}
	c.commands, err = t.redis.Commands()
	return c, err
}

func (c counters) since(before counters, r load.Result, took time.Duration) sample {
	s := sample{
		Result: r, server: c.server - before.server, redis: c.redis - before.redis, driver: c.driver - before.driver,
		calls: proc.Work(before.commands, c.commands),
	}
	others := c.machine - before.machine - s.server - s.redis - s.driver
	s.strangers = max(0, others.Seconds()/(took.Seconds()*float64(runtime.NumCPU())))
	return s
}
