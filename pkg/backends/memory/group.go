package memory

import (
	"slices"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
)

// decideTogether decides a call of several items in two passes under the locks
// of all their shards: first every verdict, then the states of those members
// that are to be taken. See backends.Call for who holds whom back.
func (s *Store) decideTogether(items []backends.Item, now int64) {
	unlock := s.lockAll(items)
	defer unlock()

	refused := s.verdicts(items, now)
	held := false // an enforcing member refuses
	for i := range items {
		held = held || refused[items[i].Member] && !items[i].Advisory
	}
	for i := range items {
		item := &items[i]
		if !first(items, i) {
			item.Decision = items[slices.IndexFunc(items, func(o backends.Item) bool {
				return o.Key == item.Key && o.Ask.Mode == item.Ask.Mode
			})].Decision
			continue
		}
		asked := item.Ask
		item.Ask = summed(items, i)
		s.settle(item, refused[item.Member], held, now)
		item.Ask = asked
	}
}

// verdicts tells by member whether one of its items refuses.
func (s *Store) verdicts(items []backends.Item, now int64) []bool {
	members := 0
	for i := range items {
		members = max(members, items[i].Member+1)
	}
	refused := make([]bool, members)
	for i := range items {
		probe := items[i]
		probe.Ask = summed(items, i)
		items[i].Decision = s.shards[s.shard(probe.Key)].decide(&probe, now)
		if !items[i].Decision.Allowed {
			refused[items[i].Member] = true
		}
	}
	return refused
}

// settle writes what is taken; a refusing item keeps its answer, and an item
// that another one holds back answers as a look.
func (s *Store) settle(item *backends.Item, memberRefused, held bool, now int64) {
	sh := &s.shards[s.shard(item.Key)]
	always := item.Ask.Mode == algorithm.Refund || item.Ask.Mode == algorithm.Charge || item.Spec.PostPaid
	taken := always || !memberRefused && (item.Advisory || !held)
	switch {
	case taken:
		item.Decision = sh.apply(item, now)
	case !item.Decision.Allowed:
		// the verdict stands and nothing of it is counted, not even by a fixed
		// window with CountDenied: together or not at all
	default:
		look := *item
		look.Ask.Mode, look.Ask.Cost = algorithm.Look, 0
		item.Decision = sh.decide(&look, now)
	}
}

// lockAll locks the shards of all items in ascending order, so that two calls
// never wait for each other.
func (s *Store) lockAll(items []backends.Item) (unlock func()) {
	numbers := make([]int, len(items))
	for i := range items {
		numbers[i] = s.shard(items[i].Key)
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	for _, n := range numbers {
		s.shards[n].mu.Lock()
	}
	return func() {
		for _, n := range numbers {
			s.shards[n].mu.Unlock()
		}
	}
}
