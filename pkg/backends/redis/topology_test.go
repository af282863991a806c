package redis_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/internal/testutil/certtest"
	"github.com/weirhq/weir/internal/testutil/redistest"
	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/backendtest"
	"github.com/weirhq/weir/pkg/backends/redis"
)

func open(t *testing.T, o redis.Options) *redis.Store {
	t.Helper()
	store, err := redis.New(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(t, store.Close(ctx))
	})
	return store
}

func bucket(t *testing.T, n int64) *algorithm.Spec {
	return backendtest.Spec(t, algorithm.Limit{Kind: algorithm.TokenBucket, Requests: n, WindowUS: 3_600_000_000})
}

// ask spends one hit.
func ask(t *testing.T, s backends.Store, key string, spec *algorithm.Spec, timeout time.Duration) (algorithm.Decision, error) {
	t.Helper()
	return call(t, s, timeout, backends.Item{Key: key, Spec: spec, Ask: algorithm.Ask{Mode: algorithm.Spend, Cost: 1}})
}

func call(t *testing.T, s backends.Store, timeout time.Duration, items ...backends.Item) (algorithm.Decision, error) {
	t.Helper()
	b := &backends.Batch{Calls: []backends.Call{{Items: items}}, Deadline: time.Now().Add(timeout)}
	require.NoError(t, backends.Decide(context.Background(), s, b))
	return b.Calls[0].Items[0].Decision, b.Calls[0].Err
}

func TestConnections(t *testing.T) {
	certs := certtest.Make(t, "127.0.0.1")
	for name, tt := range map[string]struct {
		args []string
		opts func(s *redistest.Server) redis.Options
	}{
		"a Unix socket": {
			[]string{"--unixsocket", "redis.sock"},
			func(s *redistest.Server) redis.Options {
				return redis.Options{Network: "unix", Addrs: []string{filepath.Join(s.Dir, "redis.sock")}}
			},
		},
		"a password": {
			[]string{"--requirepass", "pass"},
			func(s *redistest.Server) redis.Options {
				return redis.Options{Addrs: []string{s.Addr()}, Password: "pass"}
			},
		},
		"a user": {
			[]string{"--user", "weir", "on", ">secret", "~*", "+@all"},
			func(s *redistest.Server) redis.Options {
				return redis.Options{Addrs: []string{s.Addr()}, Username: "weir", Password: "secret"}
			},
		},
		"a user with the rights of docs/OPERATIONS.md": {
			[]string{"--user", "weir", "on", ">secret", "~w1*", "+@read", "+@write", "+@scripting", "+time", "+ping"},
			func(s *redistest.Server) redis.Options {
				return redis.Options{Addrs: []string{s.Addr()}, Username: "weir", Password: "secret"}
			},
		},
		"a URL with a user, a password and a database": {
			[]string{"--user", "weir", "on", ">secret", "~*", "+@all"},
			func(s *redistest.Server) redis.Options {
				var o redis.Options
				require.NoError(t, o.ParseURL("redis://weir:secret@"+s.Addr()+"/3"))
				require.Equal(t, 3, o.DB)
				return o
			},
		},
		"TLS with a client certificate": {
			[]string{"--tls-port", "0", "--tls-cert-file", certs.Cert, "--tls-key-file", certs.Key, "--tls-ca-cert-file", certs.CA},
			func(s *redistest.Server) redis.Options {
				pair, err := tls.LoadX509KeyPair(certs.Cert, certs.Key)
				require.NoError(t, err)
				return redis.Options{Addrs: []string{s.TLSAddr()}, TLS: &tls.Config{RootCAs: certs.Pool, Certificates: []tls.Certificate{pair}}}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, tt.args...)
			store := open(t, tt.opts(server))
			require.NoError(t, store.Ping(context.Background()))
			for i, l := range backendtest.Limits() {
				key := fmt.Sprintf("w1{k}%d", i)
				_, err := call(t, store, time.Second, backends.Item{Key: key, Spec: backendtest.Spec(t, l), Ask: algorithm.Ask{Cost: 1}})
				require.NoError(t, err, l.Kind)
			}
			require.NoError(t, store.Reset(context.Background(), []backends.Item{{Key: "w1{k}0", Spec: bucket(t, 1)}}))
		})
	}
}

func TestPasswordsFromAFileMayChange(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "first")
	file := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(file, []byte("first\n"), 0o600))
	store := open(t, redis.Options{Addrs: []string{server.Addr()}, Credentials: redis.AuthFile(file)})
	_, err := ask(t, store, "k", bucket(t, 5), time.Second)
	require.NoError(t, err)

	admin := redistest.Client(t, server.Addr(), "first")
	ctx := context.Background()
	require.NoError(t, admin.ConfigSet(ctx, "requirepass", "second").Err())
	require.NoError(t, os.WriteFile(file, []byte("second\n"), 0o600))
	require.NoError(t, admin.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
	require.Eventually(t, func() bool {
		_, err := ask(t, store, "k", bucket(t, 5), time.Second)
		return err == nil
	}, 5*time.Second, 20*time.Millisecond)
}

