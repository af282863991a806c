package descriptors

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite golden files")

var testOptions = Options{HashSecret: []byte("secret"), AllDocuments: true}

// TestMatch plays testdata/match/*.txt: rules, then lines "? domain key=value,…
// [@N/UNIT]", each followed by what it met.
func TestMatch(t *testing.T) {
	files, err := filepath.Glob("testdata/match/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			got := playMatch(t, string(text))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			require.Equal(t, string(text), got)
		})
	}
}

func playMatch(t *testing.T, text string) string {
	rules, questions, ok := strings.Cut(text, "\n===\n")
	require.True(t, ok, "no === between rules and questions")
	snapshot, problems := Load([]Source{{Name: "rules.yaml", Data: []byte(rules)}}, testOptions)
	require.NotNil(t, snapshot, "%v", problems)
	var out strings.Builder
	out.WriteString(rules + "\n===\n")
	for line := range strings.Lines(questions) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "? "):
			out.WriteString(line + "\n" + describeAll(snapshot, line[2:]))
		case strings.HasPrefix(line, "#"), line == "":
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

// describeAll matches the descriptors of one request, separated by spaces.
func describeAll(s *Snapshot, text string) string {
	words := strings.Split(text, " ")
	matches := make([]Match, len(words)-1)
	for i, word := range words[1:] {
		var override *Override
		if body, limit, ok := strings.Cut(word, "@"); ok {
			override = &Override{}
			_, _ = fmt.Sscanf(limit, "%d/%d/%d", &override.Requests, &override.Unit, &override.Multiplier)
			word = body
		}
		s.Match(words[0], entriesOf(word), override, &matches[i])
	}
	Resolve(matches)
	var out strings.Builder
	for i := range matches {
		out.WriteString("  " + describe(&matches[i]) + "\n")
	}
	return out.String()
}

func entriesOf(word string) []Entry {
	var out []Entry
	if word == "-" {
		return nil
	}
	for pair := range strings.SplitSeq(word, ",") {
		k, v, _ := strings.Cut(pair, "=")
		out = append(out, Entry{strings.ReplaceAll(k, "·", " "), strings.ReplaceAll(v, "·", " ")})
	}
	return out
}

func describe(m *Match) string {
	var b strings.Builder
	switch {
	case m.Rule != nil:
		b.WriteString("rule " + m.Rule.Path)
	case m.DomainKnown:
		b.WriteString("no rule")
	default:
		return "no domain"
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"overridden", m.Overridden}, {"bad override", m.BadOverride}, {"unlimited", m.Unlimited}, {"exempt", m.Exempt}, {"replaced", m.Replaced}, {"shadow", m.Shadow}, {"quota", m.Quota}} {
		if flag.set {
			b.WriteString(", " + flag.name)
		}
	}
	for i, l := range m.Limits {
		fmt.Fprintf(&b, "\n    %d per %d %s %s %q", l.Requests, l.Multiplier, l.Unit, l.Spec.Kind, m.Keys[i])
	}
	if len(m.Limits) > 0 {
		b.WriteString("\n    stats " + m.StatsKey())
	}
	return b.String()
}

func TestMatchingAllocatesTheKeyOnly(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("domain: d\ndescriptors:\n")
	for i := range 1000 {
		fmt.Fprintf(&rules, "  - {key: route, value: r%d, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5}}]}\n", i)
	}
	rules.WriteString("  - {key: net, value_cidr: [10.0.0.0/8], rate_limit: {unit: minute, requests_per_unit: 5}}\n")
	rules.WriteString("  - {key: path, value_path: '/users/{id}', rate_limit: {unit: minute, requests_per_unit: 5}}\n")
	snapshot, problems := Load([]Source{{Name: "r", Data: []byte(rules.String())}}, Options{})
	require.NotNil(t, snapshot, "%v", problems)
	for _, entries := range [][]Entry{
		{{"route", "r500"}, {"user", "ann"}}, {{"net", "10.1.2.3"}}, {{"path", "/users/7?x=1"}},
	} {
		var m Match
		snapshot.Match("d", entries, nil, &m)
		require.Len(t, m.Keys, 1)
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { snapshot.Match("d", entries, nil, &m) }), 1.0, "%v", entries)
	}
}

func TestEnforcePercentIsAShareOfTheKeys(t *testing.T) {
	snapshot, problems := Load([]Source{{Name: "r", Data: []byte("domain: d\ndescriptors: [{key: k, enforce_percent: 30, rate_limit: {unit: hour, requests_per_unit: 1}}]\n")}}, Options{})
	require.NotNil(t, snapshot, "%v", problems)
	enforced := 0
	for i := range 10_000 {
		var first, again Match
		entries := []Entry{{"k", fmt.Sprint("user", i)}}
		snapshot.Match("d", entries, nil, &first)
		snapshot.Match("d", entries, nil, &again)
		require.Equal(t, first.Shadow, again.Shadow, "stable by key")
		if !first.Shadow {
			enforced++
		}
	}
	require.InDelta(t, 3000, enforced, 200)
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{10, 100_000} {
		var rules strings.Builder
		rules.WriteString("domain: d\ndescriptors:\n")
		for i := range n {
			fmt.Fprintf(&rules, "  - {key: user, value: u%d, rate_limit: {unit: minute, requests_per_unit: 5}}\n", i)
		}
		snapshot, _ := Load([]Source{{Name: "r", Data: []byte(rules.String())}}, Options{})
		b.Run(fmt.Sprint(n, " rules"), func(b *testing.B) {
			var m Match
			entries := []Entry{{"user", "u5"}}
			b.ReportAllocs()
			for b.Loop() {
				snapshot.Match("d", entries, nil, &m)
			}
		})
	}
}
