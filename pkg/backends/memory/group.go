package memory

import (
	"slices"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
)

// few items are decided together without memory from the heap.
const few = 8

// part is what an item is in a call of several.
type part struct {
	question
	first int // index of the first item of the same key and mode, which has the costs of all
}

// decideTogether decides a call of several items under the locks of all their
// shards: first every verdict, then the states of those members that are to be
// taken. See backends.Call for who holds whom back.
func (s *Store) decideTogether(items []backends.Item, now int64) {
	var onStack [few]part
	parts := onStack[:0]
	for i := range items {
		parts = append(parts, part{question: question{item: &items[i], ask: effective(&items[i]), hash: s.hash(items[i].Key)}, first: i})
	}
	sum(parts)
	s.decideParts(parts, now)
	for i := range parts {
		p := &parts[i]
		p.item.Decision = parts[p.first].item.Decision
		s.tell(p.overflowed, now)
	}
}

func (s *Store) decideParts(parts []part, now int64) {
	var onStack [few]int
	numbers := s.lock(onStack[:0], parts)
	defer s.unlock(numbers)

	var flags [few]bool
	refused, held := s.verdicts(flags[:0], parts, now)
	for i := range parts {
		p := &parts[i]
		if p.first == i {
			s.settle(p, refused[p.item.Member], held, now)
		}
	}
}

// effective is the ask's mode as the algorithms take it: a spend of nothing is a
// look, one of a post-paid limit a charge.
func effective(item *backends.Item) algorithm.Ask {
	ask := item.Ask
	if ask.Mode == algorithm.Spend || ask.Mode == algorithm.TakeUpTo {
		switch {
		case ask.Cost <= 0:
			ask.Mode = algorithm.Look
		case item.Spec.PostPaid:
			ask.Mode = algorithm.Charge
		}
	}
	return ask
}

// sum gives the first of the items that name the same key and mode the costs of
// all: each on its own would be decided from the same state.
func sum(parts []part) {
	for i := range parts {
		p := &parts[i]
		for j := range i {
			o := &parts[j]
			if o.first == j && o.hash == p.hash && o.ask.Mode == p.ask.Mode && o.item.Key == p.item.Key {
				p.first = j
				o.ask.Cost = min(o.ask.Cost+p.ask.Cost, algorithm.MaxCost)
				break
			}
		}
	}
}

// verdicts decides without writing. refused tells by member whether one of its
// items refuses, held whether an enforcing one does.
func (s *Store) verdicts(refused []bool, parts []part, now int64) (byMember []bool, held bool) {
	for i := range parts {
		p := &parts[i]
		if p.first == i {
			p.item.Decision = s.shard(p.hash).decide(&p.question, p.ask, now)
		}
		for len(refused) <= p.item.Member {
			refused = append(refused, false)
		}
		if !parts[p.first].item.Decision.Allowed {
			refused[p.item.Member] = true
			held = held || !p.item.Advisory
		}
	}
	return refused, held
}

// settle writes what is to be taken. A refusing item keeps its answer, and
// nothing of it is counted, not even by a fixed window with CountDenied:
// together or not at all. An item that another one holds back answers as a look.
func (s *Store) settle(p *part, memberRefused, held bool, now int64) {
	sh := s.shard(p.hash)
	always := p.ask.Mode == algorithm.Refund || p.ask.Mode == algorithm.Charge
	switch {
	case always, !memberRefused && (p.item.Advisory || !held):
		p.item.Decision = sh.apply(&p.question, now)
	case p.item.Decision.Allowed:
		look := algorithm.Ask{Mode: algorithm.Look, Lease: p.ask.Lease}
		p.item.Decision = sh.decide(&p.question, look, now)
	}
}

// lock locks the shards of all parts in ascending order and gives their numbers.
func (s *Store) lock(numbers []int, parts []part) []int {
	for i := range parts {
		numbers = append(numbers, s.shardNumber(parts[i].hash))
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	for _, n := range numbers {
		s.shards[n].mu.Lock()
	}
	return numbers
}

func (s *Store) unlock(numbers []int) {
	for _, n := range numbers {
		s.shards[n].mu.Unlock()
	}
}