func TestAWrongPasswordIsNamed(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "right")
	store := open(t, redis.Options{Addrs: []string{server.Addr()}, Password: "wrong-secret"})
	_, err := ask(t, store, "k", bucket(t, 5), time.Second)
	require.ErrorIs(t, err, backends.ErrUnavailable)
	require.ErrorContains(t, err, "auth")
	require.NotContains(t, err.Error(), "wrong-secret")
}

func TestContractCluster(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	opts := redis.Options{Topology: redis.Cluster, Addrs: addrs}
	backendtest.Run(t, harness(opts))

	t.Run("keys in any slot", func(t *testing.T) {
		store := open(t, opts)
		for i := range 200 {
			d, err := ask(t, store, fmt.Sprintf("w1{slot%d}tb", i), bucket(t, 5), 5*time.Second)
			require.NoError(t, err)
			require.Equal(t, int64(4), d.Remaining)
		}
	})
	t.Run("a group over several slots is taken together or not at all", func(t *testing.T) { spreadGroups(t, open(t, opts)) })
	t.Run("no script is lost when the caches are", func(t *testing.T) { scriptFlush(t, open(t, opts), servers) })
	everyKeyExpires(t, servers...)
}

// spreadGroups floods two limits whose keys lie in different slots: the narrow
// one lets 20 pass, and the broad one must not have paid for more.
func spreadGroups(t *testing.T, store *redis.Store) {
	for name, of := range map[string]func(int64) *algorithm.Spec{
		"buckets": func(n int64) *algorithm.Spec { return bucket(t, n) },
		"windows": func(n int64) *algorithm.Spec {
			return backendtest.Spec(t, algorithm.Limit{Requests: n, WindowUS: 86_400_000_000})
		},
		"logs": func(n int64) *algorithm.Spec {
			return backendtest.Spec(t, algorithm.Limit{Kind: algorithm.SlidingWindowLog, Requests: n, WindowUS: 3_600_000_000})
		},
	} {
		t.Run(name, func(t *testing.T) {
			broad := backends.Item{Key: "w1{broad-" + name + "}", Spec: of(100), Ask: algorithm.Ask{Cost: 1}}
			narrow := backends.Item{Key: "w1{narrow-" + name + "}", Spec: of(20), Ask: algorithm.Ask{Cost: 1}, Member: 1}
			var passed atomic.Int64
			var wait sync.WaitGroup
			for range 16 {
				wait.Go(func() {
					for range 10 {
						b := &backends.Batch{Calls: []backends.Call{{Items: []backends.Item{broad, narrow}}}, Deadline: time.Now().Add(5 * time.Second)}
						if err := backends.Decide(context.Background(), store, b); err != nil || b.Calls[0].Err != nil {
							t.Errorf("%v %v", err, b.Calls[0].Err)
							return
						}
						if b.Calls[0].Items[0].Decision.Allowed && b.Calls[0].Items[1].Decision.Allowed {
							passed.Add(1)
						}
					}
				})
			}
			wait.Wait()
			require.Equal(t, int64(20), passed.Load())
			broad.Ask = algorithm.Ask{Mode: algorithm.Look}
			d, err := call(t, store, time.Second, broad)
			require.NoError(t, err)
			require.Equal(t, int64(80), d.Remaining, "only what passed was paid for")
		})
	}
}

