package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/test/bench/internal/load"
)

// startTestFloor serves the floor in this process.
func startTestFloor(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serveFloor(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
	})
	return listener.Addr().String()
}

func TestFloorAnswersEachDescriptor(t *testing.T) {
	addr := startTestFloor(t)
	for _, s := range allScenarios() { // every scenario's requests are well formed
		l, err := load.Dial(load.Config{Addr: addr, Connections: 2, Timeout: time.Second, Shape: s.shape})
		require.NoError(t, err, s.name)
		r, err := l.Closed(t.Context(), 2, 20*time.Millisecond)
		l.Close()
		require.NoError(t, err, s.name)
		require.Positive(t, r.OK, s.name)
		require.Empty(t, r.Failed, s.name)
	}
}

func TestDriveReportsWhatItDid(t *testing.T) {
	addr := startTestFloor(t)
	for name, flags := range map[string][]string{"closed": nil, "open": {"--rate", "500", "--poisson"}} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			args := append([]string{"drive", "--addr", addr, "--duration", "100ms", "--connections", "2"}, flags...)
			require.NoError(t, run(t.Context(), args, &out, &out))
			require.Contains(t, out.String(), "(0 refused)")
			require.Contains(t, out.String(), "latency     p50 ")
			require.NotContains(t, out.String(), "failed")
		})
	}
}

func TestProfileIsTakenUnderLoad(t *testing.T) {
	status := http.StatusOK
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(r.URL.Path))
	}))
	defer pages.Close()
	defer http.DefaultClient.CloseIdleConnections()
	weir := &target{name: memoryName, addr: startTestFloor(t), debug: pages.Listener.Addr().String()}
	one := allScenarios()[0]
	dir := filepath.Join(t.TempDir(), "new")
	require.NoError(t, profileAll(t.Context(), []*entry{{scenario: one, target: &target{name: floorName}}, {scenario: one, target: weir}}, dir))
	got, err := os.ReadFile(filepath.Join(dir, "one-weir-memory.pprof"))
	require.NoError(t, err)
	require.Equal(t, "/debug/pprof/profile", string(got))

	status = http.StatusNotFound
	err = profileAll(t.Context(), []*entry{{scenario: one, target: weir}}, dir)
	require.ErrorContains(t, err, "profile of one on weir memory: 404")
}
