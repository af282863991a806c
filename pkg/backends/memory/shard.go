package memory

import (
	"strings"
	"sync"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
)

const (
	lookAtNew  = 4  // states looked at for expiry with each new key: more than come
	lookAtFull = 64 // and where there is no room for it

	// graceUS is how long a state is kept after it has become as new: a caller
	// whose time was read a little earlier must still find it.
	graceUS = algorithm.MaxSkewUS
)

// shard is a part of the keys under one lock.
type shard struct {
	mu     sync.Mutex
	store  *Store
	cells  map[string]*cell
	shared map[cellName]*cell // nil until keys overflow

	earliestUS int64 // no state in cells is as new before; may be too early
	most       int   // most cells since the map was made

	_ [64]byte // locks of two shards are not on one cache line
}

// cell is one state. It is 48 bytes, a size that the allocator has.
type cell struct {
	state  algorithm.State
	idleUS int64 // from then on it equals an unused one
	rule   *ruleUse
}

// question is an item as it is decided.
type question struct {
	item *backends.Item
	ask  algorithm.Ask
	hash uint64 // of the key
	// overflowed is set to the rule where its keys begin to share cells.
	overflowed *ruleUse
}

func (sh *shard) locked(q *question, now int64) algorithm.Decision {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.apply(q, now)
}

// apply decides and writes. A key without a state gets one only if the decision
// leaves something to remember.
func (sh *shard) apply(q *question, now int64) algorithm.Decision {
	spec := q.item.Spec
	if c := sh.find(q, now); c != nil {
		d := spec.Apply(&c.state, now, q.ask)
		c.idleUS = spec.IdleAtUS(&c.state)
		sh.earliestUS = min(sh.earliestUS, c.idleUS)
		return d
	}
	var fresh algorithm.State
	d := spec.Apply(&fresh, now, q.ask)
	if idle := spec.IdleAtUS(&fresh); idle > now {
		sh.add(q, &cell{state: fresh, idleUS: idle}, now)
	}
	return d
}

// decide is apply without writing.
func (sh *shard) decide(q *question, ask algorithm.Ask, now int64) algorithm.Decision {
	if c := sh.find(q, now); c != nil {
		return q.item.Spec.Decide(&c.state, now, ask)
	}
	var fresh algorithm.State
	return q.item.Spec.Decide(&fresh, now, ask)
}

// find gives the key's own state or the cell that it shares, if any.
func (sh *shard) find(q *question, now int64) *cell {
	if c := sh.cells[q.item.Key]; c != nil {
		return c
	}
	if len(sh.shared) == 0 {
		return nil
	}
	if c := sh.shared[sh.cellName(q)]; c != nil && !c.expired(now) {
		return c
	}
	return nil
}

// add remembers a new state: under the key's own name if there is room, else in
// the cell that the key shares, which is as new or not there.
func (sh *shard) add(q *question, c *cell, now int64) {
	sh.expire(lookAtNew, now)
	c.rule = sh.store.rules.use(q.item.Rule)
	if sh.room(c.rule, now) {
		if len(sh.cells) == 0 {
			sh.earliestUS = c.idleUS
		}
		sh.earliestUS = min(sh.earliestUS, c.idleUS)
		// The caller's key may be a part of a whole request.
		sh.cells[strings.Clone(q.item.Key)] = c
		sh.most = max(sh.most, len(sh.cells))
		return
	}
	if sh.shared == nil {
		sh.shared = map[cellName]*cell{}
	}
	name := sh.cellName(q)
	if old := sh.shared[name]; old != nil {
		old.rule.shared.Add(-1)
	}
	if c.rule.shared.Add(1) == 1 {
		q.overflowed = c.rule
	}
	sh.shared[name] = c
}

// room takes the place for one more key.
func (sh *shard) room(rule *ruleUse, now int64) bool {
	if sh.store.take(rule) {
		return true
	}
	return sh.expire(lookAtFull, now) > 0 && sh.store.take(rule)
}

// take counts one more key unless that is too many.
func (s *Store) take(rule *ruleUse) bool {
	if rule.keys.Add(1) <= int64(s.opts.MaxKeysPerRule) {
		if s.keys.Add(1) <= int64(s.opts.MaxKeys) {
			return true
		}
		s.keys.Add(-1)
	}
	rule.keys.Add(-1)
	return false
}

func (c *cell) expired(now int64) bool { return c.idleUS+graceUS <= now }

// expire looks at n states, wherever the map's random order begins, and drops
// those that have expired.
func (sh *shard) expire(n int, now int64) (dropped int) {
	if now-graceUS < sh.earliestUS {
		return 0
	}
	for key, c := range sh.cells {
		if c.expired(now) {
			sh.remove(key, c)
			dropped++
		}
		if n--; n == 0 {
			break
		}
	}
	if dropped > 0 {
		sh.store.expired.Add(uint64(dropped))
	}
	return dropped
}

func (sh *shard) remove(key string, c *cell) {
	delete(sh.cells, key)
	c.rule.keys.Add(-1)
	sh.store.keys.Add(-1)
}
