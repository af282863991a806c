// Package architecture holds the code against the table of layers in
// docs/ARCHITECTURE.md. It knows no package; it reads what `go list` says.
package architecture

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/weirhq/weir/"

// thirdParties are the short names used in the table's last column.
var thirdParties = map[string][]string{
	"std":              nil,
	"testify":          {"github.com/stretchr/testify/"},
	"go-redis":         {"github.com/redis/go-redis/v9"},
	"yaml":             {"go.yaml.in/yaml/v3"},
	"grpc":             {"google.golang.org/grpc"},
	"protobuf":         {"google.golang.org/protobuf/"},
	"go-control-plane": {"github.com/envoyproxy/go-control-plane/"},
	"kong":             {"github.com/alecthomas/kong"},
	"fsnotify":         {"github.com/fsnotify/fsnotify"},
	"prometheus":       {"github.com/prometheus/"},
	"expvar":           {"expvar"},
}

// layer is one row of the table.
type layer struct {
	ours    []string
	parties []string
}

func TestImportsFollowTheTable(t *testing.T) {
	layers := readTable(t)
	for _, pkg := range listPackages(t) {
		name := strings.TrimPrefix(pkg.path, module)
		if strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "internal/testutil/") {
			continue
		}
		row, ok := layers[name]
		if !ok {
			t.Errorf("%s has no row in docs/ARCHITECTURE.md: say what it owns and what it may import", name)
			continue
		}
		delete(layers, name)
		for _, imported := range pkg.imports {
			if !row.allows(imported) {
				t.Errorf("%s imports %s, which its row in docs/ARCHITECTURE.md does not name", name, imported)
			}
		}
	}
	for name := range layers {
		t.Errorf("docs/ARCHITECTURE.md has a row for %s, which does not exist", name)
	}
}

func (l layer) allows(imported string) bool {
	if own, ok := strings.CutPrefix(imported, module); ok {
		for _, o := range l.ours {
			if o == own {
				return true
			}
		}
		return false
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return true // standard library
	}
	for _, p := range l.parties {
		for _, prefix := range thirdParties[p] {
			if strings.HasPrefix(imported, prefix) {
				return true
			}
		}
	}
	return false
}

func readTable(t *testing.T) map[string]layer {
	text, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	require.NoError(t, err)
	layers := map[string]layer{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || strings.Contains(cells[0], "---") || strings.TrimSpace(cells[0]) == "package" {
			continue
		}
		row := layer{ours: words(cells[2]), parties: words(cells[3])}
		for _, p := range row.parties {
			require.Contains(t, thirdParties, p, "row of %s", cells[0])
		}
		layers[strings.TrimSpace(cells[0])] = row
	}
	require.NotEmpty(t, layers, "the table was not found")
	return layers
}

// words splits a cell at commas; "nothing" is none.
func words(cell string) []string {
	var out []string
	for w := range strings.SplitSeq(cell, ",") {
		if w = strings.TrimSpace(w); w != "" && w != "nothing" {
			out = append(out, w)
		}
	}
	return out
}

type listed struct {
	path    string
	imports []string
}

func listPackages(t *testing.T) []listed {
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var packages []listed
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) > 0 {
			packages = append(packages, listed{path: fields[0], imports: fields[1:]})
		}
	}
	require.NotEmpty(t, packages)
	return packages
}
