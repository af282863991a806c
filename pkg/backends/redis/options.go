package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Topology is the kind of Redis.
type Topology uint8

// The topologies.
const (
	Single Topology = iota
	Sentinel
	Cluster
)

// Defaults of Options.
const (
	DefaultWorkers     = 5
	DefaultDialTimeout = 5 * time.Second
	DefaultTimeout     = 500 * time.Millisecond
	DefaultQueue       = 4096
)

// Options of a Store. Addrs is needed, the rest has useful zero values.
type Options struct {
	Topology Topology
	Network  string   // "tcp" (default) or "unix"; Single only
	Addrs    []string // Single: one; Sentinel: the Sentinels; Cluster: seeds
	Master   string   // Sentinel: name of the master
	DB       int      // not for Cluster

	Username, Password string
	// Credentials, where not nil, is asked at each connection instead.
	Credentials                        func() (username, password string)
	SentinelUsername, SentinelPassword string
	TLS                                *tls.Config // nil: plain; also used towards Sentinels

	// Workers is how many pipelines are under way at a time, each on a connection
	// of its own; as many spare connections serve when the server is slow. 0 is
	// DefaultWorkers.
	Workers int
	// Queue bounds the batches waiting for a worker; more answer ErrOverloaded.
	// 0 is DefaultQueue.
	Queue       int
	DialTimeout time.Duration // 0 is DefaultDialTimeout
	// Timeout bounds batches that have no deadline. 0 is DefaultTimeout.
	Timeout time.Duration
	// Jitter is the most that a key lives longer than needed.
	Jitter time.Duration
	// NowUS gives the scripts their time, for tests; nil is the server's clock.
	NowUS func() int64
	// Observer is told of failures; nil tells nobody.
	Observer Observer
}

// Observer is told what becomes of commands. It must not block.
type Observer interface {
	// StoreError is one failed call, by class: see Class.
	StoreError(class string)
}

func (o *Options) fill() error {
	if len(o.Addrs) == 0 || o.Addrs[0] == "" {
		return errors.New("redis: no address")
	}
	if o.Topology == Sentinel && o.Master == "" {
		return errors.New("redis: no master name for the Sentinels")
	}
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	if o.Queue <= 0 {
		o.Queue = DefaultQueue
	}
	if o.DialTimeout <= 0 {
		o.DialTimeout = DefaultDialTimeout
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Network == "" {
		o.Network = "tcp"
	}
	return nil
}

// client opens the connection pool. Nothing is sent before it is needed, so a
// server that is down does not matter here.
func (o *Options) client() goredis.UniversalClient {
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	timeout := max(o.Timeout, time.Second)
	switch o.Topology {
	case Cluster:
		return goredis.NewClusterClient(&goredis.ClusterOptions{
			Addrs: o.Addrs, Username: o.Username, Password: o.Password, CredentialsProvider: o.Credentials, TLSConfig: o.TLS,
			Protocol: 2, DisableIdentity: true, MaintNotificationsConfig: quiet,
			MaxRetries: -1, DialTimeout: o.DialTimeout, DialerRetries: 1, ReadTimeout: timeout, WriteTimeout: timeout,
			ContextTimeoutEnabled: true, PoolSize: 2 * o.Workers, PipelinePoolSize: -1, PoolTimeout: timeout,
		})
	case Sentinel:
		return goredis.NewFailoverClient(&goredis.FailoverOptions{
			MasterName: o.Master, SentinelAddrs: o.Addrs, SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
			Username: o.Username, Password: o.Password, CredentialsProvider: o.Credentials, DB: o.DB, TLSConfig: o.TLS,
			Protocol: 2, DisableIdentity: true,
			MaxRetries: -1, DialTimeout: o.DialTimeout, DialerRetries: 1, ReadTimeout: timeout, WriteTimeout: timeout,
			ContextTimeoutEnabled: true, PoolSize: 2 * o.Workers, PipelinePoolSize: -1, PoolTimeout: timeout,
		})
	default:
		return goredis.NewClient(&goredis.Options{
			Network: o.Network, Addr: o.Addrs[0], DB: o.DB,
			Username: o.Username, Password: o.Password, CredentialsProvider: o.Credentials, TLSConfig: o.TLS,
			Protocol: 2, DisableIdentity: true, MaintNotificationsConfig: quiet,
			MaxRetries: -1, DialTimeout: o.DialTimeout, DialerRetries: 1, ReadTimeout: timeout, WriteTimeout: timeout,
			ContextTimeoutEnabled: true, PoolSize: 2 * o.Workers, PipelinePoolSize: -1, PoolTimeout: timeout,
		})
	}
}

// jitterMS is a random part of a key's life in ms. Under a clock of a test's
// own, which may stand while the server's runs on, keys live an hour longer.
func (o *Options) jitterMS() int64 {
	if o.NowUS != nil {
		return time.Hour.Milliseconds()
	}
	if o.Jitter < time.Millisecond {
		return 0
	}
	return rand.Int64N(o.Jitter.Milliseconds())
}

// ParseAuth splits "password" or "user:password" at the first colon.
func ParseAuth(text string) (username, password string) {
	if user, pass, ok := strings.Cut(text, ":"); ok {
		return user, pass
	}
	return "", text
}

// AuthFile reads credentials from a file at each connection, so that expiring
// passwords can be replaced. What cannot be read is an empty password: the
// server refuses it, and says so.
func AuthFile(path string) func() (username, password string) {
	return func() (string, string) {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", ""
		}
		return ParseAuth(strings.TrimSpace(string(text)))
	}
}

// ParseURL reads the address of a single server into the options: host:port, a
// socket path, or redis://user:pass@host:port/db (rediss for TLS).
func (o *Options) ParseURL(text string) error {
	if !strings.Contains(text, "://") {
		o.Addrs = []string{text}
		return nil
	}
	u, err := goredis.ParseURL(text)
	if err != nil {
		return fmt.Errorf("redis: the URL cannot be read; write redis://user:password@host:port/db")
	}
	o.Network, o.Addrs, o.DB = u.Network, []string{u.Addr}, u.DB
	o.Username, o.Password = u.Username, u.Password
	if u.TLSConfig != nil && o.TLS == nil {
		o.TLS = u.TLSConfig
	}
	return nil
}
