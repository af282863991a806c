package algorithm

import (
	"math/big"
)

// A model is the slow and obvious form of one algorithm. It answers only
// whether something would pass at a time, so that the numbers of a Decision can
// be checked by what they promise: Remaining fits and one more does not, the
// wait is enough and a microsecond less is not.
type model interface {
	fits(at, cost int64) bool // would cost pass at this time, if nobody came before
	used(at int64) int64      // hits held, rounded up
	unused(at int64) bool
	take(at, cost int64)         // after fits
	charge(at, cost int64) int64 // without asking; returns what was counted
	refund(at, cost int64) int64 // returns what was given back
	relimit(s *Spec)             // the numbers of the limit change, the window does not
}

func newModel(s *Spec) model {
	switch s.Kind {
	case FixedWindow:
		return &windowModel{s: s, hits: map[int64]int64{}}
	case SlidingWindowCounter:
		return &counterModel{s: s, hits: map[int64]int64{}}
	case SlidingWindowLog:
		return &historyModel{s: s}
	case Concurrency:
		return nil
	default:
		return &rationalBucket{s: s, held: new(big.Rat)}
	}
}

// windowModel keeps the hits of every window there ever was.
type windowModel struct {
	s    *Spec
	hits map[int64]int64
}

func (m *windowModel) window(at int64) int64    { return at / m.s.WindowUS }
func (m *windowModel) used(at int64) int64      { return m.hits[m.window(at)] }
func (m *windowModel) fits(at, cost int64) bool { return m.used(at)+cost <= m.s.Requests }
func (m *windowModel) unused(at int64) bool     { return m.used(at) == 0 }
func (m *windowModel) take(at, cost int64)      { m.hits[m.window(at)] += cost }
func (m *windowModel) relimit(s *Spec)          { m.s = s }
func (m *windowModel) charge(at, n int64) int64 { m.take(at, n); return n }
func (m *windowModel) refund(at, n int64) int64 { n = min(n, m.used(at)); m.take(at, -n); return n }

// counterModel keeps the hits of every window and weighs them as a fraction.
type counterModel struct {
	s    *Spec
	hits map[int64]int64
}

func (m *counterModel) in(window int64) int64 {
	return min(m.hits[window], m.s.Requests+m.s.MaxDebt)
}

// estimate is the numerator and denominator of prev·(1−e/T) + cur.
func (m *counterModel) estimate(at int64) (num, den *big.Int) {
	window := at / m.s.WindowUS
	elapsed := at % m.s.WindowUS / m.s.TickUS
	den = big.NewInt(m.s.WindowTicks)
	num = new(big.Int).Mul(big.NewInt(m.in(window)), den)
	past := big.NewInt(m.s.WindowTicks - elapsed)
	return num.Add(num, past.Mul(past, big.NewInt(m.in(window-1)))), den
}

func (m *counterModel) fits(at, cost int64) bool {
	num, den := m.estimate(at)
	room := new(big.Int).Mul(big.NewInt(m.s.Requests-cost), den)
	return num.Cmp(room) <= 0
}

func (m *counterModel) used(at int64) int64 {
	num, den := m.estimate(at)
	q, r := num.DivMod(num, den, new(big.Int))
	return q.Int64() + int64(r.Sign())
}

func (m *counterModel) unused(at int64) bool {
	window := at / m.s.WindowUS
	return m.in(window) == 0 && m.in(window-1) == 0
}

func (m *counterModel) take(at, cost int64) {
	window := at / m.s.WindowUS
	if cost != 0 { // a write keeps what was read, under the bound of today's limit
		m.hits[window-1] = m.in(window - 1)
		m.hits[window] = m.in(window) + cost
	}
}

func (m *counterModel) charge(at, cost int64) int64 {
	cost = min(cost, m.s.Requests+m.s.MaxDebt-m.in(at/m.s.WindowUS))
	m.take(at, cost)
	return cost
}

func (m *counterModel) refund(at, cost int64) int64 {
	cost = min(cost, m.in(at/m.s.WindowUS))
	m.take(at, -cost)
	return cost
}

func (m *counterModel) relimit(s *Spec) { m.s = s }

// historyModel keeps the time of every hit ever taken, for the exact log and
// the ring.
type historyModel struct {
	s    *Spec
	hits []entry
}

