package redis_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/weirhq/weir/internal/testutil/redistest"
	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/backendtest"
	"github.com/weirhq/weir/pkg/backends/redis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names makes keys that no other test of the run has.
var names atomic.Int64

func harness(opts redis.Options) backendtest.Harness {
	return backendtest.Harness{
		Open: func(t *testing.T, now func() int64) backends.Store {
			o := opts
			o.NowUS = now
			o.Timeout = 10 * time.Second
			store, err := redis.New(o)
			require.NoError(t, err)
			names.Add(1)
			return store
		},
		Keys: func(name string) string { return fmt.Sprintf("{t%d|%.20q}%s", names.Load(), "", name) },
	}
}

func TestContractSingle(t *testing.T) {
	server := redistest.Start(t)
	backendtest.Run(t, harness(redis.Options{Addrs: []string{server.Addr()}}))
	everyKeyExpires(t, server)
}

// everyKeyExpires looks at each key that a test has left.
func everyKeyExpires(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	ctx := context.Background()
	for _, s := range servers {
		c := s.Client()
		for it := c.Scan(ctx, 0, "*", 1000).Iterator(); it.Next(ctx); {
			ttl, err := c.Do(ctx, "PTTL", it.Val()).Int64()
			require.NoError(t, err)
			require.NotEqual(t, int64(-1), ttl, "key %q never expires", it.Val())
		}
	}
}
