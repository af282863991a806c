package algorithm

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
)

// Spec is a checked limit with the numbers derived from it. It is immutable
// and shared by all requests that meet the limit.
type Spec struct {
	Limit // with defaults filled in

	// Buckets count in level units: a hit adds PerHit units, and PerMicro units
	// drain each microsecond. Where the exact ratio does not fit below 2^53 it
	// is approximated from above (strict side); Exact tells.
	PerHit, PerMicro int64
	Exact            bool
	Capacity         int64 // Burst · PerHit
	DebtCap          int64 // (Burst + MaxDebt) · PerHit

	// The sliding counter weighs in ticks of TickUS, so that products fit.
	TickUS, WindowTicks int64

	// Slots > 0 makes the log a ring of Slots sub-windows of SlotUS each;
	// 0 is the exact log, with a SlotUS of 1.
	Slots, SlotUS int64

	// SkewUS bounds how far a state may be ahead of the caller's time without
	// being taken for a clock that stepped back: min(window or lease, MaxSkewUS).
	SkewUS int64

	suffix string
}

// NewSpec checks a limit, fills in defaults and derives the numbers. The error
// says in one sentence which number is impossible, without naming a rule.
func NewSpec(l Limit) (*Spec, error) {
	if int(l.Kind) >= len(kindNames) {
		return nil, fmt.Errorf("unknown algorithm number %d", l.Kind)
	}
	if l.Requests < 0 || l.Requests > MaxRequests {
		return nil, fmt.Errorf("limit %d is not between 0 and %d", l.Requests, int64(MaxRequests))
	}
	if l.MaxDebt < 0 || l.MaxDebt > MaxRequests {
		return nil, fmt.Errorf("max_debt %d is not between 0 and %d", l.MaxDebt, int64(MaxRequests))
	}
	s := &Spec{Limit: l, Exact: true}
	if err := s.checkWindow(); err != nil {
		return nil, err
	}
	if err := s.checkForeign(); err != nil {
		return nil, err
	}
	if s.Kind == TokenBucket || s.Kind == LeakyBucket {
		s.defaultBurst()
	}
	if s.MaxDebt == 0 {
		s.MaxDebt = s.Most()
	}
	switch l.Kind {
	case SlidingWindowLog:
		s.deriveLog()
	case SlidingWindowCounter:
		s.deriveCounter()
	case TokenBucket, LeakyBucket:
		if err := s.deriveBucket(); err != nil {
			return nil, err
		}
	case Concurrency:
		if s.LeaseTTLUS == 0 {
			s.LeaseTTLUS = DefaultLeaseTTLUS
		}
		if s.LeaseTTLUS < MinWindowUS || s.LeaseTTLUS > MaxWindowUS {
			return nil, fmt.Errorf("lease_ttl of %d µs is not between 1 ms and 366 days", s.LeaseTTLUS)
		}
	}
	s.SkewUS = min(max(s.WindowUS, s.LeaseTTLUS), MaxSkewUS) // one of the two is 0
	s.suffix = s.makeSuffix()
	return s, nil
}

func (s *Spec) checkWindow() error {
	if s.Kind == Concurrency {
		if s.WindowUS != 0 {
			return errors.New("concurrency has no window: it counts what is in flight")
		}
		return nil
	}
	if s.WindowUS < MinWindowUS || s.WindowUS > MaxWindowUS {
		return fmt.Errorf("window of %d µs is not between 1 ms and 366 days", s.WindowUS)
	}
	if s.WindowUS%1000 != 0 {
		return fmt.Errorf("window of %d µs is not a whole number of milliseconds", s.WindowUS)
	}
	return nil
}

// checkForeign refuses options that the algorithm does not have.
func (s *Spec) checkForeign() error {
	bucket := s.Kind == TokenBucket || s.Kind == LeakyBucket
	switch {
	case s.Burst < 0 || s.Burst > MaxRequests:
		return fmt.Errorf("burst %d is not between 0 and %d", s.Burst, int64(MaxRequests))
	case s.Burst > 0 && !bucket:
		return fmt.Errorf("burst belongs to token_bucket and leaky_bucket, not to %s", s.Kind)
	case s.CountDenied && s.Kind != FixedWindow:
		return fmt.Errorf("count_denied belongs to fixed_window, not to %s", s.Kind)
	case s.Precision < 0 || s.Precision > MaxPrecision:
		return fmt.Errorf("precision %d is not between 1 and %d", s.Precision, MaxPrecision)
	case s.Precision > 0 && s.Kind != SlidingWindowLog:
		return fmt.Errorf("precision belongs to sliding_window_log, not to %s", s.Kind)
	case s.LeaseTTLUS != 0 && s.Kind != Concurrency:
		return fmt.Errorf("lease_ttl belongs to concurrency, not to %s", s.Kind)
	case s.PostPaid && s.Kind == Concurrency:
		return errors.New("post_paid does not go with concurrency")
	}
	return nil
}

