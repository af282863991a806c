package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/test/bench/internal/load"
	"github.com/weirhq/weir/test/bench/internal/proc"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// testSample is a second of load: cpu per request on the server, and with
// Redis a call per request.
func testSample(requests uint64, cpu time.Duration, redis bool) sample {
	s := sample{
		Result: load.Result{
			OK: requests - requests/10, OverLimit: requests / 10, Failed: map[string]uint64{},
			Elapsed: time.Second, Latency: load.NewHistogram(), Lateness: load.NewHistogram(),
		},
		server: cpu * time.Duration(requests), driver: 2 * time.Microsecond * time.Duration(requests), strangers: 0.05,
	}
	for i := range requests {
		s.Latency.Record(int64(i+1) * 1000)
	}
	if redis {
		s.redis = 4 * time.Microsecond * time.Duration(requests)
		s.calls = proc.Calls{Count: requests, Spent: 3 * time.Microsecond * time.Duration(requests)}
	}
	return s
}

func testReport() *report {
	floor, memory := &target{name: floorName}, &target{name: memoryName}
	redis := &target{name: redisName, redis: &proc.Redis{}}
	one, paced := scenario{name: oneScenario, what: "one descriptor"}, scenario{name: "paced", what: "by a schedule", rate: 500}
	two := scenario{name: "two", what: "two descriptors"}
	late := testSample(500, 100*time.Microsecond, false)
	late.Lateness.Record(int64(50 * time.Microsecond))
	failing := testSample(1000, 12*time.Microsecond, true)
	failing.Failed["grpc-status 14"] = 3
	return &report{entries: []*entry{
		{one, floor, []sample{testSample(1000, 20*time.Microsecond, false), testSample(900, 22*time.Microsecond, false), testSample(800, 40*time.Microsecond, false)}},
		{one, memory, []sample{testSample(2000, 5*time.Microsecond, false), testSample(1800, 11*time.Microsecond, false), testSample(1600, 10*time.Microsecond, false)}},
		{one, redis, []sample{testSample(1500, 10*time.Microsecond, true), testSample(1350, 11*time.Microsecond, true), testSample(1200, 20*time.Microsecond, true)}},
		{two, redis, []sample{failing, failing, failing}},
		{paced, memory, []sample{late, late, late}},
		{scenario{name: fewRulesScenario, what: "10 rules"}, memory, []sample{testSample(1000, 10*time.Microsecond, false), testSample(1000, 10*time.Microsecond, false)}},
		{scenario{name: manyRulesScenario, what: "100,000 rules"}, &target{name: manyName}, []sample{testSample(1000, 9*time.Microsecond, false), testSample(1000, 17*time.Microsecond, false)}},
	}}
}

func TestReportReads(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, testReport().print(&out))
	golden(t, "report.txt", out.String())
}

func TestDocumentReads(t *testing.T) {
	golden(t, "document.md", document(testReport(), facts{{"Machine", "2 × a CPU"}, {"Go", "1.26.0"}}))
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	r := testReport()
	s, ok := ratio(r.entry(oneScenario, memoryName), r.entry(oneScenario, floorName), serverCPU)
	require.True(t, ok)
	require.Equal(t, spread{median: 0.25, least: 0.25, most: 0.5}, s)

	_, ok = ratio(r.entry("two", redisName), nil, serverCPU)
	require.False(t, ok)
	idle := &entry{samples: []sample{{}}}
	_, ok = ratio(idle, idle, requestRate)
	require.False(t, ok)
}

func TestTotalsShowWhatIsRare(t *testing.T) {
	e := testReport().entry(oneScenario, memoryName)
	require.InDelta(t, 8.48, serverCPU(e.total()), 0.01) // 2000 at 5 µs, 1800 at 11, 1600 at 10
	require.InDelta(t, 1800, requestRate(e.total()), 0.01)
}

func TestSpread(t *testing.T) {
	require.Equal(t, spread{}, spreadOf(nil))
	require.Equal(t, spread{2, 1, 9}, spreadOf([]float64{9, 1, 2}))
	require.Equal(t, spread{3, 1, 9}, spreadOf([]float64{9, 1, 2, 4}))
}

func TestOptions(t *testing.T) {
	var usage bytes.Buffer
	o, err := parseOptions([]string{"--other", "reference=/bin/x", "--scenarios", "ten,paced"}, &usage)
	require.NoError(t, err)
	require.Equal(t, []other{{"reference", "/bin/x"}}, o.others)
	require.True(t, o.wants(oneScenario)) // every ratio needs it
	require.True(t, o.wants("ten"))
	require.False(t, o.wants(manyRulesScenario))

	for want, args := range map[string][]string{
		`scenario "tne"`:            {"--scenarios", "tne"},
		"want name=path":            {"--other", "reference"},
		"0 rounds":                  {"--rounds", "0"},
		`unknown argument "--like"`: {"--", "--like"},
		"-reckless":                 {"-reckless"},
	} {
		_, err := parseOptions(args, &usage)
		require.ErrorContains(t, err, want)
	}
}
