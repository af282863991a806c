package compat

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirhq/weir/internal/testutil/faultproxy"
)

// reloadTime is what a change of files may take.
const reloadTime = 1500 * time.Millisecond

func (w *world) once(s *step) error {
	switch {
	case s.Request != nil:
		answers, err := w.run(s.Request)
		if err != nil {
			return err
		}
		return s.check(answers)
	case s.Sleep != nil:
		time.Sleep(time.Duration(*s.Sleep))
		return nil
	case s.WaitUntil != nil:
		return waitFor(s.WaitUntil)
	case s.Config != nil:
		return w.config(s.Config)
	case s.Files != nil:
		return w.files(s.Files)
	case s.HTTP != nil:
		return w.http(s.HTTP)
	case s.Health != nil:
		return w.health(s.Health)
	case s.Redis != nil:
		return w.redisDo(s.Redis)
	case s.RedisServer != "":
		return w.redisServer(s.RedisServer)
	case s.Proxy != "":
		return w.setProxy(s.Proxy)
	case s.Signal != nil:
		return w.signal(s.Signal)
	case s.Restart != "":
		return w.restart(s.Restart)
	case s.Command != nil:
		return w.command(s.Command)
	case s.Memory != nil:
		return w.memory(s.Memory)
	case s.Join:
		return w.join()
	default:
		return errors.New("the step says nothing")
	}
}

// waitFor waits until now mod window = offset.
func waitFor(u *waitUntil) error {
	window, offset := time.Duration(u.Window), time.Duration(u.Offset)
	now := time.Duration(time.Now().UnixNano())
	wait := (offset - now%window + window) % window
	time.Sleep(wait)
	return nil
}

// config replaces files through a temporary name; empty text deletes.
func (w *world) config(files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(w.folder, name)
		if text == "" {
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		}
		temporary := filepath.Join(filepath.Dir(w.folder), ".new-"+name)
		if err := os.WriteFile(temporary, []byte(text), 0o600); err != nil {
			return err
		}
		if err := os.Rename(temporary, path); err != nil {
			return err
		}
	}
	time.Sleep(reloadTime)
	return nil
}

func (w *world) files(ops []fileOp) error {
	for i := range ops {
		if err := w.file(&ops[i]); err != nil {
			return err
		}
	}
	time.Sleep(reloadTime)
	return nil
}

func (w *world) file(op *fileOp) error {
	path := func(name string) string { return filepath.Join(w.folder, name) }
	switch {
	case op.Write != "":
		if err := os.MkdirAll(filepath.Dir(path(op.Write)), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path(op.Write), []byte(op.Text), 0o600)
	case op.InPlace != "":
		return writeSlowly(path(op.InPlace), op.Text, time.Duration(op.Pause))
	case op.Symlink != "":
		return os.Symlink(op.To, path(op.Symlink))
	case op.Rename != "":
		return os.Rename(path(op.Rename), path(op.To))
	case op.Remove != "":
		return os.RemoveAll(path(op.Remove))
	case op.Touch != "":
		now := time.Now()
		return os.Chtimes(path(op.Touch), now, now)
	default:
		return errors.New("the file operation says nothing")
	}
}

// writeSlowly truncates and writes a file with a pause half-way.
func writeSlowly(path, text string, pause time.Duration) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text[:len(text)/2]); err != nil {
		return err
	}
	time.Sleep(pause)
	if _, err := f.WriteString(text[len(text)/2:]); err != nil {
		return err
	}
	return f.Close()
}

func (w *world) http(h *httpStep) error {
	p := w.servers[0]
	port := map[string]int{"": p.HTTP, "http": p.HTTP, "debug": p.Debug, "metrics": p.Metrics}[h.Port]
	if port == 0 {
		return fmt.Errorf("no port %q", h.Port)
	}
	method := h.Method
	if method == "" {
		method = http.MethodGet
		if h.Body != "" {
			method = http.MethodPost
		}
	}
	req, err := http.NewRequest(method, fmt.Sprintf("http://127.0.0.1:%d%s", port, h.Path), strings.NewReader(h.Body))
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if h.Status != 0 && resp.StatusCode != h.Status {
		return fmt.Errorf("%s: status %d, want %d: %s", h.Path, resp.StatusCode, h.Status, body)
	}
	return h.check(string(body))
}

