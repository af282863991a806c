package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/internal/testutil/envoytest"
	"github.com/weirhq/weir/internal/testutil/redistest"
	"github.com/weirhq/weir/internal/testutil/weirtest"
)

// TestQuickstart plays the tour of the README on the example's own files; only
// the ports are others.
func TestQuickstart(t *testing.T) {
	const example = "../../config/examples/quickstart"
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(example)))
	roomInMinute()
	weir := weirtest.Prepare(t, weirtest.Binary(t, ""), nil, "--config", folder)
	weir.Start()

	config, err := os.ReadFile(filepath.Join(folder, "envoy.yaml"))
	require.NoError(t, err)
	text := string(config)
	for port, value := range map[string]string{"10000": "{port}", "10001": fmt.Sprint(redistest.FreePort(t)), "8081": fmt.Sprint(weir.GRPC)} {
		require.Contains(t, text, "port_value: "+port)
		text = strings.ReplaceAll(text, "port_value: "+port, "port_value: "+value)
	}
	text = strings.ReplaceAll(text, "timeout: 0.1s", "timeout: 2s") // a small machine under test
	envoy := envoytest.Start(t, text, nil)
	ask := func(n int, headers map[string]string) (statuses []int) {
		for range n {
			statuses = append(statuses, get(t, envoy.Port, headers).StatusCode)
		}
		return statuses
	}
	ann := map[string]string{"x-user": "ann"}
	require.Equal(t, []int{200, 200, 200, 429}, ask(4, ann))

	gold := ask(40, map[string]string{"x-user": "zoe", "x-plan": "gold"})
	for i, status := range gold[:20] {
		require.Equal(t, http.StatusOK, status, "request %d of the burst", i)
	}
	require.Contains(t, gold[20:], http.StatusTooManyRequests)
	require.NotContains(t, ask(40, map[string]string{"x-user": "bot", "x-plan": "internal"}), http.StatusTooManyRequests)

	rules := filepath.Join(folder, "rules.yaml")
	before, err := os.ReadFile(rules)
	require.NoError(t, err)
	after := strings.Replace(string(before), "requests_per_unit: 3\n", "requests_per_unit: 100\n", 1)
	require.NotEqual(t, string(before), after)
	require.NoError(t, os.WriteFile(rules, []byte(after), 0o600))
	require.Eventually(t, func() bool {
		resp := get(t, envoy.Port, ann)
		return resp.StatusCode == http.StatusOK && resp.Header.Get("ratelimit-limit") == "100"
	}, 3*time.Second, 20*time.Millisecond)
}
