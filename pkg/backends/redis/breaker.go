package redis

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/pkg/backends"
)

const (
	// breakAfter is how many pipelines in a row must fail before nothing is sent
	// any more.
	breakAfter = 5
	// probeEvery is how often the server is then asked for a sign of life.
	probeEvery = 100 * time.Millisecond
	// probeTimeout is how long it may take to give one.
	probeTimeout = 500 * time.Millisecond
)

// errBroken is what callers get while nothing is sent.
var errBroken = fmt.Errorf("%w: breaker open", backends.ErrUnavailable)

// breaker keeps an outage from costing each call its time, and the server from
// a storm of connections when it comes back. Only silence opens it: a server
// that is down, frozen or unreachable. Errors that a server replies do not, nor
// does one failing node of a cluster while others answer.
type breaker struct {
	failures atomic.Int32 // pipelines in a row
	open     atomic.Bool
	opened   chan struct{} // wakes the prober; holds one
}

// judge takes the outcome of one pipeline.
func (s *Store) judge(units []*unit) {
	b := &s.breaker
	for _, u := range units {
		if u.err == nil || !u.silent {
			b.failures.Store(0)
			return
		}
	}
	if b.failures.Add(1) < breakAfter || !b.open.CompareAndSwap(false, true) {
		return
	}
	s.tellBreaker(true)
	select {
	case b.opened <- struct{}{}:
	default:
	}
}

// probe closes the breaker when the server answers again, until the store ends.
func (s *Store) probe() {
	for {
		select {
		case <-s.crew.stop:
			return
		case <-s.breaker.opened:
		}
		for !s.alive() {
			select {
			case <-s.crew.stop:
				return
			case <-time.After(probeEvery):
			}
		}
		s.breaker.failures.Store(0)
		s.breaker.open.Store(false)
		s.tellBreaker(false)
	}
}

func (s *Store) alive() bool {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	err := s.client.Ping(ctx).Err()
	return err == nil || !silent(Class(err))
}

// silent tells the classes that are no answer of the server's.
func silent(class string) bool { return class == "timeout" || class == "down" }

// BreakerObserver is an optional ability of an Observer.
type BreakerObserver interface {
	// BreakerChanged tells that nothing is sent any more, or again.
	BreakerChanged(open bool)
}

func (s *Store) tellBreaker(open bool) {
	if o, ok := s.opts.Observer.(BreakerObserver); ok {
		o.BreakerChanged(open)
	}
}