// deriveLog chooses the exact log for small limits and a ring above. A ring is
// forced by an explicit precision and by post_paid, whose debt has no bound on
// the number of entries. Sub-windows are rounded up: never less than a window.
func (s *Spec) deriveLog() {
	if s.Requests <= MaxLogExact && s.Precision == 0 && !s.PostPaid {
		s.SlotUS = 1
		return
	}
	if s.Precision == 0 {
		s.Precision = DefaultPrecision
	}
	s.Slots = s.Precision
	if ms := s.WindowUS / 1000; s.Slots > ms {
		s.Slots = ms // a sub-window is at least 1 ms
	}
	s.SlotUS = (s.WindowUS + s.Slots - 1) / s.Slots
}

// deriveCounter finds the finest tick with which 2·(limit+debt)·window fits.
func (s *Spec) deriveCounter() {
	most := 2 * (s.Requests + s.MaxDebt + 1)
	s.TickUS = 1
	for {
		s.WindowTicks = (s.WindowUS + s.TickUS - 1) / s.TickUS
		if s.WindowTicks <= maxExact/most {
			return
		}
		s.TickUS *= 2
	}
}

// defaultBurst fills in the capacity: the limit, and nothing where the limit is 0.
func (s *Spec) defaultBurst() {
	if s.Burst == 0 || s.Requests == 0 {
		s.Burst = s.Requests
	}
}

// deriveBucket finds PerHit/PerMicro = WindowUS/Requests exactly if the
// products fit below 2^53, else the finest ratio on the strict side: PerHit is
// rounded up, so the rate lost is below 1/PerHit, at worst about 1e-6.
func (s *Spec) deriveBucket() error {
	if s.Requests == 0 { // nothing ever fits; one unit a microsecond drains old debt
		s.PerHit, s.PerMicro = 1, 1
		s.DebtCap = s.MaxDebt
		return nil
	}
	g := gcd(s.Requests, s.WindowUS)
	s.PerMicro, s.PerHit = s.Requests/g, s.WindowUS/g
	most := s.Burst + s.MaxDebt + 1
	if roof := (maxExact - 1) / most; s.PerHit > roof { // roof: the largest PerHit that fits
		s.Exact = false
		// PerHit = ceil(PerMicro·W/L) ≤ roof  ⇒  PerMicro = floor(roof·L/W), which
		// is below L because W ≥ PerHit > roof; so neither division overflows.
		hi, lo := bits.Mul64(uint64(roof), uint64(s.Requests))
		micro, _ := bits.Div64(hi, lo, uint64(s.WindowUS))
		if micro < 1 {
			return fmt.Errorf("burst %d with max_debt %d is too large for %d per %d ms: it would take more than 285 years to drain", s.Burst, s.MaxDebt, s.Requests, s.WindowUS/1000)
		}
		s.PerMicro = int64(micro)
		hi, lo = bits.Mul64(uint64(s.PerMicro), uint64(s.WindowUS))
		q, r := bits.Div64(hi, lo, uint64(s.Requests))
		if r > 0 {
			q++
		}
		s.PerHit = int64(q)
	}
	s.Capacity = s.Burst * s.PerHit
	s.DebtCap = (s.Burst + s.MaxDebt) * s.PerHit
	return nil
}

// makeSuffix names what must not share a state: algorithm, form and window. The
// numbers of the limit are not in it, so a changed number keeps what was used.
func (s *Spec) makeSuffix() string {
	ms := strconv.FormatInt(s.WindowUS/1000, 10)
	switch s.Kind {
	case SlidingWindowLog:
		if s.Slots > 0 {
			return "sr" + strconv.FormatInt(s.Slots, 10) + ":" + ms
		}
		return "sl:" + ms
	case SlidingWindowCounter:
		return "sc:" + ms
	case TokenBucket:
		return "tb:" + ms
	case LeakyBucket:
		return "lb:" + ms
	case Concurrency:
		return "cc"
	default:
		return "fw:" + ms
	}
}

// KeySuffix is the part of a store key that separates states which this limit
// cannot share with another: algorithm, form and window in milliseconds.
func (s *Spec) KeySuffix() string { return s.suffix }

// Most is the largest number of hits that an unused state can take at once:
// the limit, or the burst of a bucket.
func (s *Spec) Most() int64 {
	if s.Kind == TokenBucket || s.Kind == LeakyBucket {
		return s.Burst
	}
	return s.Requests
}

// ShownLimit is what headers name as the limit: max(limit, burst).
func (s *Spec) ShownLimit() int64 { return max(s.Requests, s.Most()) }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
