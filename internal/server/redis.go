package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/weirhq/weir/internal/settings"
	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/redis"
)

func (s *Server) openRedis(context.Context) error {
	store, err := s.openOneRedis(&s.settings.Redis, "")
	if err != nil {
		return err
	}
	s.store = store
	if !s.settings.PerSec.Use {
		return nil
	}
	second, err := s.openOneRedis(perSecond(&s.settings), "PERSECOND_")
	if err != nil {
		return err
	}
	s.store = &backends.PerSecond{Main: store, Second: second}
	return nil
}

// perSecond gives the settings of the second Redis in the form of the first's.
func perSecond(s *settings.Settings) *settings.Redis {
	r, p := s.Redis, &s.PerSec
	r.Socket, r.Type, r.URL, r.Auth, r.SentinelAuth = p.Socket, p.Type, p.URL, p.Auth, p.SentinelAuth
	r.PoolSize, r.TLS, r.DialTimeout, r.AuthFile = p.PoolSize, p.TLS, p.DialTimeout, ""
	return &r
}

// openOneRedis opens a store; infix is what its variables have after REDIS_.
func (s *Server) openOneRedis(r *settings.Redis, infix string) (*redis.Store, error) {
	opts, err := redisOptions(&s.settings, r, infix)
	if err != nil {
		return nil, err
	}
	opts.Observer = s.metrics
	store, err := redis.New(opts)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.settings.Store.Timeout)
		defer cancel()
		if err := store.Close(ctx); err != nil {
			s.log.Warn("redis was not closed cleanly", "error", err)
		}
	})
	return store, nil
}

// redisOptions reads the REDIS_* settings. Errors name the variable, never a
// value that may hold a password.
func redisOptions(s *settings.Settings, r *settings.Redis, infix string) (redis.Options, error) {
	opts := redis.Options{
		Workers:     max(1, r.PoolSize/2),
		DialTimeout: min(r.DialTimeout, redis.DefaultDialTimeout),
		Timeout:     s.Store.Timeout,
		Jitter:      time.Duration(max(0, s.Store.Jitter)) * time.Second,
	}
	if r.TLS {
		config, err := redisTLS(r)
		if err != nil {
			return opts, err
		}
		opts.TLS = config
	}
	if err := redisAddress(&opts, r, infix); err != nil {
		return opts, err
	}
	if r.Auth != "" {
		opts.Username, opts.Password = redis.ParseAuth(r.Auth.Reveal())
	}
	opts.SentinelUsername, opts.SentinelPassword = redis.ParseAuth(r.SentinelAuth.Reveal())
	if r.AuthFile != "" {
		opts.Credentials = redis.AuthFile(r.AuthFile)
	}
	return opts, nil
}

func redisAddress(opts *redis.Options, r *settings.Redis, infix string) error {
	list := strings.Split(r.URL.Reveal(), ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	switch strings.ToUpper(r.Type) {
	case "SINGLE", "":
		opts.Network = r.Socket
		if err := opts.ParseURL(r.URL.Reveal()); err != nil {
			return fmt.Errorf("REDIS_%sURL: %w", infix, err)
		}
	case "CLUSTER":
		opts.Topology, opts.Addrs = redis.Cluster, list
	case "SENTINEL":
		if len(list) < 2 {
			return fmt.Errorf("REDIS_%[1]sURL: for REDIS_%[1]sTYPE=SENTINEL write master,host:port,host:port…", infix)
		}
		opts.Topology, opts.Master, opts.Addrs = redis.Sentinel, list[0], list[1:]
	default:
		return fmt.Errorf("REDIS_%sTYPE %q: write SINGLE, SENTINEL or CLUSTER", infix, r.Type)
	}
	return nil
}

func redisTLS(r *settings.Redis) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.TLSCert != "" || r.TLSKey != "" {
		pair, err := tls.LoadX509KeyPair(r.TLSCert, r.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("REDIS_TLS_CLIENT_CERT, REDIS_TLS_CLIENT_KEY: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if r.TLSCA != "" {
		text, err := os.ReadFile(r.TLSCA)
		if err != nil {
			return nil, fmt.Errorf("REDIS_TLS_CACERT: %w", err)
		}
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("REDIS_TLS_CACERT: %q holds no certificate", r.TLSCA)
		}
	}
	c.RootCAs = roots
	if r.TLSSkipHost {
		skipHostname(c, roots)
	}
	return c, nil
}

// skipHostname verifies the chain but not the name.
func skipHostname(c *tls.Config, roots *x509.CertPool) {
	c.InsecureSkipVerify = true // the chain is verified below
	c.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return errors.New("no server certificate")
		}
		between := x509.NewCertPool()
		for _, cert := range state.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
}
