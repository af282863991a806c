// Package weirtest builds weir once and starts it as a process, as users do.
package weirtest

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/internal/testutil/redistest"
)

// build leaves one binary in the temporary folder, whoever has built it last: the
// tests of several packages run at once, and a running file cannot be written.
var build = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(os.TempDir(), "weir-test-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "weir")
	own := binary + "." + strconv.Itoa(os.Getpid())
	cmd := exec.Command("go", "build", "-o", own, "github.com/weirhq/weir/cmd/server")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return binary, os.Rename(own, binary)
})

// Binary builds the server; variable, where set in the environment, names
// another program instead.
func Binary(t testing.TB, variable string) string {
	if path := os.Getenv(variable); variable != "" && path != "" {
		return path
	}
	path, err := build()
	require.NoError(t, err)
	return path
}

// Process is one running server.
type Process struct {
	t      testing.TB
	binary string
	args   []string
	env    []string

	GRPC, HTTP, Debug, Metrics int // ports

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
	log    lockedBuffer
}

// Prepare chooses ports. env is added to a clean environment, in which
// {metrics} stands for the address of the metrics port.
func Prepare(t testing.TB, binary string, env map[string]string, args ...string) *Process {
	p := &Process{t: t, binary: binary, args: args}
	for _, port := range []*int{&p.GRPC, &p.HTTP, &p.Debug, &p.Metrics} {
		*port = redistest.FreePort(t)
	}
	all := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"),
		"GRPC_HOST": "127.0.0.1", "HOST": "127.0.0.1", "DEBUG_HOST": "127.0.0.1",
		"GRPC_PORT": strconv.Itoa(p.GRPC), "PORT": strconv.Itoa(p.HTTP), "DEBUG_PORT": strconv.Itoa(p.Debug),
	}
	for k, v := range env {
		all[k] = string(bytes.ReplaceAll([]byte(v), []byte("{metrics}"), []byte("127.0.0.1:"+strconv.Itoa(p.Metrics))))
	}
	for k, v := range all {
		p.env = append(p.env, k+"="+v)
	}
	t.Cleanup(func() { p.Signal(syscall.SIGKILL); p.Wait(5 * time.Second) })
	return p
}

// Start starts the process and waits until it answers on its HTTP port.
func (p *Process) Start() {
	p.t.Helper()
	p.mu.Lock()
	cmd := exec.Command(p.binary, p.args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, &p.log, &p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(p.t, cmd.Start())
	exited := make(chan struct{})
	p.cmd, p.exited = cmd, exited
	p.mu.Unlock()
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	client := http.Client{Timeout: time.Second}
	require.Eventually(p.t, func() bool {
		resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/healthcheck", p.HTTP))
		if err != nil {
			return !p.Running()
		}
		_ = resp.Body.Close()
		return true
	}, 20*time.Second, 10*time.Millisecond, "the server does not answer: %s", p.Log())
}

// Running tells whether the process lives.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exited == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Signal sends a signal, if the process lives.
func (p *Process) Signal(sig os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Signal(sig)
	}
}

// Wait waits for the end of the process; it gives the exit code, or −1 if it
// still runs after the limit.
func (p *Process) Wait(limit time.Duration) int {
	p.mu.Lock()
	exited, cmd := p.exited, p.cmd
	p.mu.Unlock()
	if exited == nil {
		return -1
	}
	select {
	case <-exited:
		return cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		return -1
	}
}

// Program is the path of the binary.
func (p *Process) Program() string { return p.binary }

// PID is the process's id.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// Log is what the process has printed.
func (p *Process) Log() string { return p.log.String() }

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
