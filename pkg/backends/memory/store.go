package memory

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirhq/weir/pkg/backends"
)

// Store keeps states in memory. It implements backends.Store and is safe for
// concurrent use.
type Store struct {
	opts   Options
	seed   maphash.Seed // chosen at random: nobody can aim at a shard or a cell
	shards []shard
	rules  rules

	keys    atomic.Int64
	expired atomic.Uint64

	closed  atomic.Bool
	stop    chan struct{}
	sweeper sync.WaitGroup
}

var (
	_ backends.Store      = (*Store)(nil)
	_ backends.Pinger     = (*Store)(nil)
	_ backends.Scanner    = (*Store)(nil)
	_ backends.KeyCounter = (*Store)(nil)
)

// New makes an empty store and starts its sweeper; Close ends it.
func New(opts Options) *Store {
	opts.fill()
	s := &Store{
		opts:   opts,
		seed:   maphash.MakeSeed(),
		shards: make([]shard, opts.Shards),
		rules:  rules{byName: map[string]*ruleUse{}},
		stop:   make(chan struct{}),
	}
	for i := range s.shards {
		s.shards[i].store = s
		s.shards[i].cells = map[string]*cell{}
	}
	if opts.SweepEvery > 0 {
		s.sweeper.Go(s.sweep)
	}
	return s
}

// Submit decides the batch before it returns: memory never waits. All of it is
// decided at one instant.
func (s *Store) Submit(b *backends.Batch) {
	closed := s.closed.Load()
	now := s.opts.NowUS()
	for i := range b.Calls {
		call := &b.Calls[i]
		switch {
		case closed:
			call.Err = backends.ErrClosed
		case len(call.Items) == 1:
			s.decideOne(&call.Items[0], now)
		default:
			s.decideTogether(call.Items, now)
		}
	}
	b.Done(b)
}

func (s *Store) decideOne(item *backends.Item, now int64) {
	q := question{item: item, ask: item.Ask, hash: s.hash(item.Key)}
	item.Decision = s.shard(q.hash).locked(&q, now)
	s.tell(q.overflowed, now)
}

func (s *Store) hash(key string) uint64 { return maphash.String(s.seed, key) }

func (s *Store) shardNumber(hash uint64) int { return int(hash & uint64(len(s.shards)-1)) }

func (s *Store) shard(hash uint64) *shard { return &s.shards[s.shardNumber(hash)] }

// Reset forgets the states of the keys. Keys that share a cell keep sharing it:
// to forget it would give its other keys a fresh allowance.
func (s *Store) Reset(_ context.Context, items []backends.Item) error {
	if s.closed.Load() {
		return backends.ErrClosed
	}
	for i := range items {
		s.shard(s.hash(items[i].Key)).reset(items[i].Key)
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

// Scan visits the keys that begin with prefix and have a state of their own, in
// no order, until visit returns false. It may visit keys whose state has
// expired. No lock is held while visit runs.
func (s *Store) Scan(ctx context.Context, prefix string, visit func(key string) bool) error {
	var found []string
	for i := range s.shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		found = s.shards[i].withPrefix(found[:0], prefix)
		for _, key := range found {
			if !visit(key) {
				return nil
			}
		}
	}
	return nil
}

// CountKeys is Stats().Keys.
func (s *Store) CountKeys(context.Context) (int64, error) { return s.keys.Load(), nil }

// Stats is what the store holds and has dropped.
type Stats struct {
	Keys    int64  // keys with a state of their own, including those not yet found expired
	Shared  int64  // cells shared by keys that found no room
	Expired uint64 // states dropped since the start because they were as new
}

// Stats may be asked at any time; it waits for no shard.
func (s *Store) Stats() Stats {
	return Stats{Keys: s.keys.Load(), Shared: s.rules.shared(), Expired: s.expired.Load()}
}

// Close ends the sweeper. Batches submitted later answer ErrClosed.
func (s *Store) Close(context.Context) error {
	if s.closed.CompareAndSwap(false, true) {
		close(s.stop)
		s.sweeper.Wait()
	}
	return nil
}

func (sh *shard) reset(key string) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if c := sh.cells[key]; c != nil {
		sh.remove(key, c)
	}
}

func (sh *shard) withPrefix(found []string, prefix string) []string {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for key := range sh.cells {
		if strings.HasPrefix(key, prefix) {
			found = append(found, key)
		}
	}
	return found
}
