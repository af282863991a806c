package memory

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
)

// Defaults of Options.
const (
	DefaultMaxKeys    = 1_000_000
	DefaultSweepEvery = 50 * time.Millisecond
)

const (
	shardCount    = 256
	overflowCells = 4096 / shardCount // per rule, shard and form: 4,096 in all
	lookAtOnce    = 4                 // states looked at for expiry with each new key
)

// Options of a Store; the zero value is useful.
type Options struct {
	// MaxKeys bounds the states held; 0 is DefaultMaxKeys. It is divided over
	// shards, so a little less may be reached.
	MaxKeys int
	// MaxKeysPerRule bounds the states of one rule; 0 is half of MaxKeys.
	MaxKeysPerRule int
	// SweepEvery is the pause between two shards of the sweeper; 0 is
	// DefaultSweepEvery, negative switches the sweeper off.
	SweepEvery time.Duration
	// NowUS is the clock in µs since the epoch; nil is the system's.
	NowUS func() int64
	// OnOverflow is told the rule when its keys begin to share cells in a shard;
	// it must not block. nil tells nobody.
	OnOverflow func(rule string)
}

// Store keeps states in memory. It implements backends.Store and is safe for
// concurrent use.
type Store struct {
	opts   Options
	seed   maphash.Seed
	shards [shardCount]shard

	closed  atomic.Bool
	stop    chan struct{}
	sweeper sync.WaitGroup
}

var (
	_ backends.Store  = (*Store)(nil)
	_ backends.Pinger = (*Store)(nil)
)

// New makes an empty store and starts its sweeper; Close ends it.
func New(opts Options) *Store {
	if opts.MaxKeys <= 0 {
		opts.MaxKeys = DefaultMaxKeys
	}
	if opts.MaxKeysPerRule <= 0 {
		opts.MaxKeysPerRule = (opts.MaxKeys + 1) / 2
	}
	if opts.SweepEvery == 0 {
		opts.SweepEvery = DefaultSweepEvery
	}
	if opts.NowUS == nil {
		opts.NowUS = func() int64 { return time.Now().UnixMicro() }
	}
	s := &Store{opts: opts, seed: maphash.MakeSeed(), stop: make(chan struct{})}
	for i := range s.shards {
		s.shards[i].init(&s.opts, s.seed)
	}
	if opts.SweepEvery > 0 {
		s.sweeper.Add(1)
		go s.sweep()
	}
	return s
}

// Submit decides the batch at once: memory never waits.
func (s *Store) Submit(b *backends.Batch) {
	closed := s.closed.Load()
	now := s.opts.NowUS()
	for i := range b.Calls {
		call := &b.Calls[i]
		if closed {
			call.Err = backends.ErrClosed
			continue
		}
		if len(call.Items) == 1 {
			s.decideOne(&call.Items[0], now)
		} else {
			s.decideTogether(call.Items, now)
		}
	}
	b.Done(b)
}

func (s *Store) shard(key string) int {
	return int(maphash.String(s.seed, key) % shardCount)
}

func (s *Store) decideOne(item *backends.Item, now int64) {
	sh := &s.shards[s.shard(item.Key)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	item.Decision = sh.apply(item, now)
}

// Reset forgets the states of the keys. Keys that share a cell keep sharing it.
func (s *Store) Reset(_ context.Context, items []backends.Item) error {
	if s.closed.Load() {
		return backends.ErrClosed
	}
	for i := range items {
		sh := &s.shards[s.shard(items[i].Key)]
		sh.mu.Lock()
		sh.drop(items[i].Key)
		sh.mu.Unlock()
	}
	return nil
}

// Ping tells whether the store is open.
func (s *Store) Ping(context.Context) error {
	if s.closed.Load() {
		return backends.ErrClosed
	}
	return nil
}

// Keys is the number of states held, counting those not yet found expired.
func (s *Store) Keys() int {
	n := 0
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		n += len(sh.cells)
		sh.mu.Unlock()
	}
	return n
}

// Close ends the sweeper. Batches submitted later answer ErrClosed.
func (s *Store) Close(context.Context) error {
	if s.closed.CompareAndSwap(false, true) {
		close(s.stop)
		s.sweeper.Wait()
	}
	return nil
}

// sweep drops what has expired, one shard at a time, so that no decision waits
// for more than one shard.
func (s *Store) sweep() {
	defer s.sweeper.Done()
	ticker := time.NewTicker(s.opts.SweepEvery)
	defer ticker.Stop()
	for i := 0; ; i = (i + 1) % shardCount {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			s.shards[i].sweep(s.opts.NowUS())
		}
	}
}

// costs of one call are summed where it names a key twice.
func summed(items []backends.Item, i int) algorithm.Ask {
	ask := items[i].Ask
	for j := range items {
		if j != i && items[j].Key == items[i].Key && items[j].Ask.Mode == ask.Mode {
			ask.Cost = min(ask.Cost+items[j].Ask.Cost, algorithm.MaxCost)
		}
	}
	return ask
}

// first tells whether item i is the first of its key and mode.
func first(items []backends.Item, i int) bool {
	for j := range i {
		if items[j].Key == items[i].Key && items[j].Ask.Mode == items[i].Ask.Mode {
			return false
		}
	}
	return true
}
