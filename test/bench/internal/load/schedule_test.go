package load

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
)

func TestScheduleOffsets(t *testing.T) {
	even := Schedule{Rate: 3}.offsets(1)
	require.EqualValues(t, 333_333_333, even())
	require.EqualValues(t, 666_666_666, even())
	require.EqualValues(t, 1_000_000_000, even()) // no rounding error adds up

	random := Schedule{Rate: 1000, Poisson: true}.offsets(1)
	var last int64
	short := 0
	const n = 20_000
	for range n {
		at := random()
		require.GreaterOrEqual(t, at, last)
		if at-last < 693_147 { // half of exponential gaps are below ln 2 of the mean
			short++
		}
		last = at
	}
	require.InDelta(t, float64(n)/1000, float64(last)/1e9, 0.5)
	require.InDelta(t, n/2, short, n/50)

	require.ErrorContains(t, Schedule{}.validate(), "rate 0")
}

func TestOpenLoopSendsAtItsRate(t *testing.T) {
	server := &rls{answer: byKey}
	l := dialTest(t, Config{Addr: serve(t, server), Connections: 2, Shape: testShape()})
	r, err := l.Open(t.Context(), Schedule{Rate: 500}, 400*time.Millisecond)
	require.NoError(t, err)
	require.Empty(t, r.Failed)
	require.EqualValues(t, 199, r.Answered()) // at 2 ms, 4 ms, … 398 ms
	require.EqualValues(t, 199, r.Lateness.Count())
	require.EqualValues(t, 201, server.asked.Load())
}

// A server that stands still for 200 ms makes everything that was due in that
// time late, not only the requests that it had before it stopped.
func TestOpenLoopCountsWaitsFromTheSchedule(t *testing.T) {
	const stall = 200 * time.Millisecond
	var asked atomic.Int64
	var until atomic.Int64
	server := &rls{answer: func(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
		if asked.Add(1) == 50 {
			until.Store(time.Now().Add(stall).UnixNano())
		}
		if wait := until.Load() - time.Now().UnixNano(); wait > 0 {
			<-time.After(time.Duration(wait))
		}
		return byKey(ctx, req)
	}}
	l := dialTest(t, Config{Addr: serve(t, server), Connections: 1, Shape: testShape()})
	r, err := l.Open(t.Context(), Schedule{Rate: 500}, 500*time.Millisecond)
	require.NoError(t, err)
	require.Empty(t, r.Failed)
	// 100 of 250 requests were due during the stall: waits spread evenly up to it.
	require.Greater(t, r.Latency.At(95), 100*time.Millisecond)
	require.Greater(t, r.Latency.At(75), 40*time.Millisecond)
	require.Less(t, r.Latency.At(40), 40*time.Millisecond)
}

func TestOpenLoopEndsWithItsContext(t *testing.T) {
	l := dialTest(t, Config{Addr: serve(t, &rls{answer: byKey}), Connections: 1, Shape: testShape()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := l.Open(ctx, Schedule{Rate: 10}, time.Minute)
	require.NoError(t, err)
	require.Less(t, r.Elapsed, 10*time.Second)
}
