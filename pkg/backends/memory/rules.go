package memory

import (
	"strings"
	"sync"
	"sync/atomic"
)

// sharedCells is how many cells the overflowing keys of one rule and form share.
const sharedCells = 4096

// tellEveryUS is how often OnOverflow hears of one rule at most.
const tellEveryUS = 60_000_000

// ruleUse counts what one rule holds.
type ruleUse struct {
	name         string
	keys, shared atomic.Int64
	toldUS       atomic.Int64 // when OnOverflow was told last; 0 for never
}

// cellName names a cell that keys share. The limit's form is part of it: states
// of different forms cannot be shared.
type cellName struct {
	rule, form string
	number     uint32
}

// cellName spreads the cells of a rule over the shards, so that a key's cell is
// under the lock of the key.
func (sh *shard) cellName(q *question) cellName {
	perShard := max(1, sharedCells/len(sh.store.shards))
	number := uint32(q.hash>>32) % uint32(perShard)
	return cellName{rule: q.item.Rule, form: q.item.Spec.KeySuffix(), number: number}
}

// rules knows the rules that hold anything. Its lock is taken only for new keys.
type rules struct {
	mu     sync.RWMutex
	byName map[string]*ruleUse
}

func (r *rules) use(name string) *ruleUse {
	r.mu.RLock()
	use := r.byName[name]
	r.mu.RUnlock()
	if use != nil {
		return use
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if use = r.byName[name]; use == nil {
		use = &ruleUse{name: strings.Clone(name)}
		r.byName[use.name] = use
	}
	return use
}

// forget drops the rules that hold nothing. A key that is just being added may
// keep counting for a forgotten one: its rule may then hold that one more.
func (r *rules) forget(now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, use := range r.byName {
		if use.keys.Load() == 0 && use.shared.Load() == 0 && !use.toldLately(now) {
			delete(r.byName, name)
		}
	}
}

func (r *rules) shared() (n int64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, use := range r.byName {
		n += use.shared.Load()
	}
	return n
}

// tell tells of a rule whose keys begin to share cells. No lock is held here.
func (s *Store) tell(rule *ruleUse, now int64) {
	if rule == nil || s.opts.OnOverflow == nil {
		return
	}
	if told := rule.toldUS.Load(); !rule.toldLately(now) && rule.toldUS.CompareAndSwap(told, now) {
		s.opts.OnOverflow(rule.name)
	}
}

func (u *ruleUse) toldLately(now int64) bool {
	told := u.toldUS.Load()
	return told != 0 && told <= now && now-told < tellEveryUS
}