// leaves is when a hit stops counting: a window later, or for the ring when all
// instants of its sub-window have left.
func (m *historyModel) leaves(e entry) int64 {
	if m.s.Slots == 0 {
		return e.atUS + m.s.WindowUS
	}
	end := (e.atUS/m.s.SlotUS + 1) * m.s.SlotUS
	return end + m.s.Slots*m.s.SlotUS
}

func (m *historyModel) used(at int64) int64 {
	sum := int64(0)
	for _, e := range m.hits {
		if m.leaves(e) > at {
			sum += e.hits
		}
	}
	return sum
}

func (m *historyModel) fits(at, cost int64) bool { return m.used(at)+cost <= m.s.Requests }
func (m *historyModel) unused(at int64) bool     { return m.used(at) == 0 }
func (m *historyModel) relimit(s *Spec)          { m.s = s }
func (m *historyModel) take(at, cost int64)      { m.hits = append(m.hits, entry{at, cost}) }

func (m *historyModel) charge(at, cost int64) int64 {
	cost = min(cost, max(0, m.s.Requests+m.s.MaxDebt-m.used(at)))
	m.take(at, cost)
	return cost
}

func (m *historyModel) refund(at, cost int64) int64 {
	given := int64(0)
	for i := len(m.hits) - 1; i >= 0; i-- {
		if m.leaves(m.hits[i]) > at {
			part := min(cost-given, m.hits[i].hits)
			m.hits[i].hits -= part
			given += part
		}
	}
	return given
}

// rationalBucket is the token bucket in exact fractions of a hit: held hits
// drain at the limit's rate. Only writes move at, as in the algorithm, because
// after a change of numbers the time since the last write drains at the new rate.
type rationalBucket struct {
	s    *Spec
	held *big.Rat
	at   int64
}

// rate in hits per µs: limit/window, or what it was rounded to.
func (m *rationalBucket) rate() *big.Rat {
	if m.s.Exact && m.s.Requests > 0 {
		return big.NewRat(m.s.Requests, m.s.WindowUS)
	}
	return big.NewRat(m.s.PerMicro, m.s.PerHit)
}

func hitsRat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func (m *rationalBucket) heldAt(at int64) *big.Rat {
	drained := new(big.Rat).Mul(m.rate(), hitsRat(at-m.at))
	left := new(big.Rat).Sub(m.held, drained)
	if left.Sign() < 0 {
		return new(big.Rat)
	}
	return left
}

func (m *rationalBucket) set(at int64, held *big.Rat) {
	m.held, m.at = held, at
}

func (m *rationalBucket) fits(at, cost int64) bool {
	after := m.heldAt(at)
	return after.Add(after, hitsRat(cost)).Cmp(hitsRat(m.s.Burst)) <= 0
}

func (m *rationalBucket) used(at int64) int64  { return ceilRat(m.heldAt(at)) }
func (m *rationalBucket) unused(at int64) bool { return m.heldAt(at).Sign() == 0 }

func (m *rationalBucket) take(at, cost int64) {
	if cost > 0 {
		held := m.heldAt(at)
		m.set(at, held.Add(held, hitsRat(cost)))
	}
}

func (m *rationalBucket) charge(at, cost int64) int64 {
	roof := hitsRat(m.s.Burst + m.s.MaxDebt)
	held := m.heldAt(at)
	room := new(big.Rat).Sub(roof, held)
	taken := min(cost, new(big.Int).Quo(room.Num(), room.Denom()).Int64())
	if held.Add(held, hitsRat(cost)); held.Cmp(roof) > 0 {
		held = roof
	}
	if cost > 0 {
		m.set(at, held)
	}
	return taken
}

func (m *rationalBucket) refund(at, cost int64) int64 {
	held := m.heldAt(at)
	given := min(cost, ceilRat(held))
	if held.Sub(held, hitsRat(cost)); held.Sign() < 0 {
		held = new(big.Rat)
	}
	if given > 0 {
		m.set(at, held)
	}
	return given
}

// relimit keeps the hits held, rounded up to the new unit and capped.
func (m *rationalBucket) relimit(s *Spec) {
	m.s = s
	if roof := hitsRat(s.Burst + s.MaxDebt); m.held.Cmp(roof) > 0 {
		m.held = roof
	}
	units := new(big.Rat).Mul(m.held, hitsRat(s.PerHit))
	m.held = big.NewRat(ceilRat(units), s.PerHit)
}

func ceilRat(r *big.Rat) int64 {
	q, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	return q.Int64() + int64(rest.Sign())
}
