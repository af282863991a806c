package redis

import (
	"strings"
	"sync"

	"github.com/weirhq/weir/pkg/algorithm"
)

// spread is what the members of a call know of each other where its keys lie in
// several slots of a cluster. No script can decide them together, so each is
// reserved by its own script, and where one refuses the others are refunded:
// nobody is admitted too many, and only while a doomed reservation is held can
// another call be refused that would have fitted. To hold few of them, a member
// that refused lately is asked first, and the others only look if it refuses.
type spread struct {
	refunding bool
	windows   map[int]int64 // by item: the fixed window that was spent in
	call      *spreadCall
}

// spreadCall is what the members of one call share.
type spreadCall struct {
	first *unit // the member that is asked before the others, if one is
}

// split makes one unit for each member of a call.
func split(u unit) []unit {
	byMember := map[int]int{}
	whole := &spreadCall{}
	var out []unit
	for _, it := range u.items {
		at, ok := byMember[it.member]
		if !ok {
			at = len(out)
			byMember[it.member] = at
			out = append(out, unit{call: u.call, jitter: u.jitter, spread: &spread{windows: map[int]int64{}, call: whole}})
		}
		out[at].items = append(out[at].items, it)
	}
	for i := range out {
		out[i].sum()
	}
	return out
}

// likelyRefusers takes the members that wait for another one of their call out
// of the units.
func (s *Store) likelyRefusers(units []*unit) (first, later []*unit) {
	for _, u := range units {
		if u.spread != nil && u.spread.call.first == nil && u.spends() && s.refusers.has(u.items[0].key) {
			u.spread.call.first = u
		}
	}
	for _, u := range units {
		if u.spread != nil && u.spread.call.first != nil && u.spread.call.first != u {
			later = append(later, u)
		} else {
			first = append(first, u)
		}
	}
	return first, later
}

// spare makes spends of members whose call is refused already into looks.
func spare(later []*unit) {
	for _, u := range later {
		if !u.spends() || !anyRefuses([]*unit{u.spread.call.first}) {
			continue
		}
		for j := range u.items {
			u.items[j].mode, u.items[j].cost = algorithm.Look, 0
		}
	}
}

// spends tells enforcing members that only spend: those that wait for others
// and that others wait for.
func (u *unit) spends() bool {
	for j := range u.items {
		if u.items[j].advisory || u.items[j].mode != algorithm.Spend {
			return false
		}
	}
	return true
}

// remember notes which members of spread calls refused.
func (s *Store) remember(units []*unit) {
	for _, u := range units {
		if u.spread != nil && u.err == nil && u.spends() {
			s.refusers.note(u.items[0].key, anyRefuses([]*unit{u}))
		}
	}
}

// refusers are keys that refused lately, a bounded number of them.
type refusers struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

const maxRefusers = 10_000

func (r *refusers) has(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.keys[key]
	return ok
}

// note adds a key that refused, and takes one out that admitted.
func (r *refusers) note(key string, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !refused {
		delete(r.keys, key)
		return
	}
	if r.keys == nil {
		r.keys = map[string]struct{}{}
	}
	for old := range r.keys { // any of them: a wrong guess only costs a round trip
		if len(r.keys) < maxRefusers {
			break
		}
		delete(r.keys, old)
	}
	r.keys[key] = struct{}{}
}

// refunds gives the members that were taken although another one of their call
// refuses or failed.
func (s *Store) refunds(units []*unit) []attempt {
	byCall := map[*spreadCall][]*unit{}
	for _, u := range units {
		if u.spread != nil {
			byCall[u.spread.call] = append(byCall[u.spread.call], u)
		}
	}
	var out []attempt
	for _, members := range byCall {
		if !anyRefuses(members) {
			continue
		}
		for _, u := range members {
			if !u.refundable() {
				continue
			}
			u.spread.refunding = true
			for j := range u.items {
				it := &u.items[j]
				u.spread.windows[it.index] = u.sentWindow[min(j, len(u.sentWindow)-1)]
				it.mode, it.cost = algorithm.Refund, it.decision.Taken
			}
			out = append(out, attempt{unit: u})
		}
	}
	return out
}

func anyRefuses(members []*unit) bool {
	for _, u := range members {
		if u.err != nil {
			return true
		}
		for j := range u.items {
			if !u.items[j].advisory && !u.items[j].decision.Allowed {
				return true
			}
		}
	}
	return false
}

// refundable tells members whose spend holds only if the others pass.
func (u *unit) refundable() bool {
	if u.err != nil {
		return false
	}
	for j := range u.items {
		it := &u.items[j]
		if it.advisory || it.mode != algorithm.Spend || !it.decision.Allowed {
			return false
		}
	}
	return true
}

// settleRefunds makes a spared member answer as a look. A refund that failed
// does not matter to the caller: what was reserved comes back with time.
func settleRefunds(refunds []attempt) {
	for _, a := range refunds {
		a.unit.err = nil
		for j := range a.unit.items {
			a.unit.items[j].decision.Taken = 0
			a.unit.items[j].decision.Allowed = true
		}
	}
}

// oneSlot tells whether all keys carry the same hash tag.
func oneSlot(items []item) bool {
	for i := 1; i < len(items); i++ {
		if tag(items[i].key) != tag(items[0].key) {
			return false
		}
	}
	return true
}

// tag is the part of a key that a cluster hashes.
func tag(key string) string {
	open := strings.IndexByte(key, '{')
	if open < 0 {
		return key
	}
	end := strings.IndexByte(key[open+1:], '}')
	if end <= 0 {
		return key
	}
	return key[open+1 : open+1+end]
}
