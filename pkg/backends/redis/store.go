package redis

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
)

// Store decides by scripts in Redis. It implements backends.Store and is safe
// for concurrent use.
type Store struct {
	opts   Options
	client goredis.UniversalClient
	queue  chan *pending
	clock  serverClock

	breaker  breaker
	refusers refusers // of calls that are spread over a cluster's slots

	mu     sync.RWMutex // guards closed against sends on the closed queue
	closed bool
	crew   crew
}

var (
	_ backends.Store  = (*Store)(nil)
	_ backends.Pinger = (*Store)(nil)
)

// New makes a store and starts its workers; Close ends them. It does not wait
// for the server: while that is down, batches answer ErrUnavailable.
func New(opts Options) (*Store, error) {
	if err := opts.fill(); err != nil {
		return nil, err
	}
	silence()
	s := &Store{opts: opts, client: opts.client(), queue: make(chan *pending, opts.Queue)}
	s.clock.given = opts.NowUS
	s.breaker.opened = make(chan struct{}, 1)
	s.start()
	return s, nil
}

// silence keeps go-redis from writing to standard error on its own: failures are
// told to the Observer, by class and without addresses.
var silence = sync.OnceFunc(func() { goredis.SetLogger(quiet{}) })

type quiet struct{}

// Printf implements go-redis' logger.
func (quiet) Printf(context.Context, string, ...any) {}

// pending is a batch on its way. Whoever claims it answers it: the worker with
// the replies, or the timer at the deadline.
type pending struct {
	batch    *backends.Batch
	units    []unit // what is sent: copies, since the batch is gone once answered
	deadline time.Time
	timer    *time.Timer
	claimed  atomic.Bool
}

func (p *pending) claim() bool { return p.claimed.CompareAndSwap(false, true) }

func (p *pending) fail(err error) {
	for i := range p.batch.Calls {
		p.batch.Calls[i].Err = err
	}
	p.batch.Done(p.batch)
}

// Submit queues the batch for a worker.
func (s *Store) Submit(b *backends.Batch) {
	p := &pending{batch: b, deadline: b.Deadline}
	if p.deadline.IsZero() {
		p.deadline = time.Now().Add(s.opts.Timeout)
	}
	if len(b.Calls) == 0 {
		b.Done(b)
		return
	}
	left := time.Until(p.deadline)
	if left <= 0 {
		p.fail(backends.ErrTimeout)
		return
	}
	if s.breaker.open.Load() {
		s.observe("breaker")
		p.fail(errBroken)
		return
	}
	p.units = s.units(b.Calls)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		p.fail(backends.ErrClosed)
		return
	}
	p.timer = time.AfterFunc(left, func() {
		if p.claim() {
			s.observe("timeout")
			p.fail(backends.ErrTimeout)
		}
	})
	select {
	case s.queue <- p:
	default:
		if p.claim() {
			p.timer.Stop()
			s.observe("overloaded")
			p.fail(backends.ErrOverloaded)
		}
	}
}

func (s *Store) observe(class string) {
	if s.opts.Observer != nil {
		s.opts.Observer.StoreError(class)
	}
}

// serve sends the batches that are still waited for, and answers them.
func (s *Store) serve(list []*pending) {
	var latest time.Time
	var send []*unit
	for _, p := range list {
		if p.claimed.Load() {
			continue // its deadline passed in the queue: never sent
		}
		if p.deadline.After(latest) {
			latest = p.deadline
		}
		for i := range p.units {
			send = append(send, &p.units[i])
		}
	}
	if len(send) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), latest)
	defer cancel()
	s.exchange(ctx, send)
	for _, p := range list {
		if p.claim() {
			p.timer.Stop()
			p.settle()
		}
	}
}

// settle copies the answers into the batch.
func (p *pending) settle() {
	for i := range p.units {
		u := &p.units[i]
		call := &p.batch.Calls[u.call]
		if u.err != nil {
			call.Err = u.err
			continue
		}
		for j := range u.items {
			from := j
			if u.items[j].same >= 0 {
				from = u.items[j].same
			}
			call.Items[u.items[j].index].Decision = u.items[from].decision
		}
	}
	p.batch.Done(p.batch)
}

// Reset forgets the states of the keys; of fixed windows the current one.
func (s *Store) Reset(ctx context.Context, items []backends.Item) error {
	if len(items) == 0 {
		return nil
	}
	pipe := s.client.Pipeline()
	now := s.clock.nowUS()
	for i := range items {
		key, spec := items[i].Key, items[i].Spec
		if spec.Kind != algorithm.FixedWindow {
			pipe.Unlink(ctx, key)
			continue
		}
		number := now / spec.WindowUS
		for n := number - 1; n <= number+1; n++ {
			pipe.Unlink(ctx, windowKey(key, n))
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("%w: %s", backends.ErrUnavailable, Class(err))
	}
	return nil
}

// Ping asks the server for a sign of life.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("%w: %s", backends.ErrUnavailable, Class(err))
	}
	return nil
}

// Close finishes what was queued, within the context, and closes connections.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.queue)
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.crew.end()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	err := s.client.Close() // ends what is still on the wire
	<-ended
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// serverClock is a running estimate of the server's time: this process's clock
// and the difference that the last reply showed.
type serverClock struct {
	given  func() int64
	offset atomic.Int64
}

func (c *serverClock) nowUS() int64 {
	if c.given != nil {
		return c.given()
	}
	return time.Now().UnixMicro() + c.offset.Load()
}

func (c *serverClock) learn(serverUS int64) {
	c.offset.Store(serverUS - time.Now().UnixMicro())
}
