// Package redistest starts real Redis servers for tests: single ones, a cluster
// and a Sentinel set, on free loopback ports, gone when the test ends.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Server is one redis-server process.
type Server struct {
	t      testing.TB
	binary string
	args   []string
	Port   int
	Dir    string

	tlsPort int

	mu  sync.Mutex
	cmd *exec.Cmd
}

// Binary finds redis-server. Without it the test is skipped, and fails where CI
// is set.
func Binary(t testing.TB) string {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("redis-server is not installed")
		}
		t.Skip("redis-server is not installed")
	}
	return path
}

// given are the ports that this process has given away.
var given sync.Map

// FreePort gives a port that nobody listens on. It lies below the range that
// the system takes for outgoing connections, which would otherwise take it
// between here and its use, and is given away once only.
func FreePort(t testing.TB) int {
	const from, to = 15_000, 32_000
	for range 200 {
		port := from + rand.IntN(to-from)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		_ = l.Close()
		return port
	}
	t.Fatal("no free port")
	return 0
}

// Start starts a server with further settings, written as on its command line
// ("--requirepass", "x"), and waits until it answers.
func Start(t testing.TB, args ...string) *Server {
	s := Prepare(t, args...)
	s.Up()
	return s
}

// Prepare is Start for a server that is not up yet.
func Prepare(t testing.TB, args ...string) *Server {
	s := &Server{t: t, binary: Binary(t), Port: FreePort(t), Dir: t.TempDir()}
	s.args = append([]string{
		"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1 ::1", "--save", "", "--appendonly", "no",
		"--dir", s.Dir, "--logfile", filepath.Join(s.Dir, "redis.log"),
	}, args...)
	for i, arg := range s.args {
		if arg == "--tls-port" {
			s.tlsPort = FreePort(t)
			s.args[i+1] = strconv.Itoa(s.tlsPort)
		}
	}
	t.Cleanup(s.kill)
	return s
}

// TLSAddr is host:port of a server started with --tls-port (of any number).
func (s *Server) TLSAddr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.tlsPort)) }

// Addr is host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// Up starts the process and waits until it listens.
func (s *Server) Up() {
	s.t.Helper()
	s.mu.Lock()
	s.cmd = exec.Command(s.binary, s.args...)
	// A test that is killed must not leave a server behind.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := s.cmd.Start()
	s.mu.Unlock()
	require.NoError(s.t, err)
	require.Eventually(s.t, func() bool {
		conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	}, 10*time.Second, 10*time.Millisecond, "redis-server does not listen: %s", s.log())
}

func (s *Server) log() string {
	text, _ := os.ReadFile(filepath.Join(s.Dir, "redis.log"))
	return string(text)
}

func (s *Server) signal(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(sig)
	}
}

// Freeze stops the process without ending it: it accepts connections and never
// answers.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

// Down kills the process; its states are lost.
func (s *Server) Down() { s.kill() }

// Restart is Down and Up.
func (s *Server) Restart() {
	s.Down()
	s.Up()
}

