package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte("42 (odd) name) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 8 0 100 1 2"))
	require.NoError(t, err)
	require.Equal(t, 3*time.Second, got)
	_, err = parseStat([]byte("42 (x) S 1"))
	require.ErrorContains(t, err, "too few fields")
}

func TestParseBusyLeavesOutIdleAndDisk(t *testing.T) {
	got, err := parseBusy([]byte("cpu  100 20 30 9999 8888 4 5 1 7 7\ncpu0 1 1 1\n"))
	require.NoError(t, err)
	require.Equal(t, 1600*time.Millisecond, got)
	_, err = parseBusy([]byte("intr 1 2 3"))
	require.Error(t, err)
}

func TestCPUSeesWork(t *testing.T) {
	before, err := CPU(os.Getpid())
	require.NoError(t, err)
	busyBefore, err := Busy()
	require.NoError(t, err)
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
	}
	after, err := CPU(os.Getpid())
	require.NoError(t, err)
	busyAfter, err := Busy()
	require.NoError(t, err)
	require.Positive(t, after-before)
	require.Positive(t, busyAfter-busyBefore)
	_, err = CPU(1 << 30)
	require.Error(t, err)
}

func TestParseCommands(t *testing.T) {
	got, err := parseCommands(parseInfo("# Commandstats\r\ncmdstat_evalsha:calls=3,usec=42,usec_per_call=14.00,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_client|setname:calls=1,usec=1,usec_per_call=1.00\r\n"))
	require.NoError(t, err)
	require.Equal(t, Calls{Count: 3, Spent: 42 * time.Microsecond}, got["evalsha"])
	require.Equal(t, 14*time.Microsecond, got["evalsha"].PerCall())
	require.Zero(t, Calls{}.PerCall())
	_, err = parseCommands(map[string]string{"cmdstat_get": "calls=many"})
	require.ErrorContains(t, err, "commandstats of get")
}

func TestWorkCountsScriptsOnceAndNoHousekeeping(t *testing.T) {
	us := time.Microsecond
	before := map[string]Calls{"evalsha": {10, 100 * us}, "incrby": {10, 20 * us}, "info": {1, us}}
	scripts := map[string]Calls{"evalsha": {15, 150 * us}, "incrby": {15, 30 * us}, "info": {9, 9 * us}}
	require.Equal(t, Calls{5, 50 * us}, Work(before, scripts))

	plain := map[string]Calls{"evalsha": {10, 100 * us}, "incrby": {14, 28 * us}, "expire": {4, 4 * us}, "info": {9, 9 * us}}
	require.Equal(t, Calls{8, 12 * us}, Work(before, plain))
	require.Zero(t, Work(nil, nil))
}

func TestFreePortsAreDifferent(t *testing.T) {
	ports, err := FreePorts(5)
	require.NoError(t, err)
	seen := map[int]bool{}
	for _, port := range ports {
		require.False(t, seen[port])
		seen[port] = true
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

func TestProcessStartAndStop(t *testing.T) {
	tries := 0
	p, err := Start(t.Context(), "sleeper", []string{"/bin/sleep", "60"}, []string{"A=b"}, func() error {
		tries++
		if tries < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	require.NoError(t, err)
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID()))
	require.NoError(t, err)
	require.Contains(t, string(environment), "A=b")
	p.Stop()
	_, err = CPU(p.PID())
	require.Error(t, err)
	require.Equal(t, 3, tries)
}

func TestProcessThatIsNeverReadyIsStopped(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := Start(ctx, "sleeper", []string{"/bin/sleep", "60"}, nil, func() error { return errors.New("closed door") })
	require.ErrorContains(t, err, "closed door")

	_, err = Start(t.Context(), "speaker", []string{"/bin/sh", "-c", "echo last words; exit 3"}, nil, func() error { return errors.New("no") })
	require.ErrorContains(t, err, "ended before it was ready")
	require.ErrorContains(t, err, "last words")
}

func TestTailKeepsTheEnd(t *testing.T) {
	var log tail
	for i := range 1000 {
		fmt.Fprintf(&log, "line %d of a long log\n", i)
	}
	require.Less(t, len(log.String()), logKept+1)
	require.True(t, strings.HasSuffix(log.String(), "line 999 of a long log"))
}

func TestRedisCountsItsCommands(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no redis-server")
	}
	r, err := StartRedis(t.Context(), "redis-server")
	require.NoError(t, err)
	defer r.Stop()
	before, err := r.Commands()
	require.NoError(t, err)

	conn, err := net.Dial("tcp", r.Addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("INCRBY a 1\r\nEXPIRE a 9\r\n"))
	require.NoError(t, err)
	answers := make([]byte, 8)
	_, err = conn.Read(answers)
	require.NoError(t, err)

	var calls Calls
	require.Eventually(t, func() bool {
		after, err := r.Commands()
		require.NoError(t, err)
		calls = Work(before, after)
		return calls.Count == 2
	}, 2*time.Second, 10*time.Millisecond)
}

func TestMachineIsNamed(t *testing.T) {
	cpu, kernel := Machine()
	require.NotEmpty(t, cpu)
	require.NotEqual(t, "unknown", kernel)
}
