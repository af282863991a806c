package descriptors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBadFiles reads testdata/bad/*.yaml, one mistake each, and holds the report
// against the .txt beside it. A file's name begins with the code to expect.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			_, problems := Load([]Source{{Name: filepath.Base(file), Data: text}}, Options{})
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(problems.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), problems.String())
			code, _, _ := strings.Cut(filepath.Base(file), "_")
			require.Contains(t, problems.String(), code)
		})
	}
}

func TestEveryCodeHasABadFile(t *testing.T) {
	for _, c := range Codes() {
		files, err := filepath.Glob("testdata/bad/" + c.Code + "_*.yaml")
		require.NoError(t, err)
		if c.Code == codeSecondFile || c.Code == codeForeign || c.Code == codeNothing || c.Code == codeTooBig || c.Code == codeDefaults {
			continue // these take several files or options: see below
		}
		require.NotEmpty(t, files, c.Code+": "+c.Meaning)
	}
}

func load(t *testing.T, opts Options, texts ...string) (*Snapshot, Diagnostics) {
	t.Helper()
	var files []Source
	for i, text := range texts {
		files = append(files, Source{Name: string('a'+rune(i)) + ".yaml", Data: []byte(text)})
	}
	return Load(files, opts)
}

func TestSeveralFiles(t *testing.T) {
	const a, b = "domain: d\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 1}}]\n", "domain: d\ndescriptors: [{key: b, rate_limit: {unit: hour, requests_per_unit: 2}}]\n"
	s, problems := load(t, Options{}, a, b)
	require.NotNil(t, s, "%v", problems)
	require.Len(t, s.Rules(), 2)

	_, problems = load(t, Options{RefuseMerge: true}, a, b)
	require.Contains(t, problems.String(), codeSecondFile)

	_, problems = load(t, Options{}, a, a)
	require.Contains(t, problems.String(), "b.yaml:2:15: error WEIR1011: the same rule is at a.yaml:2:16 already")

	_, problems = load(t, Options{}, "domain: d\ndefaults: {on_error: allow}\n", "domain: d\ndefaults: {on_error: deny}\n")
	require.Contains(t, problems.String(), codeDefaults)
	s, _ = load(t, Options{}, "domain: d\ndefaults: {on_error: allow}\n", a, "domain: d\ndefaults: {on_error: allow}\n")
	require.Equal(t, OnErrorAllow, s.Rules()[0].OnError, "defaults of one file hold for all")

	_, problems = load(t, Options{}, "domain: d\nall_or_nothing: true\n", "domain: d\nall_or_nothing: false\n")
	require.Contains(t, problems.String(), codeDefaults)
}

func TestFilesThatAreNoRules(t *testing.T) {
	const envoy, rules = "static_resources: {}\n", "domain: d\n"
	s, problems := load(t, Options{SkipForeign: true}, envoy, rules)
	require.NotNil(t, s, "%v", problems)
	require.Contains(t, problems.String(), codeForeign)
	_, problems = load(t, Options{SkipForeign: true}, envoy)
	require.Contains(t, problems.String(), codeNothing)
	_, problems = load(t, Options{}, envoy)
	require.True(t, problems.HasErrors())
	_, problems = load(t, Options{SkipForeign: true}, "domian: d\n")
	require.Contains(t, problems.String(), "did you mean `domain`?", "a typo is no foreign file")
}

func TestHostileFiles(t *testing.T) {
	deep := "domain: d\ndescriptors:\n"
	for i := range 200 {
		deep += strings.Repeat("  ", i) + "- key: k\n" + strings.Repeat("  ", i) + "  descriptors:\n"
	}
	bomb := "domain: d\na: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 10), ",") + "]\n"
	}
	bomb += "descriptors: [{key: k, metadata: {x: *i}, rate_limit: {unit: hour, requests_per_unit: 1}}]\n"
	for name, text := range map[string]string{
		"deep": deep, "bomb": bomb, "large": "domain: d\n#" + strings.Repeat("x", maxFileBytes),
		"self": "domain: d\ndescriptors: &a [{key: k, descriptors: *a}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := load(t, Options{}, text)
			require.True(t, problems.HasErrors(), "%.300s", problems.String())
		})
	}
}

func TestStrictMakesMistakesErrors(t *testing.T) {
	s, problems := load(t, Options{}, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1, shadow_mode: true}}]\n")
	require.NotNil(t, s)
	require.False(t, problems.HasErrors())
	require.True(t, problems.Strict().HasErrors())
	require.Error(t, problems.Strict().Err())
	require.NoError(t, problems.Err())
}

func TestDump(t *testing.T) {
	s, problems := load(t, Options{}, `
domain: d
descriptors:
  - {key: key, value: value, descriptors: [{key: sub, rate_limit: {unit: hour, requests_per_unit: 3}}]}
  - {key: u, rate_limit: {unlimited: true}}
  - {key: l, shadow_mode: true, rate_limits: [{name: a, unit: second, requests_per_unit: 3, burst: 5, algorithm: token_bucket}, {window: 90s, requests_per_unit: 7}]}
`)
	require.NotNil(t, s, "%v", problems)
	var out strings.Builder
	require.NoError(t, s.Dump(&out))
	require.Equal(t, `d.key_value.sub: unit=HOUR requests_per_unit=3, shadow_mode: false, quota_mode: false
d.u: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false
d.l: unit=SECOND requests_per_unit=3, shadow_mode: true, quota_mode: false, algorithm: token_bucket, burst: 5, name: "a"
d.l: unit=SECOND requests_per_unit=7, shadow_mode: true, quota_mode: false, unit_multiplier: 90
`, out.String())
}

// FuzzLoad reads any text: no panic, and a snapshot exactly where no error was
// reported, which then matches without a panic.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/match/*.txt"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			rules, _, _ := strings.Cut(string(text), "\n===\n")
			f.Add(rules, "k", "v")
		}
	}
	f.Fuzz(func(t *testing.T, rules, key, value string) {
		s, problems := Load([]Source{{Name: "f.yaml", Data: []byte(rules)}}, testOptions)
		if (s == nil) != problems.HasErrors() {
			t.Fatalf("snapshot %v beside %v", s != nil, problems)
		}
		if s == nil {
			return
		}
		for _, name := range s.Domains() {
			var m Match
			s.Match(name, []Entry{{key, value}, {value, key}}, nil, &m)
			s.Match(name, []Entry{{key, value}}, &Override{Requests: 1, Unit: 2}, &m)
		}
		_ = s.Dump(&strings.Builder{})
	})
}

// FuzzKeys wants different descriptors to have different keys.
func FuzzKeys(f *testing.F) {
	f.Add("d", "a", "b_c", "a_b", "c")
	f.Add("d", "a", "b|c=d", "a", "b")
	f.Add("d", "a", "{", "a", "%7B")
	f.Add("d", "a", strings.Repeat("x", 300), "a", "#x")
	s := &Snapshot{keyPrefix: "p"}
	spec := Limit{Spec: mustSpec(f)}
	f.Fuzz(func(t *testing.T, domainName, k1, v1, k2, v2 string) {
		key := func(entries ...Entry) string {
			m := Match{Limits: []Limit{spec}}
			s.makeKeys(&domain{name: domainName}, entries, &m)
			return m.Keys[0]
		}
		one, two := key(Entry{k1, v1}), key(Entry{k2, v2})
		if (one == two) != (k1 == k2 && v1 == v2) {
			t.Fatalf("%q of (%q, %q) and %q of (%q, %q)", one, k1, v1, two, k2, v2)
		}
		if key(Entry{k1, v1}, Entry{k2, v2}) == key(Entry{k2, v2}, Entry{k1, v1}) && (k1 != k2 || v1 != v2) {
			t.Fatalf("the order of (%q, %q) and (%q, %q) is lost", k1, v1, k2, v2)
		}
		if strings.Count(one, "{") != 1 || strings.Count(one, "}") != 1 {
			t.Fatalf("%q has more than one hash tag", one)
		}
	})
}
