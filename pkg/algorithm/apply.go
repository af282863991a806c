package algorithm

// maxTimeUS bounds the times that are computed with (the year 2112), so that a
// time plus the longest reset stays below 2^53.
const maxTimeUS = 1 << 52

// Decide answers an ask at nowUS (µs since the epoch) without changing the
// state. It is a pure function: Apply on the same state gives the same answer.
func (s *Spec) Decide(st *State, nowUS int64, ask Ask) Decision {
	now, ask := clampTime(nowUS), s.canonical(ask)
	switch s.Kind {
	case SlidingWindowLog:
		v := s.readLog(st, now)
		return s.decideLog(v, ask)
	case Concurrency:
		v := s.readLeases(st, now, ask.Lease)
		return s.decideLeases(v, ask)
	default:
		_, d := s.decideWords(*st, now, ask)
		return d
	}
}

// Apply answers an ask at nowUS (µs since the epoch) and changes the state in
// place. A refusal changes nothing that a later verdict depends on, with two
// exceptions: fixed windows with CountDenied count the refused cost, and a
// state that a backward step of the clock left in the future is brought back to
// nowUS. A Look never writes.
func (s *Spec) Apply(st *State, nowUS int64, ask Ask) Decision {
	now, ask := clampTime(nowUS), s.canonical(ask)
	switch s.Kind {
	case SlidingWindowLog:
		v := s.readLog(st, now)
		d := s.decideLog(v, ask)
		s.writeLog(st, v, ask.Mode, d.Taken)
		return d
	case Concurrency:
		v := s.readLeases(st, now, ask.Lease)
		d := s.decideLeases(v, ask)
		s.writeLeases(st, v, ask, d)
		return d
	default:
		next, d := s.decideWords(*st, now, ask)
		*st = next
		return d
	}
}

// decideWords serves the algorithms whose state is a few words, by value.
func (s *Spec) decideWords(st State, now int64, ask Ask) (State, Decision) {
	switch s.Kind {
	case SlidingWindowCounter:
		return s.counter(st, now, ask)
	case TokenBucket, LeakyBucket:
		return s.bucket(st, now, ask)
	default:
		return s.fixedWindow(st, now, ask)
	}
}

// IdleAtUS is an instant from which the state equals an unused one, so that a
// store may drop it; 0 for a state that is as new already. It is the earliest
// such instant except for Concurrency, where it is the latest at which a lease
// can end.
func (s *Spec) IdleAtUS(st *State) int64 {
	switch s.Kind {
	case SlidingWindowLog:
		return s.logIdleAt(st)
	case SlidingWindowCounter:
		return s.counterIdleAt(st)
	case TokenBucket, LeakyBucket:
		return s.bucketIdleAt(st)
	case Concurrency:
		return s.leasesIdleAt(st)
	default:
		return s.fixedWindowIdleAt(st)
	}
}

// canonical leaves the algorithms fewer cases: costs are in range, a spend of
// nothing is a look, and a post-paid limit charges what others check.
func (s *Spec) canonical(ask Ask) Ask {
	ask.Cost = min(max(ask.Cost, 0), MaxCost)
	switch ask.Mode {
	case Look, Charge, Refund:
	case Spend, TakeUpTo:
		if ask.Cost == 0 {
			ask.Mode = Look
		} else if s.PostPaid {
			ask.Mode = Charge
		}
	default:
		ask.Mode = Look // an unheard-of mode must not write
	}
	return ask
}

// taken is how many hits a Look, Spend or TakeUpTo takes where room more would
// fit (below 0 where the state is overdrawn).
func taken(ask Ask, allowed bool, room int64) int64 {
	switch {
	case ask.Mode == Look:
		return 0
	case allowed:
		return ask.Cost
	case ask.Mode == TakeUpTo:
		return min(ask.Cost, max(room, 0))
	default:
		return 0
	}
}

func clampTime(us int64) int64 { return min(max(us, 0), maxTimeUS) }

// ceilDiv is ceil(a/b) for 0 ≤ a, 0 < b. In doubles, floor and ceil of a rounded
// quotient equal those of the exact one for all integers below 2^53
// (docs/ALGORITHMS.md, "Arithmetic"), so a script may write math.ceil(a/b).
func ceilDiv(a, b int64) int64 {
	q := a / b
	if q*b < a {
		q++
	}
	return q
}
