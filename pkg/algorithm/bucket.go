package algorithm

import "math"

// bucket is the token bucket and the leaky bucket in the level form: a hit adds
// PerHit units, PerMicro units drain each microsecond, and what does not fit
// under Capacity is refused. N is the level at the time At, Prev the PerHit it
// was written with. docs/ALGORITHMS.md, "Token bucket and leaky bucket".
//
// No sum may pass 2^53, hence the differences: level ≤ DebtCap, and a cost is
// multiplied only after it was found to be at most Burst (or what is held).
func (s *Spec) bucket(st State, now int64, ask Ask) (State, Decision) {
	before, at, stepped := s.readBucket(st, now)
	level := before

	d := Decision{Allowed: true}
	switch ask.Mode {
	case Charge:
		if room := (s.DebtCap - level) / s.PerHit; ask.Cost <= room {
			d.Taken = ask.Cost
			level += ask.Cost * s.PerHit
		} else {
			d.Taken = room
			level = s.DebtCap
		}
	case Refund:
		d.Taken = min(ask.Cost, ceilDiv(level, s.PerHit))
		level = max(0, level-d.Taken*s.PerHit)
	default:
		if ask.Cost > s.Burst {
			d.Allowed, d.Never = false, true
		} else {
			d.Allowed = level <= s.Capacity-ask.Cost*s.PerHit
		}
		d.Taken = taken(ask, d.Allowed, s.bucketRoom(level))
		level += d.Taken * s.PerHit
	}

	late := at - now // above 0 only when the caller's time is behind the state
	if !d.Allowed && !d.Never {
		over := level - (s.Capacity - ask.Cost*s.PerHit)
		d.RetryAfterUS = ceilDiv(over, s.PerMicro) + late
	}
	if level > 0 {
		d.ResetAfterUS = ceilDiv(level, s.PerMicro) + late
	}
	d.Remaining = s.bucketRoom(level)
	d.Used = ceilDiv(level, s.PerHit)
	if level != before || stepped && ask.Mode != Look {
		st.At, st.N, st.Prev = at, level, s.PerHit
	}
	return st, d
}

// readBucket is the level at the time at, which is now unless the caller's time
// is a little behind the state. A state further ahead than SkewUS was written
// before the clock stepped back: it keeps its level and drains from now on.
func (s *Spec) readBucket(st State, now int64) (level, at int64, stepped bool) {
	level, at = s.rescale(st.N, st.Prev), max(st.At, 0)
	if level == 0 {
		return 0, now, false // as new, whenever that was: a store may have dropped it
	}
	if at >= now {
		if at-now > s.SkewUS {
			return level, now, true
		}
		return level, at, false
	}
	// Compared before multiplied: an elapsed time can be anything.
	if now-at >= ceilDiv(level, s.PerMicro) {
		return 0, now, false
	}
	return level - (now-at)*s.PerMicro, now, false
}

// rescale brings a stored level to this limit's units, so that a change of
// numbers keeps the hits that were used, and under DebtCap. That must happen
// before draining: a refusal does not write, so a cap on the drained level
// would hold it there until the whole stored level had drained.
//
// The quotient is taken in doubles, as the script does; where the level is a
// whole number of hits the result is exact.
func (s *Spec) rescale(level, perHit int64) int64 {
	if level <= 0 {
		return 0
	}
	if perHit != s.PerHit && perHit > 0 {
		hits := float64(level) / float64(perHit)
		scaled := math.Ceil(float64(hits * float64(s.PerHit)))
		if scaled >= float64(s.DebtCap) {
			return s.DebtCap
		}
		level = int64(scaled)
	}
	return min(level, s.DebtCap)
}

// bucketRoom is the number of whole hits that fit on top of a level.
func (s *Spec) bucketRoom(level int64) int64 {
	return max(0, s.Capacity-level) / s.PerHit
}

func (s *Spec) bucketIdleAt(st *State) int64 {
	level := s.rescale(st.N, st.Prev)
	if level == 0 {
		return 0
	}
	return clampTime(st.At) + ceilDiv(level, s.PerMicro)
}
