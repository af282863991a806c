package algorithm

import "container/heap"

// Concurrency counts places held by leases that have not ended. At is the last
// time seen, N the places held, Prev the latest end of a lease.
// docs/ALGORITHMS.md, "Concurrency".

// lease is a number of places held under one id until it is released or ends.
type lease struct {
	id     string // "" cannot be named again: it only ages out
	endUS  int64
	places int64
}

// leases is a heap with the lease that ends first at 0, and knows where each id
// is in it.
type leases struct {
	heap  []lease
	index map[string]int
}

// leasesView is the leases seen from an instant, read without changing them.
type leasesView struct {
	held    int64 // places of leases that have not ended
	own     int64 // of these, the places of the ask's lease
	nowUS   int64
	stepped bool // the clock stepped back
}

func (s *Spec) readLeases(st *State, now int64, id string) leasesView {
	v := leasesView{nowUS: now}
	if st.At > now {
		if st.At-now <= s.SkewUS {
			v.nowUS = st.At
		} else {
			v.stepped = true
		}
	}
	if st.Log == nil {
		return v
	}
	l := &st.Log.leases
	v.held = st.N - l.ended(0, v.nowUS)
	if at, ok := l.index[id]; ok && l.heap[at].endUS > v.nowUS {
		v.own = l.heap[at].places
	}
	return v
}

// decideLeases has no TakeUpTo of its own: a lease gets all its places or none.
func (s *Spec) decideLeases(v leasesView, ask Ask) Decision {
	d := Decision{Allowed: true}
	held := v.held
	switch {
	case ask.Mode == Charge: // renewal; Taken 0 tells the holder that the lease is gone
		d.Taken = v.own
	case ask.Mode == Refund:
		d.Taken = v.own
		held -= v.own
	case v.own > 0: // asked again: the answer may have been lost
		if ask.Mode != Look {
			d.Taken = v.own
		}
	default:
		d.Allowed = held+ask.Cost <= s.Requests
		d.Never = !d.Allowed && ask.Cost > s.Requests
		if d.Allowed && ask.Mode != Look {
			d.Taken = ask.Cost
			held += ask.Cost
		}
	}
	d.Used = held
	d.Remaining = max(0, s.Requests-held)
	return d
}

func (s *Spec) writeLeases(st *State, v leasesView, ask Ask, d Decision) {
	if ask.Mode == Look || st.Log == nil && d.Taken == 0 {
		return
	}
	if st.Log == nil {
		st.Log = &Log{}
	}
	l := &st.Log.leases
	latest := v.nowUS + s.LeaseTTLUS
	l.dropEnded(v.nowUS) // first: an ended lease may have the id of a new one
	switch {
	case d.Taken == 0:
	case v.own > 0 && ask.Mode == Refund:
		l.remove(l.index[ask.Lease])
	case v.own > 0:
		l.renew(l.index[ask.Lease], latest)
	default:
		l.add(lease{id: ask.Lease, endUS: latest, places: d.Taken})
	}
	if d.Taken > 0 && ask.Mode != Refund {
		st.Prev = max(st.Prev, latest)
	}
	if v.stepped {
		l.endBy(latest)
		st.Prev = latest
	}
	st.At, st.N = v.nowUS, d.Used
}

func (l *leases) add(x lease) {
	if l.index == nil {
		l.index = make(map[string]int)
	}
	n := len(l.heap)
	l.heap = append(l.heap, x)
	if x.id != "" {
		l.index[x.id] = n
	}
	heap.Fix(l, n)
}

func (l *leases) renew(at int, endUS int64) {
	l.heap[at].endUS = endUS
	heap.Fix(l, at)
}

func (l *leases) remove(at int) {
	last := len(l.heap) - 1
	l.Swap(at, last)
	delete(l.index, l.heap[last].id)
	l.heap[last] = lease{} // frees the id's text
	l.heap = l.heap[:last]
	if at < last {
		heap.Fix(l, at)
	}
}

func (l *leases) dropEnded(now int64) {
	for len(l.heap) > 0 && l.heap[0].endUS <= now {
		l.remove(0)
	}
}

// endBy shortens every lease that ends later. The order by end stays valid.
func (l *leases) endBy(us int64) {
	for i := range l.heap {
		x := &l.heap[i]
		x.endUS = min(x.endUS, us)
	}
}

func (s *Spec) leasesIdleAt(st *State) int64 {
	if st.N <= 0 {
		return 0
	}
	return st.Prev
}

// ended sums the places of leases that have ended, from node i of the heap
// down. A lease that has not ended hides its whole branch, so the work is
// bounded by what has ended.
func (l *leases) ended(i int, now int64) int64 {
	if i >= len(l.heap) || l.heap[i].endUS > now {
		return 0
	}
	return l.heap[i].places + l.ended(2*i+1, now) + l.ended(2*i+2, now)
}

// The methods of heap.Interface. Only heap.Fix is used, which neither pushes
// nor pops.

func (l *leases) Len() int           { return len(l.heap) }
func (l *leases) Less(i, j int) bool { return l.heap[i].endUS < l.heap[j].endUS }
func (l *leases) Push(any)           {}
func (l *leases) Pop() any           { return nil }

func (l *leases) Swap(i, j int) {
	l.heap[i], l.heap[j] = l.heap[j], l.heap[i]
	for _, at := range [2]int{i, j} {
		if id := l.heap[at].id; id != "" {
			l.index[id] = at
		}
	}
}
