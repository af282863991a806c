package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	startLimit = 60 * time.Second // a large rule file on a busy machine
	stopLimit  = 5 * time.Second
	retryPause = 20 * time.Millisecond
	logKept    = 4 << 10
)

// Process is a running child.
type Process struct {
	Name   string
	cmd    *exec.Cmd
	log    *tail
	exited chan struct{}
}

// Start runs a program in a clean environment plus env ("NAME=value") and
// waits until ready gives nil. It fails if the process ends or a minute passes first.
func Start(ctx context.Context, name string, command, env []string, ready func() error) (*Process, error) {
	p := &Process{Name: name, log: &tail{}, exited: make(chan struct{})}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait()
	}()
	if err := p.await(ctx, ready); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s: %w\n%s", name, err, p.log)
	}
	return p, nil
}

func (p *Process) await(ctx context.Context, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	pause := time.NewTicker(retryPause)
	defer pause.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return errors.New("ended before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", err)
		case <-pause.C:
		}
	}
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop asks the process to end, then makes it, and waits for that.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		return
	case <-time.After(stopLimit):
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// tail keeps the end of what a process prints.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - logKept; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.b))
}

// FreePorts gives n different loopback ports that nothing listens on now.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all are held until all are known
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
