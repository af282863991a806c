package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Schedule says when requests are due.
type Schedule struct {
	Rate    float64 // requests per second over all connections, up to a million
	Poisson bool    // random independent arrivals; otherwise equal gaps
}

func (s Schedule) validate() error {
	if !(s.Rate > 0 && s.Rate <= 1e6) {
		return fmt.Errorf("rate %v: want more than 0, at most a million", s.Rate)
	}
	return nil
}

// offsets gives the due times one after the other, in ns since the begin.
func (s Schedule) offsets(seed uint64) func() int64 {
	gap := float64(time.Second) / s.Rate
	if !s.Poisson {
		n := 0.0
		return func() int64 {
			n++
			return int64(n * gap)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0xbf58476d1ce4e5b9))
	var at float64
	return func() int64 {
		at += rng.ExpFloat64() * gap
		return int64(at)
	}
}

// pace hands each connection in turn what has become due.
func (l *Load) pace(ctx context.Context, next func() int64, begin int64, duration time.Duration) {
	runtime.LockOSThread() // Go's own timers are as coarse as a millisecond
	defer runtime.UnlockOSThread()
	end := begin + int64(duration)
	due := make([][]int64, len(l.conns))
	turn := 0
	for at := begin + next(); at < end && ctx.Err() == nil; {
		sleepUntil(at)
		t := now()
		for ; at <= t && at < end; at = begin + next() {
			due[turn] = append(due[turn], at)
			turn = (turn + 1) % len(due)
		}
		for i, c := range l.conns {
			if len(due[i]) > 0 {
				c.schedule(due[i], t)
				due[i] = due[i][:0]
			}
		}
	}
}

// sleepUntil returns at the time, or earlier so that its caller can look at
// its context.
func sleepUntil(at int64) {
	const longest = int64(50 * time.Millisecond)
	if wait := min(at-now(), longest); wait > 0 {
		ts := unix.NsecToTimespec(wait)
		_ = unix.Nanosleep(&ts, nil) // an interrupted sleep is one that ends early
	}
}

// schedule adds due times and writes what the peer takes.
func (c *conn) schedule(due []int64, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.part == nil {
		return
	}
	c.part.due = append(c.part.due, due...)
	c.fillAndFlushLocked(at)
}

func (c *conn) fillAndFlushLocked(at int64) {
	c.fillLocked(at)
	if err := c.flush(); err != nil {
		c.failLocked(err)
	}
}