func (s *Server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Client is a connection of the test's own.
func (s *Server) Client() *goredis.Client { return Client(s.t, s.Addr(), "") }

// Client is a connection of the test's own to an address.
func Client(t testing.TB, addr, password string) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: addr, Password: password, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// StartCluster starts masters that share the slots, and waits until each knows.
// args are further settings of each.
func StartCluster(t testing.TB, masters int, args ...string) []*Server {
	servers, bus := make([]*Server, masters), make([]int, masters)
	ctx := context.Background()
	for i := range servers {
		bus[i] = FreePort(t)
		servers[i] = Start(t, append([]string{
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus[i]), "--cluster-config-file", "nodes.conf",
			"--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "yes",
		}, args...)...)
	}
	const slots = 16384
	for i, s := range servers {
		c := s.Client()
		from, to := i*slots/masters, (i+1)*slots/masters-1
		require.NoError(t, c.ClusterAddSlotsRange(ctx, from, to).Err())
		require.NoError(t, c.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		if i > 0 {
			port := servers[0].Port
			if servers[0].tlsPort != 0 { // with tls-cluster nodes know each other by it
				port = servers[0].tlsPort
			}
			require.NoError(t, c.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", port, bus[0]).Err())
		}
	}
	for _, s := range servers {
		c := s.Client()
		require.Eventually(t, func() bool {
			info, err := c.ClusterInfo(ctx).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", masters))
		}, 20*time.Second, 20*time.Millisecond, "the cluster does not come together")
	}
	return servers
}

// TLSArgs are the settings of a server that also serves TLS, on TLSAddr, and
// wants client certificates of the CA.
func TLSArgs(cert, key, ca string) []string {
	return []string{"--tls-port", "0", "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca}
}

// SentinelSet is a master with a replica, watched by Sentinels.
type SentinelSet struct {
	Master, Replica *Server
	Sentinels       []*Server
	Name            string
}

// Addrs are the addresses of the Sentinels.
func (s *SentinelSet) Addrs() []string {
	out := make([]string, len(s.Sentinels))
	for i := range s.Sentinels {
		out[i] = s.Sentinels[i].Addr()
	}
	return out
}

// StartSentinel starts a master, a replica and three Sentinels that agree on
// them and fail over within seconds. sentinelLines are put into each Sentinel's
// file; a line "tls-port 0" makes all of them speak TLS with each other.
func StartSentinel(t testing.TB, serverArgs []string, sentinelLines ...string) *SentinelSet {
	set := &SentinelSet{Name: "mymaster", Master: Start(t, serverArgs...)}
	master := set.Master.Port
	if set.Master.tlsPort != 0 {
		master = set.Master.tlsPort
	}
	set.Replica = Start(t, append([]string{"--replicaof", "127.0.0.1 " + strconv.Itoa(master)}, serverArgs...)...)
	for range 3 {
		s := Prepare(t)
		conf := filepath.Join(s.Dir, "sentinel.conf")
		lines := append([]string{
			"port " + strconv.Itoa(s.Port), "dir " + s.Dir, "bind 127.0.0.1", "logfile " + filepath.Join(s.Dir, "redis.log"),
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", set.Name, master),
			"sentinel down-after-milliseconds " + set.Name + " 500",
			"sentinel failover-timeout " + set.Name + " 3000",
		}, sentinelLines...)
		for i, line := range lines {
			if line == "tls-port 0" {
				s.tlsPort = FreePort(t)
				lines[i] = "tls-port " + strconv.Itoa(s.tlsPort)
			}
		}
		require.NoError(t, os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
		s.args = []string{conf, "--sentinel"}
		s.Up()
		set.Sentinels = append(set.Sentinels, s)
	}
	return set
}

// MoveSlot moves the slot of a hash tag, with its keys, from the master that has
// it to the next one, as a resharding does.
func MoveSlot(t testing.TB, servers []*Server, tag string) {
	t.Helper()
	ctx := context.Background()
	slot := int(Client(t, servers[0].Addr(), "").ClusterKeySlot(ctx, tag).Val())
	ids := make([]string, len(servers))
	from := -1
	for i, s := range servers {
		c := s.Client()
		ids[i] = c.Do(ctx, "CLUSTER", "MYID").String()
		ids[i] = strings.Fields(ids[i])[len(strings.Fields(ids[i]))-1]
		// The owner answers for a key of the slot; others redirect.
		if err := c.Get(ctx, "{"+tag+"}").Err(); err == nil || errors.Is(err, goredis.Nil) {
			from = i
		}
	}
	require.NotEqual(t, -1, from, "nobody owns the slot")
	to := (from + 1) % len(servers)
	source, target := servers[from].Client(), servers[to].Client()
	require.NoError(t, target.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from]).Err())
	require.NoError(t, source.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to]).Err())
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, slot, 100).Result()
		require.NoError(t, err)
		if len(keys) == 0 {
			break
		}
		for _, key := range keys {
			require.NoError(t, source.Migrate(ctx, "127.0.0.1", strconv.Itoa(servers[to].Port), key, 0, 5*time.Second).Err())
		}
	}
	for _, c := range []*goredis.Client{target, source} {
		require.NoError(t, c.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", ids[to]).Err())
	}
}
