package algorithm

// counter is the sliding window counter: the hits of the current window and
// those of the one before, weighted by the share of it that a window ending now
// still covers. At is the current window's number, N its hits, Prev those of
// the one before. docs/ALGORITHMS.md, "Sliding window counter".
//
// The estimate is prev·(T−e)/T + cur. It is compared multiplied by T, the
// window in ticks; e is the elapsed part in ticks, rounded down, which weighs
// the past as heavier. deriveCounter chose the tick so that weigh() fits.
func (s *Spec) counter(st State, now int64, ask Ask) (State, Decision) {
	c, stepped := s.readCounter(st, now)
	before := c.cur

	d := Decision{Allowed: true}
	switch ask.Mode {
	case Charge:
		d.Taken = min(ask.Cost, s.Requests+s.MaxDebt-c.cur)
		c.cur += d.Taken
	case Refund:
		d.Taken = min(ask.Cost, c.cur)
		c.cur -= d.Taken
	default:
		if ask.Cost > s.Requests {
			d.Allowed, d.Never = false, true
		} else {
			d.Allowed = s.weigh(c) <= (s.Requests-ask.Cost)*s.WindowTicks
		}
		d.Taken = taken(ask, d.Allowed, s.counterRoom(c))
		c.cur += d.Taken
	}

	if !d.Allowed && !d.Never {
		d.RetryAfterUS = s.counterRetry(c, s.Requests-ask.Cost) - now
	}
	if idle := s.counterEnd(c); idle > 0 {
		d.ResetAfterUS = idle - now
	}
	d.Remaining = s.counterRoom(c)
	d.Used = ceilDiv(s.weigh(c), s.WindowTicks)
	if c.cur != before || stepped && ask.Mode != Look {
		st.At, st.N, st.Prev = c.window, c.cur, c.prev
	}
	return st, d
}

// counts is a counter's state seen from an instant.
type counts struct {
	window    int64 // number of the current window
	ticks     int64 // elapsed part of it, rounded down
	cur, prev int64
}

func (s *Spec) readCounter(st State, now int64) (c counts, stepped bool) {
	if s.boundHits(st.N) == 0 && s.boundHits(st.Prev) == 0 {
		st.At = 0 // as new, whenever that was: a store may have dropped it
	}
	c.window, stepped = s.windowOf(st.At, now)
	// A window that has not begun for this caller is taken at its first instant.
	c.ticks = max(0, now-c.window*s.WindowUS) / s.TickUS
	switch {
	case st.At >= c.window: // later than ours only when the clock stepped back
		c.cur, c.prev = s.boundHits(st.N), s.boundHits(st.Prev)
	case st.At == c.window-1:
		c.prev = s.boundHits(st.N)
	}
	return c, stepped
}

// boundHits keeps the products in range after the limit was lowered, and what
// was used from counting for longer than a fresh overdraft would.
func (s *Spec) boundHits(n int64) int64 {
	return min(max(n, 0), s.Requests+s.MaxDebt)
}

// weigh is the estimate times WindowTicks: at most 2·(limit+debt)·WindowTicks.
func (s *Spec) weigh(c counts) int64 {
	return c.prev*(s.WindowTicks-c.ticks) + c.cur*s.WindowTicks
}

func (s *Spec) counterRoom(c counts) int64 {
	return max(0, s.Requests*s.WindowTicks-s.weigh(c)) / s.WindowTicks
}

// counterRetry is the first instant at which the estimate is at most room
// (≥ 0) if nobody comes; at c's instant it is above.
func (s *Spec) counterRetry(c counts, room int64) int64 {
	begin := c.window * s.WindowUS
	if c.cur <= room { // the previous window is in the way, so it has hits
		return begin + s.fadeUS(c.prev, room-c.cur)
	}
	// Not even without it: the current window must become the previous one.
	return begin + s.WindowUS + s.fadeUS(c.cur, room)
}

// fadeUS is how long after the beginning of a window the weight of the previous
// one's hits is at most room: the least e with hits·(T−e) ≤ room·T. Where not
// even the last tick is enough, the end of the window is.
func (s *Spec) fadeUS(hits, room int64) int64 {
	if room >= hits {
		return 0
	}
	ticks := s.WindowTicks - room*s.WindowTicks/hits
	return min(ticks*s.TickUS, s.WindowUS)
}

// counterEnd is when nothing of the counts is left; 0 if nothing is there.
func (s *Spec) counterEnd(c counts) int64 {
	switch {
	case c.cur > 0:
		return (c.window + 2) * s.WindowUS
	case c.prev > 0:
		return (c.window + 1) * s.WindowUS
	default:
		return 0
	}
}

func (s *Spec) counterIdleAt(st *State) int64 {
	return s.counterEnd(counts{window: s.boundWindow(st.At), cur: s.boundHits(st.N), prev: s.boundHits(st.Prev)})
}