// scriptFlush loses the servers' scripts under load: every call is answered.
func scriptFlush(t *testing.T, store *redis.Store, servers []*redistest.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
	defer cancel()
	var wait sync.WaitGroup
	var asked, allowed atomic.Int64
	spec := backendtest.Spec(t, algorithm.Limit{Requests: 1_000_000, WindowUS: 30 * 86_400_000_000})
	for n := range 8 {
		wait.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				d, err := ask(t, store, fmt.Sprintf("w1{flush%d}", n), spec, 5*time.Second)
				if err != nil {
					t.Errorf("%v", err)
					return
				}
				asked.Add(1)
				if d.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	for ctx.Err() == nil {
		for _, s := range servers {
			require.NoError(t, s.Client().ScriptFlush(context.Background()).Err())
		}
		time.Sleep(20 * time.Millisecond)
	}
	wait.Wait()
	require.Equal(t, asked.Load(), allowed.Load())
	used := int64(0)
	for n := range 8 {
		d, err := call(t, store, time.Second, backends.Item{Key: fmt.Sprintf("w1{flush%d}", n), Spec: spec, Ask: algorithm.Ask{Mode: algorithm.Look}})
		require.NoError(t, err)
		used += d.Used
	}
	require.Equal(t, asked.Load(), used, "each was counted once")
}

func TestSentinelFailover(t *testing.T) {
	set := redistest.StartSentinel(t, []string{"--requirepass", "data", "--masterauth", "data"},
		"sentinel auth-pass mymaster data", "requirepass watch")
	store := open(t, redis.Options{
		Topology: redis.Sentinel, Master: set.Name, Addrs: set.Addrs(), Password: "data", SentinelPassword: "watch",
	})
	var err error
	require.Eventually(t, func() bool {
		_, err = ask(t, store, "before", bucket(t, 5), time.Second)
		return err == nil
	}, 10*time.Second, 50*time.Millisecond, "%v", err)
	require.Eventually(t, func() bool { // the replica must be in step to take over
		info, err := redistest.Client(t, set.Replica.Addr(), "data").Info(context.Background(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	}, 20*time.Second, 50*time.Millisecond)
	require.Eventually(t, func() bool { // and the Sentinels must know it
		out, err := redistest.Client(t, set.Sentinels[0].Addr(), "watch").Do(context.Background(), "SENTINEL", "REPLICAS", set.Name).Slice()
		return err == nil && len(out) > 0
	}, 20*time.Second, 100*time.Millisecond)

	set.Master.Down()
	require.Eventually(t, func() bool {
		_, err = ask(t, store, "after", bucket(t, 1_000_000), time.Second)
		return err == nil
	}, 30*time.Second, 50*time.Millisecond, "no failover: %v", err)
}

// TestSlotsMoveUnderLoad moves the slot of a busy key from master to master:
// every call is answered, and each is counted once.
func TestSlotsMoveUnderLoad(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	store := open(t, redis.Options{Topology: redis.Cluster, Addrs: addrs})
	spec := backendtest.Spec(t, algorithm.Limit{Requests: 1_000_000, WindowUS: 30 * 86_400_000_000})
	const key = "w1{moving}fw"
	_, err := ask(t, store, key, spec, 5*time.Second)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(context.Background())
	asked := atomic.Int64{}
	asked.Store(1)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for ctx.Err() == nil {
				if _, err := ask(t, store, key, spec, 5*time.Second); err != nil {
					t.Errorf("%v", err)
					return
				}
				asked.Add(1)
			}
		})
	}
	for range 6 {
		time.Sleep(50 * time.Millisecond)
		redistest.MoveSlot(t, servers, "moving")
	}
	cancel()
	wait.Wait()
	d, err := call(t, store, 5*time.Second, backends.Item{Key: key, Spec: spec, Ask: algorithm.Ask{Mode: algorithm.Look}})
	require.NoError(t, err)
	require.Equal(t, asked.Load(), d.Used)
}

func tlsConfig(t *testing.T, certs certtest.Files) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certs.Cert, certs.Key)
	require.NoError(t, err)
	return &tls.Config{RootCAs: certs.Pool, Certificates: []tls.Certificate{pair}}
}

func TestAClusterWithTLSAndAUser(t *testing.T) {
	certs := certtest.Make(t, "127.0.0.1")
	servers := redistest.StartCluster(t, 3, append(redistest.TLSArgs(certs.Cert, certs.Key, certs.CA), "--tls-cluster", "yes", "--user", "weir", "on", ">secret", "~*", "+@all")...)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.TLSAddr())
	}
	store := open(t, redis.Options{Topology: redis.Cluster, Addrs: addrs, TLS: tlsConfig(t, certs), Username: "weir", Password: "secret"})
	for i := range 50 {
		_, err := ask(t, store, fmt.Sprintf("w1{tls%d}", i), bucket(t, 5), 5*time.Second)
		require.NoError(t, err)
	}
}

func TestSentinelsWithTLS(t *testing.T) {
	certs := certtest.Make(t, "127.0.0.1")
	args := append(redistest.TLSArgs(certs.Cert, certs.Key, certs.CA), "--tls-replication", "yes")
	set := redistest.StartSentinel(t, args, "tls-port 0", "tls-replication yes",
		"tls-cert-file "+certs.Cert, "tls-key-file "+certs.Key, "tls-ca-cert-file "+certs.CA)
	var addrs []string
	for _, s := range set.Sentinels {
		addrs = append(addrs, s.TLSAddr())
	}
	store := open(t, redis.Options{Topology: redis.Sentinel, Master: set.Name, Addrs: addrs, TLS: tlsConfig(t, certs)})
	var err error
	require.Eventually(t, func() bool {
		_, err = ask(t, store, "k", bucket(t, 5), time.Second)
		return err == nil
	}, 10*time.Second, 50*time.Millisecond, "%v", err)
}
