package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/weirhq/weir/test/bench/internal/load"
	"github.com/weirhq/weir/test/bench/internal/proc"
)

// The names of the servers that every comparison has.
const (
	floorName  = "floor"
	memoryName = "weir memory"
	redisName  = "weir Redis"
	manyName   = "weir memory, 100,000 rules"
)

// target is one server under load.
type target struct {
	name  string
	addr  string // gRPC
	debug string // host:port of the debug pages; empty if there are none
	pid   int
	redis *proc.Redis // nil without one
	stop  func()
}

// targets are all servers of a comparison. Each server with a Redis has a
// Redis of its own, so that its costs are its own.
type targets struct {
	dir  string // rules and binaries
	list []*target
}

func (ts *targets) find(name string) *target {
	for _, t := range ts.list {
		if t.name == name {
			return t
		}
	}
	return nil
}

// stop ends all servers.
func (ts *targets) stop() {
	for _, t := range slices.Backward(ts.list) {
		t.stop()
	}
	_ = os.RemoveAll(ts.dir)
}

// startTargets starts every server that the options name. What has started is
// stopped again if one fails.
func startTargets(ctx context.Context, o options) (_ *targets, err error) {
	ts := &targets{}
	defer func() {
		if err != nil {
			ts.stop()
		}
	}()
	if ts.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return nil, err
	}
	plain, weirRules, many := filepath.Join(ts.dir, "plain"), filepath.Join(ts.dir, "weir"), filepath.Join(ts.dir, "many")
	for root, write := range map[string]func(string) error{
		plain:     func(root string) error { return writeRules(root, fewRoutes, false) },
		weirRules: func(root string) error { return writeRules(root, fewRoutes, true) },
		many:      func(root string) error { return writeRules(root, manyRoutes, false) },
	} {
		if err = write(root); err != nil {
			return nil, err
		}
	}
	weir := o.weir
	if weir == "" {
		weir = filepath.Join(ts.dir, "weir-server")
		build := exec.CommandContext(ctx, "go", "build", "-o", weir, "./cmd/server")
		build.Dir = o.root
		if text, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building weir: %w\n%s", err, text)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err = ts.startFloor(ctx, self); err != nil {
		return nil, err
	}
	servers := []server{{memoryName, weir, weirRules, false}, {redisName, weir, weirRules, true}}
	if o.wants(manyRulesScenario) {
		servers = append(servers, server{manyName, weir, many, false})
	}
	for _, other := range o.others {
		servers = append(servers, server{other.name, other.path, plain, true})
	}
	for _, s := range servers {
		if err = ts.start(ctx, s, o.redis); err != nil {
			return nil, err
		}
	}
	return ts, nil
}

func (ts *targets) startFloor(ctx context.Context, self string) error {
	ports, err := proc.FreePorts(1)
	if err != nil {
		return err
	}
	addr := loopback(ports[0])
	p, err := proc.Start(ctx, floorName, []string{self, "floor", "--listen", addr}, nil, answers(addr))
	if err != nil {
		return err
	}
	ts.list = append(ts.list, &target{name: floorName, addr: addr, pid: p.PID(), stop: p.Stop})
	return nil
}

// server is a program with the reference's environment.
type server struct {
	name, program, rules string
	redis                bool
}

func (ts *targets) start(ctx context.Context, s server, redisProgram string) error {
	ports, err := proc.FreePorts(3)
	if err != nil {
		return err
	}
	t := &target{name: s.name, addr: loopback(ports[0]), debug: loopback(ports[2])}
	env := []string{
		"GRPC_HOST=127.0.0.1", "GRPC_PORT=" + strconv.Itoa(ports[0]),
		"HOST=127.0.0.1", "PORT=" + strconv.Itoa(ports[1]),
		"DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + strconv.Itoa(ports[2]), "DEBUG_PPROF=true",
		"RUNTIME_ROOT=" + s.rules, "RUNTIME_SUBDIRECTORY=" + rulesSub, "RUNTIME_APPDIRECTORY=" + rulesApp,
		"RUNTIME_WATCH_ROOT=false", "USE_STATSD=false", "LOG_LEVEL=error",
	}
	if !s.redis {
		env = append(env, "BACKEND_TYPE=memory")
	} else {
		t.redis, err = proc.StartRedis(ctx, redisProgram)
		if err != nil {
			return err
		}
		env = append(env, "BACKEND_TYPE=redis", "REDIS_TYPE=SINGLE", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+t.redis.Addr)
	}
	p, err := proc.Start(ctx, s.name, []string{s.program}, env, answers(t.addr))
	if err != nil {
		if t.redis != nil {
			t.redis.Stop()
		}
		return err
	}
	t.pid, t.stop = p.PID(), p.Stop
	if t.redis != nil {
		t.stop = func() {
			p.Stop()
			t.redis.Stop()
		}
	}
	ts.list = append(ts.list, t)
	return nil
}

// answers tells whether a server gives verdicts.
func answers(addr string) func() error {
	shape := load.Shape{Domain: plainDomain, Descriptors: 1, Keys: 1, Keyed: load.OneKey, AllowKey: allowKey, DenyKey: denyKey}
	return func() error {
		l, err := load.Dial(load.Config{Addr: addr, Connections: 1, Timeout: time.Second, Shape: shape})
		if err == nil {
			l.Close()
		}
		return err
	}
}

func loopback(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
