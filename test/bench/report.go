package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// report is what a comparison showed.
type report struct{ entries []*entry }

func (r *report) entry(scenario, target string) *entry {
	for _, e := range r.entries {
		if e.scenario.name == scenario && e.target.name == target {
			return e
		}
	}
	return nil
}

// floorOf is the floor under the same traffic, or else under that of "one".
func (r *report) floorOf(e *entry) *entry {
	if same := r.entry(e.scenario.name, floorName); same != nil {
		return same
	}
	return r.entry(oneScenario, floorName)
}

// table is a head and rows of equal length.
type table [][]string

// costs is the table of all entries.
func (r *report) costs() table {
	t := table{{"scenario", "server", "requests/s", "× floor", "CPU µs", "× floor", "from–to",
		"Redis CPU µs", "Redis calls", "µs each", "p50 ms", "p99 ms", "p99.9 ms", "refused", "failed"}}
	for _, e := range r.entries {
		row := []string{e.scenario.name, e.target.name, fmt.Sprintf("%.0f", e.spread(requestRate).median)}
		if rate, ok := ratio(e, r.floorOf(e), requestRate); ok && e.scenario.rate == 0 {
			row = append(row, fmt.Sprintf("%.2f", rate.median))
		} else {
			row = append(row, "")
		}
		row = append(row, fmt.Sprintf("%.1f", e.spread(serverCPU).median))
		if cpu, ok := ratio(e, r.floorOf(e), serverCPU); ok {
			row = append(row, fmt.Sprintf("%.2f", cpu.median), fmt.Sprintf("%.2f–%.2f", cpu.least, cpu.most))
		} else {
			row = append(row, "", "")
		}
		if e.target.redis != nil {
			row = append(row, fmt.Sprintf("%.1f", e.spread(redisCPU).median),
				fmt.Sprintf("%.3f", e.spread(redisCalls).median), fmt.Sprintf("%.1f", e.spread(redisCall).median))
		} else {
			row = append(row, "", "", "")
		}
		for _, percent := range []float64{50, 99, 99.9} {
			row = append(row, fmt.Sprintf("%.2f", e.spread(latency(percent)).median))
		}
		row = append(row, fmt.Sprintf("%.0f %%", 100*e.spread(refused).median), e.failures())
		t = append(t, row)
	}
	return t
}

// failures lists what got no verdict, over all rounds.
func (e *entry) failures() string {
	total := map[string]uint64{}
	for _, s := range e.samples {
		for reason, n := range s.Failed {
			total[reason] += n
		}
	}
	if len(total) == 0 {
		return "0"
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(total)) {
		parts = append(parts, fmt.Sprintf("%d %s", total[reason], reason))
	}
	return strings.Join(parts, ", ")
}

// mark is a ratio that weir wants to keep.
type mark struct {
	what, wanted string
	a, b         *entry
	m            metric
	unit         string // empty for ratios
	total        bool   // the ratio is that of all rounds together
}

func (r *report) marks() table {
	floor, memory, redis := r.entry(oneScenario, floorName), r.entry(oneScenario, memoryName), r.entry(oneScenario, redisName)
	t := table{{"mark", "wanted", "measured", "from–to"}}
	cpu := func(what, wanted string, a, b *entry) mark {
		return mark{what: what, wanted: wanted, a: a, b: b, m: serverCPU}
	}
	for _, m := range []mark{
		cpu("server CPU per request, memory", "≤ 0.35 × floor", memory, floor),
		cpu("server CPU per request, Redis", "≤ 0.5 × floor", redis, floor),
		{what: "throughput, Redis", wanted: "≥ 1.3 × floor", a: redis, b: floor, m: requestRate},
		{what: "Redis CPU per decision", wanted: "≤ 5 µs", a: redis, m: redisCPU, unit: "µs"},
		cpu("CPU, two descriptors, Redis", "≤ 1.25 × one", r.entry("two", redisName), redis),
		cpu("CPU, ten descriptors, Redis", "≤ 2.5 × one", r.entry("ten", redisName), redis),
		cpu("CPU, two descriptors, memory", "≤ 1.25 × one", r.entry("two", memoryName), memory),
		cpu("CPU, ten descriptors, memory", "≤ 2.5 × one", r.entry("ten", memoryName), memory),
		cpu("CPU, refused by the deny cache", "≤ 0.35 × floor", r.entry(deniedScenario, redisName), floor),
		{what: "Redis calls per refusal", wanted: "0", a: r.entry(deniedScenario, redisName), m: redisCalls, unit: "calls"},
		cpu("CPU, leased hot key", "≤ 0.35 × floor", r.entry(leasedScenario, redisName), floor),
		{what: "Redis calls, leased hot key", wanted: "≤ 0.05 per request", a: r.entry(leasedScenario, redisName), m: redisCalls, unit: "per request"},
		{what: "CPU, 100,000 rules", wanted: "≤ 1.05 × 10 rules", a: r.entry(manyRulesScenario, manyName), b: r.entry(fewRulesScenario, memoryName), m: serverCPU, total: true},
	} {
		t = append(t, m.row()...)
	}
	return t
}

// row is the mark's line, or none if it was not measured.
func (m mark) row() table {
	if m.a == nil {
		return nil
	}
	if m.unit != "" {
		s := m.a.spread(m.m)
		return table{{m.what, m.wanted, fmt.Sprintf("%.3g %s", s.median, m.unit), fmt.Sprintf("%.3g–%.3g", s.least, s.most)}}
	}
	s, ok := ratio(m.a, m.b, m.m)
	if !ok {
		return nil
	}
	if m.total {
		s.median = m.m(m.a.total()) / m.m(m.b.total())
	}
	return table{{m.what, m.wanted, fmt.Sprintf("%.2f ×", s.median), fmt.Sprintf("%.2f–%.2f", s.least, s.most)}}
}

// noise says how much to trust the numbers.
func (r *report) noise() string {
	var foreign, driver, late []float64
	for _, e := range r.entries {
		for _, s := range e.samples {
			foreign = append(foreign, strangers(s))
			driver = append(driver, driverCPU(s))
			if e.scenario.rate > 0 {
				late = append(late, lateness(99)(s))
			}
		}
	}
	text := fmt.Sprintf("Other processes used %.0f %% of the CPUs in the middle round and %.0f %% in the worst; the driver used %.1f µs of CPU per request.",
		100*spreadOf(foreign).median, 100*spreadOf(foreign).most, spreadOf(driver).median)
	if len(late) > 0 {
		text += fmt.Sprintf(" 99 %% of the scheduled requests were written within %.2f ms of their time, which the latencies contain.", spreadOf(late).median)
	}
	return text
}

func (r *report) print(out io.Writer) error {
	for _, t := range []table{r.costs(), r.marks()} {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, row := range t {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
		fmt.Fprintln(w)
		if err := w.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(out, r.noise())
	return err
}
