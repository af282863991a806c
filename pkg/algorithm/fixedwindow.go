package algorithm

// maxCount is where a fixed window's counter stops: far above every limit, and
// safe to add a cost to.
const maxCount = 1 << 52

// fixedWindow counts hits per window of the epoch: At is the window's number, N
// its hits. docs/ALGORITHMS.md, "Fixed window".
func (s *Spec) fixedWindow(st State, now int64, ask Ask) (State, Decision) {
	at := st.At
	if st.N <= 0 {
		at = 0 // as new, whenever that was: a store may have dropped it
	}
	window, stepped := s.windowOf(at, now)
	before := int64(0)
	if at >= window { // later than ours only when the clock stepped back
		before = min(max(st.N, 0), maxCount)
	}
	count := before

	d := Decision{Allowed: true, ResetAfterUS: (window+1)*s.WindowUS - now}
	switch ask.Mode {
	case Charge:
		count = min(count+ask.Cost, maxCount)
		d.Taken = count - before
	case Refund:
		d.Taken = min(ask.Cost, count)
		count -= d.Taken
	default:
		d.Allowed = count+ask.Cost <= s.Requests
		d.Never = !d.Allowed && ask.Cost > s.Requests
		d.Taken = taken(ask, d.Allowed, s.Requests-count)
		count += d.Taken
		if !d.Allowed && ask.Mode == Spend && s.CountDenied {
			count = min(count+ask.Cost, maxCount)
		}
	}

	d.Used = count
	if d.Allowed {
		d.Remaining = max(0, s.Requests-count)
	} else if !d.Never {
		d.RetryAfterUS = d.ResetAfterUS
	}
	if count != before || stepped && ask.Mode != Look {
		st.At, st.N = window, count
	}
	return st, d
}

func (s *Spec) fixedWindowIdleAt(st *State) int64 {
	if st.N <= 0 {
		return 0
	}
	return (s.boundWindow(st.At) + 1) * s.WindowUS
}

// windowOf is the number of the window to decide in, given the number stored in
// the state. That may be ahead: within SkewUS the caller's time is late, and
// the stored window is the one to decide in; further ahead the clock has
// stepped back, and what the state holds belongs to the current window.
func (s *Spec) windowOf(stored, now int64) (window int64, stepped bool) {
	window = now / s.WindowUS
	if stored <= window {
		return window, false
	}
	// SkewUS ≤ WindowUS, so only the very next window can be near enough.
	if stored == window+1 && stored*s.WindowUS-now <= s.SkewUS {
		return stored, false
	}
	return window, true
}

// boundWindow keeps products with a stored window number in range.
func (s *Spec) boundWindow(number int64) int64 {
	return min(max(number, 0), maxTimeUS/s.WindowUS+1)
}
