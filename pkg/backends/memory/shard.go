package memory

import (
	"hash/maphash"
	"strconv"
	"strings"
	"sync"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
)

// shard is a part of the keys under one lock.
type shard struct {
	mu    sync.Mutex
	cells map[string]*cell
	rules map[string]*ruleUse

	seed       maphash.Seed
	most, each int // keys of the shard, and of one rule in it
	onOverflow func(string)
}

// cell is one state; what it needs to be dropped stands beside it.
type cell struct {
	state  algorithm.State
	idleUS int64 // from then on it equals an unused one
	rule   *ruleUse
	shared bool // shared by keys that found no room
}

// ruleUse counts what one rule holds in a shard.
type ruleUse struct {
	keys, shared int
}

func (sh *shard) init(opts *Options, seed maphash.Seed) {
	sh.cells = map[string]*cell{}
	sh.rules = map[string]*ruleUse{}
	sh.seed = seed
	sh.most = max(1, opts.MaxKeys/shardCount)
	sh.each = max(1, opts.MaxKeysPerRule/shardCount)
	sh.onOverflow = opts.OnOverflow
}

// apply decides one item. A key without a state gets one only if the decision
// leaves something to remember.
func (sh *shard) apply(item *backends.Item, now int64) algorithm.Decision {
	c := sh.find(item, now)
	if c != nil {
		d := item.Spec.Apply(&c.state, now, item.Ask)
		c.idleUS = item.Spec.IdleAtUS(&c.state)
		return d
	}
	var fresh algorithm.State
	d := item.Spec.Apply(&fresh, now, item.Ask)
	if idle := item.Spec.IdleAtUS(&fresh); idle > now {
		sh.add(item, fresh, idle, now)
	}
	return d
}

// decide is apply without writing.
func (sh *shard) decide(item *backends.Item, now int64) algorithm.Decision {
	if c := sh.find(item, now); c != nil {
		return item.Spec.Decide(&c.state, now, item.Ask)
	}
	var fresh algorithm.State
	return item.Spec.Decide(&fresh, now, item.Ask)
}

// find gives the key's own state or the cell that it shares.
func (sh *shard) find(item *backends.Item, now int64) *cell {
	if c := sh.cells[item.Key]; c != nil {
		return c
	}
	use := sh.rules[item.Rule]
	if use == nil || use.shared == 0 {
		return nil
	}
	c := sh.cells[sh.sharedKey(item)]
	if c == nil || c.idleUS <= now {
		return nil
	}
	return c
}

// add remembers a new state: under the key's own name while there is room, else
// in the cell that the key shares.
func (sh *shard) add(item *backends.Item, state algorithm.State, idleUS, now int64) {
	sh.expire(lookAtOnce, now)
	use := sh.rules[item.Rule]
	if use == nil {
		use = &ruleUse{}
		sh.rules[strings.Clone(item.Rule)] = use
	}
	c := &cell{state: state, idleUS: idleUS, rule: use}
	if len(sh.cells) >= sh.most || use.keys >= sh.each {
		sh.expire(len(sh.cells), now)
	}
	if len(sh.cells) < sh.most && use.keys < sh.each {
		use.keys++
		sh.cells[strings.Clone(item.Key)] = c
		return
	}
	if use.shared == 0 && sh.onOverflow != nil {
		sh.onOverflow(item.Rule)
	}
	key := sh.sharedKey(item)
	if sh.cells[key] == nil {
		use.shared++
	}
	c.shared = true
	sh.cells[key] = c
}

// sharedKey names the cell for keys of the rule that find no room. The limit's
// form is part of it: states of different forms cannot be shared.
func (sh *shard) sharedKey(item *backends.Item) string {
	n := maphash.String(sh.seed, item.Key) / shardCount % overflowCells
	return "\x00" + item.Rule + "\x00" + item.Spec.KeySuffix() + "\x00" + strconv.FormatUint(n, 10)
}

// expire looks at up to n states, in the map's random order, and drops those
// that are as new.
func (sh *shard) expire(n int, now int64) {
	for key, c := range sh.cells {
		if n--; n < 0 {
			return
		}
		if c.idleUS <= now {
			sh.remove(key, c)
		}
	}
}

func (sh *shard) drop(key string) {
	if c := sh.cells[key]; c != nil {
		sh.remove(key, c)
	}
}

func (sh *shard) remove(key string, c *cell) {
	delete(sh.cells, key)
	if c.shared {
		c.rule.shared--
	} else {
		c.rule.keys--
	}
}

// sweep drops everything that is as new, and rules that hold nothing.
func (sh *shard) sweep(now int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.expire(len(sh.cells), now)
	for name, use := range sh.rules {
		if use.keys == 0 && use.shared == 0 {
			delete(sh.rules, name)
		}
	}
}
