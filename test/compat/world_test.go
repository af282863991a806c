package compat

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirhq/weir/internal/testutil/faultproxy"
	"github.com/weirhq/weir/internal/testutil/redistest"
	"github.com/weirhq/weir/internal/testutil/weirtest"
)

// world is what one case runs in.
type world struct {
	t       *testing.T
	c       *testCase
	folder  string // of the rule files
	servers []*weirtest.Process
	conns   []*grpc.ClientConn
	clients []rls.RateLimitServiceClient
	redis   []*redistest.Server // one, or the masters of a cluster; none for memory
	proxy   *faultproxy.Proxy

	background sync.WaitGroup
	mu         sync.Mutex
	failures   []error // of background steps
}

// TestCases plays every case over Redis and over the memory store.
func TestCases(t *testing.T) {
	late := pending(t)
	for _, heavy := range []bool{true, false} {
		for _, c := range read(t) {
			for _, backend := range []string{"redis", "memory"} {
				if c.Heavy != heavy || c.SkipBackend == backend {
					continue
				}
				t.Run(c.Name+"/"+backend, func(t *testing.T) {
					if !heavy {
						t.Parallel()
					}
					play(t, &c, backend, late[c.Name])
				})
			}
		}
	}
}

// play runs a case; one that is pending must fail.
func play(t *testing.T, c *testCase, backend, why string) {
	w := newWorld(t, c, backend)
	err := w.play()
	switch {
	case why == "" && err != nil:
		t.Errorf("%v\nserver's log:\n%s", err, w.logs())
	case why != "" && err == nil:
		t.Errorf("the case passes: remove it from pending.txt (%s)", why)
	case why != "":
		t.Logf("pending (%s): %v", why, err)
	}
}

func newWorld(t *testing.T, c *testCase, backend string) *world {
	w := &world{t: t, c: c}
	root := t.TempDir()
	w.folder = filepath.Join(root, "config")
	require.NoError(t, os.MkdirAll(w.folder, 0o755))
	for name, text := range c.Config {
		require.NoError(t, os.WriteFile(filepath.Join(w.folder, name), []byte(text), 0o600))
	}
	env := map[string]string{
		"BACKEND_TYPE": backend, "RUNTIME_ROOT": root, "RUNTIME_SUBDIRECTORY": "", "RUNTIME_APPDIRECTORY": "config",
		"RUNTIME_WATCH_ROOT": "false", "USE_STATSD": "false", "LOG_LEVEL": "error",
		"RETRY_AFTER_HEADER": "false", "RESPONSE_METADATA": "off",
	}
	if backend == "redis" {
		w.startRedis(env)
	}
	for name, value := range c.Env {
		if len(w.redis) > 0 {
			value = strings.ReplaceAll(value, "{redis_port}", strconv.Itoa(w.redis[0].Port))
		}
		env[name] = value
	}
	w.room()
	for range max(1, c.Servers) {
		p := weirtest.Prepare(t, weirtest.Binary(t, "WEIR_COMPAT_BINARY"), env)
		p.Start()
		w.servers = append(w.servers, p)
		conn, err := grpc.NewClient("127.0.0.1:"+strconv.Itoa(p.GRPC), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		w.conns = append(w.conns, conn)
		w.clients = append(w.clients, rls.NewRateLimitServiceClient(conn))
	}
	return w
}

func (w *world) startRedis(env map[string]string) {
	env["REDIS_SOCKET_TYPE"] = "tcp"
	if w.c.RedisCluster {
		w.redis = redistest.StartCluster(w.t, 3)
		var seeds []string
		for _, s := range w.redis {
			seeds = append(seeds, s.Addr())
		}
		env["REDIS_TYPE"], env["REDIS_URL"] = "cluster", strings.Join(seeds, ",")
		return
	}
	var args []string
	for _, line := range w.c.RedisConf {
		name, value, _ := strings.Cut(line, " ")
		args = append(args, "--"+name, value)
	}
	server := redistest.Prepare(w.t, args...)
	if !w.c.RedisDownFirst {
		server.Up()
	}
	w.redis = []*redistest.Server{server}
	env["REDIS_URL"] = server.Addr()
	if w.c.RedisProxy {
		w.proxy = faultproxy.Start(w.t, server.Addr())
		env["REDIS_URL"] = w.proxy.Addr()
	}
}

// room waits until the case has its distance to the end of a minute.
func (w *world) room() {
	room := 10 * time.Second
	if w.c.Room != nil {
		room = time.Duration(*w.c.Room)
	}
	now := time.Now()
	if left := now.Truncate(time.Minute).Add(time.Minute).Sub(now); left < room {
		time.Sleep(left + 50*time.Millisecond)
	}
}

// midSecond waits until at least half a second is left of the present one, so
// that the first requests of a case with per-second windows share a window.
func midSecond() {
	now := time.Now()
	if left := now.Truncate(time.Second).Add(time.Second).Sub(now); left < time.Second/2 {
		time.Sleep(left + 10*time.Millisecond)
	}
}

func (w *world) play() error {
	midSecond()
	for i := range w.c.Steps {
		s := &w.c.Steps[i]
		if err := w.step(s); err != nil {
			w.background.Wait()
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	if err := w.join(); err != nil {
		return err
	}
	return w.atTheEnd()
}

func (w *world) atTheEnd() error {
	ended := map[int]bool{}
	for i := range w.c.Steps {
		if s := w.c.Steps[i].Signal; s != nil {
			ended[s.Server] = true
		}
	}
	for i, p := range w.servers {
		if !ended[i] && !p.Running() {
			return fmt.Errorf("server %d has ended", i)
		}
	}
	for _, text := range w.c.LogNever {
		if strings.Contains(w.logs(), text) {
			return fmt.Errorf("the log holds %q", text)
		}
	}
	for _, text := range w.c.LogHas {
		if !strings.Contains(w.logs(), text) {
			return fmt.Errorf("the log does not hold %q", text)
		}
	}
	return nil
}

func (w *world) logs() string {
	var all []string
	for _, p := range w.servers {
		all = append(all, p.Log())
	}
	return strings.Join(all, "\n")
}

// join waits for the background steps.
func (w *world) join() error {
	w.background.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failures) > 0 {
		return fmt.Errorf("in the background: %w", w.failures[0])
	}
	return nil
}

// step runs one step, again and again where it says eventually.
func (w *world) step(s *step) error {
	if s.Background {
		w.background.Go(func() {
			if err := w.once(s); err != nil {
				w.mu.Lock()
				w.failures = append(w.failures, err)
				w.mu.Unlock()
			}
		})
		return nil
	}
	err := w.once(s)
	if s.Eventually == nil {
		return err
	}
	for ends := time.Now().Add(time.Duration(*s.Eventually)); err != nil && time.Now().Before(ends); {
		time.Sleep(50 * time.Millisecond)
		err = w.once(s)
	}
	return err
}

// redisClients are connections to every Redis of the case.
func (w *world) redisClients() []*goredis.Client {
	var out []*goredis.Client
	for _, s := range w.redis {
		out = append(out, s.Client())
	}
	return out
}

func background() context.Context { return context.Background() }
