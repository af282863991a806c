// Package integration runs the built weir with a real Redis behind it and a real
// Envoy before it, as a user would.
package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirhq/weir/internal/testutil/weirtest"
)

// serve starts weir with rules in a folder of its own.
func serve(t *testing.T, rules string, env map[string]string) (*weirtest.Process, string) {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "rules.yaml"), []byte(rules), 0o600))
	if env == nil {
		env = map[string]string{}
	}
	if env["LOG_LEVEL"] == "" {
		env["LOG_LEVEL"] = "warn"
	}
	p := weirtest.Prepare(t, weirtest.Binary(t, ""), env, "--config", folder)
	p.Start()
	return p, folder
}

func client(t *testing.T, p *weirtest.Process) rls.RateLimitServiceClient {
	t.Helper()
	return rls.NewRateLimitServiceClient(connect(t, p))
}

func connect(t *testing.T, p *weirtest.Process) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("127.0.0.1:"+strconv.Itoa(p.GRPC), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// get asks through Envoy.
func get(t *testing.T, port int, headers map[string]string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
	require.NoError(t, err)
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// roomInMinute waits until a minute has some seconds left, for tests that count
// in windows of one.
func roomInMinute() {
	now := time.Now()
	if left := now.Truncate(time.Minute).Add(time.Minute).Sub(now); left < 8*time.Second {
		time.Sleep(left + 50*time.Millisecond)
	}
}