func (h *httpStep) check(body string) error {
	if h.Grep != "" {
		var kept []string
		for line := range strings.Lines(body) {
			if strings.Contains(line, h.Grep) {
				kept = append(kept, line)
			}
		}
		body = strings.Join(kept, "")
	}
	for _, text := range h.Has {
		if !strings.Contains(body, text) {
			return fmt.Errorf("%s does not hold %q: %.2000s", h.Path, text, body)
		}
	}
	for _, text := range h.Lacks {
		if strings.Contains(body, text) {
			return fmt.Errorf("%s holds %q", h.Path, text)
		}
	}
	if h.Match != "" {
		re, err := regexp.Compile(h.Match)
		if err != nil {
			return err
		}
		if !re.MatchString(body) {
			return fmt.Errorf("%s does not match %s: %.2000s", h.Path, h.Match, body)
		}
	}
	if n := strings.Count(body, "\n"); h.MaxLines > 0 && n > h.MaxLines {
		return fmt.Errorf("%s has %d lines, more than %d", h.Path, n, h.MaxLines)
	}
	return nil
}

func (w *world) health(h *healthStep) error {
	resp, err := healthpb.NewHealthClient(w.conns[0]).Check(background(), &healthpb.HealthCheckRequest{Service: h.Service})
	if err != nil {
		return err
	}
	if resp.GetStatus().String() != h.Status {
		return fmt.Errorf("health of %q is %s, want %s", h.Service, resp.GetStatus(), h.Status)
	}
	return nil
}

func (w *world) redisServer(what string) error {
	for _, s := range w.redis {
		switch what {
		case "freeze":
			s.Freeze()
		case "thaw":
			s.Thaw()
		case "down":
			s.Down()
		case "up":
			s.Up()
		case "restart":
			s.Restart()
		default:
			return fmt.Errorf("redis_server %q", what)
		}
	}
	return nil
}

func (w *world) setProxy(text string) error {
	mode, arg, _ := strings.Cut(text, " ")
	switch m := faultproxy.Mode(mode); m {
	case faultproxy.Pass, faultproxy.Hang, faultproxy.Refuse, faultproxy.LoseReply, faultproxy.HalfReply:
		w.proxy.Set(m, 0)
	case "delay":
		d, err := time.ParseDuration(arg)
		if err != nil {
			return err
		}
		w.proxy.Set(faultproxy.Pass, d)
	default:
		return fmt.Errorf("proxy %q", text)
	}
	return nil
}

var signals = map[string]syscall.Signal{
	"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL,
}

func (w *world) signal(s *signalStep) error {
	p := w.servers[s.Server]
	p.Signal(signals[s.Name])
	if s.Exit == nil {
		return nil
	}
	limit := time.Duration(s.Within)
	if limit == 0 {
		limit = 30 * time.Second
	}
	if code := p.Wait(limit); code != *s.Exit {
		return fmt.Errorf("the server ended with %d, want %d (−1: not at all)", code, *s.Exit)
	}
	return nil
}

// restart ends every server by the signal and starts it again on its ports.
func (w *world) restart(signal string) error {
	for _, p := range w.servers {
		p.Signal(signals[signal])
		if p.Wait(30*time.Second) == -1 && p.Running() {
			return errors.New("the server does not end")
		}
		p.Start()
	}
	return nil
}

func (w *world) command(c *commandStep) error {
	args := make([]string, len(c.Args))
	for i, a := range c.Args {
		args[i] = strings.ReplaceAll(a, "{config}", w.folder)
	}
	cmd := exec.Command(w.servers[0].Program(), args...)
	out, err := cmd.CombinedOutput()
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		return err
	}
	if code != c.Exit {
		return fmt.Errorf("%v: exit %d, want %d: %s", args, code, c.Exit, out)
	}
	return (&httpStep{Path: "output", Has: c.Has, Lacks: c.Lacks}).check(string(out))
}

func (w *world) memory(m *memoryStep) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.servers[0].PID()))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		var kb int
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kb); err == nil && kb > m.MaxMB<<10 {
			return fmt.Errorf("the server holds %d MB, more than %d", kb>>10, m.MaxMB)
		}
	}
	return nil
}
