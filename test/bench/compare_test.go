package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain lets the test binary stand in for the programs that a comparison
// starts: the floor, and a server that is configured by the environment.
func TestMain(m *testing.M) {
	port, asServer := os.LookupEnv("GRPC_PORT")
	asFloor := len(os.Args) > 1 && os.Args[1] == "floor"
	switch {
	case asFloor:
		standIn(os.Args[1:])
	case asServer:
		standIn([]string{"floor", "--listen", "127.0.0.1:" + port})
	default:
		goleak.VerifyTestMain(m)
	}
}

func standIn(args []string) {
	if err := run(context.Background(), args, os.Stdout, os.Stderr); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func TestCompareFromStartToDocument(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no redis-server")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "docs"), 0o755))
	var out, progress bytes.Buffer
	err = run(t.Context(), []string{
		"compare", "--weir", self, "--other", "rival=" + self, "--root", root,
		"--rounds", "2", "--duration", "60ms", "--scenarios", "paced,rules-100000", "--write",
	}, &out, &progress)
	require.NoError(t, err, out.String())
	require.Contains(t, progress.String(), "round 2 of 2")
	for _, want := range []string{`one +floor`, `one +rival`, `paced +weir memory`, `rules-100000 +` + manyName, `server CPU per request, Redis`} {
		require.Regexp(t, want, out.String())
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "BENCHMARKS.md"))
	require.NoError(t, err)
	require.Contains(t, string(page), "| Also | rival |")
	require.Contains(t, string(page), "## Method")
}

func TestCompareStopsWithItsContext(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	var out bytes.Buffer
	err = run(ctx, []string{"--weir", self, "--root", t.TempDir(), "--redis", filepath.Join(t.TempDir(), "none")}, &out, &out)
	require.Error(t, err)
}

func TestAServerThatEndsIsNamedWithItsLastWords(t *testing.T) {
	ts := &targets{}
	err := ts.start(t.Context(), server{name: "broken", program: "/bin/sh", rules: t.TempDir()}, "")
	require.ErrorContains(t, err, "broken: ended before it was ready")
}
