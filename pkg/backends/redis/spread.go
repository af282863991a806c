package redis

import (
	"strings"

	"github.com/weirhq/weir/pkg/algorithm"
)

// spread is what the members of a call know of each other where its keys lie in
// several slots of a cluster. No script can decide them together, so each is
// reserved by its own script, and where one refuses the others are refunded:
// nobody is admitted too many, and only while a doomed reservation is held can
// another call be refused that would have fitted.
type spread struct {
	refunding bool
	windows   map[int]int64 // by item: the fixed window that was spent in
	call      *spreadCall
}

// spreadCall is the identity of a call that is spread over slots.
type spreadCall struct{ members int }

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
			whole.members++
			out = append(out, unit{call: u.call, jitter: u.jitter, spread: &spread{windows: map[int]int64{}, call: whole}})
		}
		out[at].items = append(out[at].items, it)
	}
	for i := range out {
		out[i].sum()
	}
	return out
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
