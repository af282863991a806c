package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/weirhq/weir/internal/metrics"
	"github.com/weirhq/weir/internal/settings"
	"github.com/weirhq/weir/pkg/backends/memory"
)

// storeKind chooses the store: what BACKEND_TYPE says; else memory for rules by
// --config without any Redis setting; else redis, as the reference.
func storeKind(s settings.Settings) (string, error) {
	switch s.Store.Backend {
	case "redis", "memory":
		return s.Store.Backend, nil
	case "":
		if s.Rules.Config != "" && !redisConfigured(s.Redis) {
			return "memory", nil
		}
		return "redis", nil
	case "memcache":
		return "", fmt.Errorf("BACKEND_TYPE %q: memcached is not supported; use redis or memory", s.Store.Backend)
	default:
		return "", fmt.Errorf("BACKEND_TYPE %q: write redis or memory", s.Store.Backend)
	}
}

// redisConfigured tells whether anything is said about Redis, by variable or flag.
func redisConfigured(r settings.Redis) bool {
	if r.URL != settings.DefaultRedisURL || strings.ToUpper(r.Type) != "SINGLE" || r.Socket != "unix" {
		return true
	}
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "REDIS_") && value != "" {
			return true
		}
	}
	return false
}

func (s *Server) openStore(ctx context.Context, kind string) error {
	if kind == "redis" {
		return s.openRedis(ctx)
	}
	store := openMemory(s.settings.Store.MemoryKeys, s.log, s.metrics)
	s.store = store
	s.closers = append(s.closers, func() { _ = store.Close(context.Background()) })
	return nil
}

func openMemory(keys int, log *slog.Logger, m *metrics.Metrics) *memory.Store {
	return memory.New(memory.Options{
		MaxKeys: keys,
		OnOverflow: func(rule string) {
			m.MemoryOverflow()
			log.Warn("memory store is full: further keys of the rule share limits", "rule", rule, "MEMORY_MAX_KEYS", keys)
		},
	})
}
