package redis_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/internal/testutil/faultproxy"
	"github.com/weirhq/weir/internal/testutil/redistest"
	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/redis"
)

// classes counts what an Observer is told.
type classes struct {
	mu  sync.Mutex
	all map[string]int
}

func (c *classes) StoreError(class string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]int{}
	}
	c.all[class]++
}

func (c *classes) count(class string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[class]
}

func TestAFrozenServerIsAnsweredForInTime(t *testing.T) {
	server := redistest.Start(t)
	var seen classes
	store := open(t, redis.Options{Addrs: []string{server.Addr()}, Observer: &seen})
	_, err := ask(t, store, "k", bucket(t, 5), time.Second)
	require.NoError(t, err)
	server.Freeze()
	var slowest atomic.Int64
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() {
			began := time.Now()
			_, err := ask(t, store, "k", bucket(t, 5), 50*time.Millisecond)
			if err == nil {
				t.Error("a frozen server answered")
			}
			slowest.Store(max(slowest.Load(), int64(time.Since(began))))
		})
	}
	wait.Wait()
	require.Less(t, time.Duration(slowest.Load()), 250*time.Millisecond)
	require.NotZero(t, seen.count("timeout"))
	server.Thaw()
	require.Eventually(t, func() bool {
		_, err := ask(t, store, "other", bucket(t, 5), 200*time.Millisecond)
		return err == nil
	}, 3*time.Second, 20*time.Millisecond)
}

func TestAServerThatIsDownCostsNoTime(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, redis.Options{Addrs: []string{server.Addr()}})
	server.Down()
	began := time.Now()
	require.Eventually(t, func() bool { // the first ones meet the old connections
		_, err := ask(t, store, "k", bucket(t, 5), time.Second)
		require.Error(t, err)
		began = time.Now()
		_, err = ask(t, store, "k", bucket(t, 5), time.Second)
		return err != nil && time.Since(began) < 100*time.Millisecond
	}, 5*time.Second, 10*time.Millisecond)
	server.Up()
	require.Eventually(t, func() bool {
		_, err := ask(t, store, "k", bucket(t, 5), time.Second)
		return err == nil
	}, 3*time.Second, 20*time.Millisecond)
}

// TestALostReplyIsNotAskedAgain cuts replies: what was asked is counted at most
// once.
func TestALostReplyIsNotAskedAgain(t *testing.T) {
	for _, mode := range []faultproxy.Mode{faultproxy.LoseReply, faultproxy.HalfReply} {
		t.Run(string(mode), func(t *testing.T) {
			server := redistest.Start(t)
			proxy := faultproxy.Start(t, server.Addr())
			store := open(t, redis.Options{Addrs: []string{proxy.Addr()}})
			const n = 30
			for i := range n { // warm the scripts and the connections
				_, err := ask(t, store, fmt.Sprint("warm", i), bucket(t, 1000), time.Second)
				require.NoError(t, err)
			}
			proxy.Set(mode, 0)
			for range n {
				_, err := ask(t, store, "k", bucket(t, 1000), time.Second)
				require.Error(t, err)
			}
			proxy.Set(faultproxy.Pass, 0)
			var d algorithm.Decision
			require.Eventually(t, func() bool {
				var err error
				d, err = call(t, store, time.Second, backends.Item{Key: "k", Spec: bucket(t, 1000), Ask: algorithm.Ask{Mode: algorithm.Look}})
				return err == nil
			}, 3*time.Second, 20*time.Millisecond)
			require.LessOrEqual(t, d.Used, int64(n))
		})
	}
}

// TestWhatHasWaitedTooLongIsNotSent holds the server up with a slow script: what
// has passed its deadline in the queue is never counted.
func TestWhatHasWaitedTooLongIsNotSent(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	store := open(t, redis.Options{Addrs: []string{proxy.Addr()}, Workers: 1})
	_, err := ask(t, store, "k", bucket(t, 1000), time.Second)
	require.NoError(t, err)
	proxy.Set(faultproxy.Hang, 0)
	var wait sync.WaitGroup
	for range 200 {
		wait.Go(func() { _, _ = ask(t, store, "k", bucket(t, 1000), 30*time.Millisecond) })
	}
	wait.Wait()
	proxy.Set(faultproxy.Refuse, 0)
	proxy.Set(faultproxy.Pass, 0)
	var d algorithm.Decision
	require.Eventually(t, func() bool {
		d, err = call(t, store, time.Second, backends.Item{Key: "k", Spec: bucket(t, 1000), Ask: algorithm.Ask{Mode: algorithm.Look}})
		return err == nil
	}, 5*time.Second, 20*time.Millisecond)
	require.Equal(t, int64(1), d.Used)
}

