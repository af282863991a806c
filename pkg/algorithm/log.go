package algorithm

import "slices"

// maxEntries bounds an exact log that is charged without being asked; spends
// alone never exceed MaxLogExact.
const maxEntries = 2 * MaxLogExact

// entry is the hits of one stamp: an instant in µs, rounded down to SlotUS.
type entry struct{ atUS, hits int64 }

// The sliding window log keeps entries, oldest first, and their sum in N. The
// exact log has SlotUS 1: an entry per request and microsecond. The ring of
// sub-windows is the same with SlotUS = window/precision; an entry then stands
// for any instant of its sub-window and counts until the last of them has left
// the window. docs/ALGORITHMS.md, "Sliding window log".

// logView is a log seen from an instant, read without changing it.
type logView struct {
	entries []entry // all that is stored
	live    int     // index of the first that still counts
	total   int64   // hits of those that count
	nowUS   int64   // the caller's time
	stampUS int64   // stamp of a hit taken now; entries ahead of it count as if they had it
	stepped bool    // some are ahead: the clock stepped back
}

// logLifeUS is how long an entry counts, from its stamp on.
func (s *Spec) logLifeUS() int64 {
	if s.Slots == 0 {
		return s.WindowUS
	}
	return (s.Slots + 1) * s.SlotUS
}

func (s *Spec) readLog(st *State, now int64) logView {
	v := logView{nowUS: now, stampUS: now - now%s.SlotUS}
	if st.Log == nil || len(st.Log.entries) == 0 {
		return v
	}
	v.entries, v.total = st.Log.entries, max(st.N, 0)
	if newest := v.entries[len(v.entries)-1].atUS; newest > v.stampUS {
		if newest-now <= s.SkewUS {
			v.stampUS = newest // the caller's time is a little late
		} else {
			v.stepped = true
		}
	}
	life := s.logLifeUS()
	for v.live < len(v.entries) && v.entries[v.live].atUS <= now-life {
		v.total -= v.entries[v.live].hits
		v.live++
	}
	return v
}

func (s *Spec) decideLog(v logView, ask Ask) Decision {
	d := Decision{Allowed: true}
	switch ask.Mode {
	case Charge:
		d.Taken = min(ask.Cost, max(0, s.Requests+s.MaxDebt-v.total))
	case Refund:
		d.Taken = min(ask.Cost, v.total)
	default:
		d.Allowed = v.total+ask.Cost <= s.Requests
		d.Never = !d.Allowed && ask.Cost > s.Requests
		d.Taken = taken(ask, d.Allowed, s.Requests-v.total)
	}

	d.Used = v.total + d.Taken
	d.ResetAfterUS = s.logResetUS(v, d.Taken)
	if ask.Mode == Refund {
		d.Used = v.total - d.Taken
		d.ResetAfterUS = s.logResetUS(v, -d.Taken)
	}
	d.Remaining = max(0, s.Requests-d.Used)
	if !d.Allowed && !d.Never {
		d.RetryAfterUS = s.logRetryUS(v, d.Used+ask.Cost-s.Requests)
	}
	return d
}

// logRetryUS is the wait until need hits have left, the oldest first. need can
// pass what is stored only by hits just taken, which leave last.
func (s *Spec) logRetryUS(v logView, need int64) int64 {
	leaves := v.stampUS
	for _, e := range v.entries[v.live:] {
		need -= e.hits
		if need <= 0 {
			leaves = min(e.atUS, v.stampUS)
			break
		}
	}
	return leaves + s.logLifeUS() - v.nowUS
}

// logResetUS is the wait until the newest hit has left, after change hits were
// added now or, if negative, removed from the newest entries.
func (s *Spec) logResetUS(v logView, change int64) int64 {
	if change > 0 {
		return v.stampUS + s.logLifeUS() - v.nowUS
	}
	for _, e := range slices.Backward(v.entries[v.live:]) {
		change += e.hits
		if change > 0 {
			return min(e.atUS, v.stampUS) + s.logLifeUS() - v.nowUS
		}
	}
	return 0
}

// writeLog drops what has left, brings a future log back to the present, and
// adds or (Refund) removes hits. Only entries that count for nothing are
// dropped: a log that forgets hits to stay small admits too much.
func (s *Spec) writeLog(st *State, v logView, mode Mode, hits int64) {
	if mode == Look {
		return
	}
	if st.Log == nil {
		if hits == 0 {
			return
		}
		st.Log = &Log{}
	}
	l := st.Log
	if v.live > 0 {
		l.entries = l.entries[:copy(l.entries, l.entries[v.live:])]
	}
	st.N = v.total
	if v.stepped {
		l.bringBack(v.stampUS)
	}
	switch {
	case hits == 0:
	case mode == Refund:
		l.remove(hits)
		st.N -= hits
	default:
		l.add(v.stampUS, hits)
		st.N += hits
	}
}

func (l *Log) add(atUS, hits int64) {
	if n := len(l.entries); n > 0 {
		newest := &l.entries[n-1]
		if newest.atUS == atUS || n >= maxEntries {
			newest.atUS = atUS // merged into the later stamp: on the strict side
			newest.hits += hits
			return
		}
	}
	l.entries = append(l.entries, entry{atUS: atUS, hits: hits})
}

// remove takes hits off the newest entries.
func (l *Log) remove(hits int64) {
	for n := len(l.entries); n > 0 && hits > 0; n-- {
		newest := &l.entries[n-1]
		if newest.hits > hits {
			newest.hits -= hits
			return
		}
		hits -= newest.hits
		l.entries = l.entries[:n-1]
	}
}

// bringBack restamps what is ahead of the present, as one entry.
func (l *Log) bringBack(stampUS int64) {
	n := len(l.entries)
	ahead := entry{atUS: stampUS}
	for n > 0 && l.entries[n-1].atUS >= stampUS {
		n--
		ahead.hits += l.entries[n].hits
	}
	l.entries = append(l.entries[:n], ahead)
}

func (s *Spec) logIdleAt(st *State) int64 {
	if st.Log == nil || len(st.Log.entries) == 0 {
		return 0
	}
	return st.Log.entries[len(st.Log.entries)-1].atUS + s.logLifeUS()
}
