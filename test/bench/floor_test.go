package main

import (
	"bytes"
	"context"
	"net"
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