func TestADemotedMasterIsUnavailable(t *testing.T) {
	server := redistest.Start(t)
	var seen classes
	store := open(t, redis.Options{Addrs: []string{server.Addr()}, Observer: &seen})
	require.NoError(t, server.Client().ReplicaOf(context.Background(), "127.0.0.1", "1").Err())
	_, err := ask(t, store, "k", bucket(t, 5), time.Second)
	require.ErrorIs(t, err, backends.ErrUnavailable)
	require.Equal(t, 1, seen.count("readonly"))
	require.NoError(t, server.Client().ReplicaOf(context.Background(), "NO", "ONE").Err())
	_, err = ask(t, store, "k", bucket(t, 5), time.Second)
	require.NoError(t, err)
}

func TestFailuresAreNamedByClass(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	var seen classes
	store := open(t, redis.Options{Addrs: []string{server.Addr()}, Observer: &seen})
	own := server.Client()
	ctx := context.Background()
	require.NoError(t, own.LPush(ctx, "wrong", "x").Err())
	_, err := ask(t, store, "wrong", bucket(t, 5), time.Second)
	require.ErrorIs(t, err, backends.ErrUnavailable)
	require.Equal(t, 1, seen.count("wrongtype"))

	require.NoError(t, own.ConfigSet(ctx, "maxmemory", "1").Err())
	_, err = ask(t, store, "new", bucket(t, 5), time.Second)
	require.ErrorIs(t, err, backends.ErrUnavailable)
	require.Equal(t, 1, seen.count("oom"))
}

func TestAFullQueueIsShed(t *testing.T) {
	server := redistest.Start(t)
	var seen classes
	store := open(t, redis.Options{Addrs: []string{server.Addr()}, Workers: 1, Queue: 2, Observer: &seen})
	_, err := ask(t, store, "k", bucket(t, 5), time.Second)
	require.NoError(t, err)
	server.Freeze()
	defer server.Thaw()
	var shed atomic.Int64
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() {
			b := &backends.Batch{Calls: []backends.Call{{Items: []backends.Item{{Key: "k", Spec: bucket(t, 5), Ask: algorithm.Ask{Cost: 1}}}}}, Deadline: time.Now().Add(200 * time.Millisecond)}
			if backends.Decide(context.Background(), store, b) == nil && errors.Is(b.Calls[0].Err, backends.ErrOverloaded) {
				shed.Add(1)
			}
		})
	}
	wait.Wait()
	require.NotZero(t, shed.Load())
	require.Equal(t, int(shed.Load()), seen.count("overloaded"))
}

func (c *classes) BreakerChanged(open bool) { c.StoreError(fmt.Sprint("breaker open ", open)) }

// TestALongOutage freezes the server under load: after a few calls nothing waits
// any more, few connections are made, and the server is asked again soon after
// it comes back.
func TestALongOutage(t *testing.T) {
	server := redistest.Start(t)
	var seen classes
	store := open(t, redis.Options{Addrs: []string{server.Addr()}, Observer: &seen})
	_, err := ask(t, store, "k", bucket(t, 5), time.Second)
	require.NoError(t, err)
	server.Freeze()
	var quick int
	for range 300 {
		began := time.Now()
		_, err := ask(t, store, "k", bucket(t, 5), 18*time.Millisecond)
		require.Error(t, err)
		if time.Since(began) < 2*time.Millisecond {
			quick++
		}
		time.Sleep(time.Millisecond)
	}
	require.Greater(t, quick, 200, "an outage costs nothing")
	require.Equal(t, 1, seen.count("breaker open true"))
	server.Thaw()
	thawed := time.Now()
	require.Eventually(t, func() bool {
		_, err := ask(t, store, "other", bucket(t, 1000), time.Second)
		return err == nil
	}, 3*time.Second, 5*time.Millisecond)
	require.Less(t, time.Since(thawed), time.Second)
	require.Equal(t, 1, seen.count("breaker open false"))
}

// TestErrorsOfTheServerDoNotBreak asks a key of the wrong type again and again:
// other keys are still decided.
func TestErrorsOfTheServerDoNotBreak(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, redis.Options{Addrs: []string{server.Addr()}})
	require.NoError(t, server.Client().LPush(context.Background(), "wrong", "x").Err())
	for range 50 {
		_, err := ask(t, store, "wrong", bucket(t, 5), time.Second)
		require.ErrorContains(t, err, "wrongtype")
	}
	_, err := ask(t, store, "right", bucket(t, 5), time.Second)
	require.NoError(t, err)
}
