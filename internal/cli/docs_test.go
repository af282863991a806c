package cli

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/internal/settings"
)

var update = flag.Bool("update", false, "write the generated documents")

// TestDocs holds docs/cli.md and docs/SETTINGS.md against the command line they
// are generated from; -update writes them.
func TestDocs(t *testing.T) {
	for file, text := range map[string]string{
		"../../docs/cli.md": commandLine(t), "../../docs/SETTINGS.md": settingsTable(t),
	} {
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		}
		have, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, text, string(have), "run make docs")
	}
}

func parser(t *testing.T) *kong.Kong {
	t.Helper()
	app, err := kong.New(&commands{}, options(&bytes.Buffer{}, &bytes.Buffer{}, func(int) {})...)
	require.NoError(t, err)
	return app
}

func commandLine(t *testing.T) string {
	var b strings.Builder
	b.WriteString("# Command line\n\nGenerated from the program by `make docs`. `weir COMMAND --help` prints the same.\n\n" +
		"Exit codes: 0 done; 1 the command failed or found errors; 2 the command line is wrong.\n")
	for _, c := range parser(t).Model.Children {
		b.WriteString("\n## weir " + c.Name + "\n\n" + c.Help + "\n")
		for _, p := range c.Positional {
			b.WriteString("\n* `" + p.Summary() + "` " + p.Help)
		}
		if c.Name == "serve" || c.Name == "settings" {
			b.WriteString("\nFlags: see [SETTINGS.md](SETTINGS.md).\n")
			continue
		}
		for _, f := range c.Flags {
			if f.Name != "help" {
				b.WriteString("\n* `--" + f.Name + "` " + f.Help)
				if f.Default != "" {
					b.WriteString(" Default: `" + f.Default + "`.")
				}
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// none is an environment without variables.
type none struct{}

func (none) Lookup(string) (string, bool) { return "", false }
func (none) Set(string, string) error     { return nil }
func (none) Unset(string) error           { return nil }

func settingsTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("# Settings\n\nGenerated from the program by `make docs`. Each setting is an environment variable and a flag of\n" +
		"`weir serve`; the flag wins, an empty variable is one that is not set. Booleans take 1, t, true, 0, f,\n" +
		"false in any usual case; durations 300ms, 10s, 1h; numbers also 0x10. `weir settings` prints the\n" +
		"effective values and where each comes from.\n")
	group := ""
	app := parser(t)
	for _, e := range settings.Describe(commandNode(app, "settings"), none{}, nil) {
		if e.Group != group {
			group = e.Group
			b.WriteString("\n## " + group + "\n\n| variable | flag | default | meaning |\n| --- | --- | --- | --- |\n")
		}
		b.WriteString("| `" + e.Env + "` | `" + e.Flag + "` | " + code(e.Default) + " | " + strings.ReplaceAll(e.Help, "|", "\\|") + " |\n")
	}
	return b.String()
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
