package algorithm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Each algorithm runs this many steps against its model.
const modelSteps = 100_000

func TestAgainstModel(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"fixed_window", "exact_log", "ring", "sliding_window_counter", "token_bucket", "leaky_bucket"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(1, uint64(len(form))))
			for steps, sequence := 0, 0; steps < modelSteps; sequence++ {
				steps += modelSequence(t, rnd, form, sequence)
			}
		})
	}
}

// modelSequence plays one key's life of some dozens of asks.
func modelSequence(t *testing.T, rnd *rand.Rand, form string, sequence int) int {
	s := randomSpec(rnd, form)
	m := newModel(s)
	st := &State{}
	now := int64(1_700_000_000_000_000) + rnd.Int64N(1_000_000_000_000)
	wait := int64(0)
	steps := 20 + rnd.IntN(60)
	for i := range steps {
		if rnd.IntN(25) == 0 {
			s = randomNumbers(rnd, s)
			m.relimit(s)
			adoptRounding(t, s, st, m)
		}
		ask := randomAsk(rnd, s)
		d := decideAndApply(t, s, st, now, ask)
		if fault := checkStep(s, m, now, ask, d); fault != "" {
			t.Fatalf("sequence %d step %d: %s\n%v %d of %+v at %d\n%+v", sequence, i, fault, ask.Mode, ask.Cost, s.Limit, now, d)
		}
		if idle := s.IdleAtUS(st); !m.unused(max(idle, now)) || idle > now && m.unused(idle-1) {
			t.Fatalf("sequence %d step %d: idle at %d is not the first idle instant", sequence, i, idle)
		}
		if d.RetryAfterUS > 0 {
			wait = d.RetryAfterUS
		}
		now += randomPause(rnd, s.WindowUS, wait)
		if now > maxTimeUS {
			return i + 1
		}
	}
	return steps
}

// adoptRounding lets the exact model follow the doubles in which a bucket's
// level is converted, after checking that they are off by a unit at most.
func adoptRounding(t *testing.T, s *Spec, st *State, m model) {
	b, ok := m.(*rationalBucket)
	if !ok {
		return
	}
	exact := ceilRat(b.held.Mul(b.held, hitsRat(s.PerHit)))
	got := s.rescale(st.N, st.Prev)
	if diff := math.Abs(float64(got - exact)); diff > 1+float64(exact)*0x1p-51 {
		t.Fatalf("level %d at %d per hit became %d at %d, want %d", st.N, st.Prev, got, s.PerHit, exact)
	}
	b.held.SetFrac64(got, s.PerHit)
	st.N, st.Prev = got, s.PerHit
}

// checkStep compares a decision with the model, then lets the model follow.
func checkStep(s *Spec, m model, now int64, ask Ask, d Decision) string {
	ask = s.canonical(ask)
	wantTaken, wantAllowed := int64(0), true
	switch ask.Mode {
	case Charge:
		wantTaken = m.charge(now, ask.Cost)
	case Refund:
		wantTaken = m.refund(now, ask.Cost)
	default:
		wantAllowed = m.fits(now, ask.Cost)
		switch {
		case ask.Mode == Spend && wantAllowed:
			wantTaken = ask.Cost
		case ask.Mode == TakeUpTo:
			wantTaken = d.Taken
			if d.Taken > ask.Cost || d.Taken > 0 && !m.fits(now, d.Taken) || d.Taken < ask.Cost && m.fits(now, d.Taken+1) {
				return "took not as much as fits"
			}
		}
		m.take(now, wantTaken)
		if s.CountDenied && ask.Mode == Spend && !wantAllowed {
			m.charge(now, ask.Cost)
		}
	}
	if d.Allowed != wantAllowed {
		return fmt.Sprintf("allowed should be %v", wantAllowed)
	}
	if d.Taken != wantTaken {
		return fmt.Sprintf("taken should be %d", wantTaken)
	}
	if want := m.used(now); d.Used != want {
		return fmt.Sprintf("used should be %d", want)
	}
	if fault := checkRemaining(s, m, now, d); fault != "" {
		return fault
	}
	if fault := checkReset(s, m, now, d); fault != "" {
		return fault
	}
	return checkRetry(s, m, now, ask, d)
}

func checkRemaining(s *Spec, m model, now int64, d Decision) string {
	if s.Kind == FixedWindow && !d.Allowed {
		if d.Remaining != 0 {
			return "a refusing fixed window should say 0"
		}
		return ""
	}
	if d.Remaining < 0 || d.Remaining > 0 && !m.fits(now, d.Remaining) || m.fits(now, d.Remaining+1) {
		return "remaining is not the most that fits"
	}
	return ""
}

func checkReset(s *Spec, m model, now int64, d Decision) string {
	if s.Kind == FixedWindow {
		if d.ResetAfterUS != s.WindowUS-now%s.WindowUS {
			return "reset is not the end of the window"
		}
		return ""
	}
	if !m.unused(now+d.ResetAfterUS) || d.ResetAfterUS > 0 && m.unused(now+d.ResetAfterUS-1) {
		return "reset is not the first instant as new"
	}
	return ""
}

func checkRetry(s *Spec, m model, now int64, ask Ask, d Decision) string {
	switch {
	case d.Allowed && (d.Never || d.RetryAfterUS != 0):
		return "allowed, but never or a wait"
	case d.Allowed:
		return ""
	case d.Never != (ask.Cost > s.Most()):
		return "never should be a cost above the most"
	case d.Never && d.RetryAfterUS != 0:
		return "never has no wait"
	case d.Never:
		return ""
	case d.RetryAfterUS <= 0:
		return "a refusal without a wait"
	case !m.fits(now+d.RetryAfterUS, ask.Cost):
		return "the wait is too short"
	case m.fits(now+d.RetryAfterUS-1, ask.Cost):
		return "the wait is too long"
	}
	return ""
}

// decideAndApply checks on the way that Decide is pure and agrees with Apply.
func decideAndApply(t testing.TB, s *Spec, st *State, now int64, ask Ask) Decision {
	t.Helper()
	before := cloneState(st)
	decided := s.Decide(st, now, ask)
	if !sameState(before, st) {
		t.Fatalf("Decide changed the state: %+v to %+v", before, st)
	}
	applied := s.Apply(st, now, ask)
	if decided != applied {
		t.Fatalf("Decide and Apply differ for %+v of %+v:\n%+v\n%+v", ask, s.Limit, decided, applied)
	}
	if s.canonical(ask).Mode == Look && !sameState(before, st) {
		t.Fatalf("a look changed the state: %+v to %+v", before, st)
	}
	return applied
}

func cloneState(st *State) *State {
	c := *st
	if st.Log != nil {
		l := &Log{entries: slices.Clone(st.Log.entries)}
		for _, x := range st.Log.leases.heap {
			l.leases.add(x)
		}
		c.Log = l
	}
	return &c
}

func sameState(a, b *State) bool {
	if a.At != b.At || a.N != b.N || a.Prev != b.Prev || (a.Log == nil) != (b.Log == nil) {
		return false
	}
	if a.Log == nil {
		return true
	}
	return slices.Equal(a.Log.entries, b.Log.entries) &&
		slices.Equal(a.Log.leases.heap, b.Log.leases.heap)
}

// logUniform is 0 … most, with every order of magnitude equally likely.
func logUniform(rnd *rand.Rand, most int64) int64 {
	if most <= 0 {
		return 0
	}
	x := int64(math.Exp(rnd.Float64() * math.Log(float64(most)+1)))
	return min(max(x-1, 0), most)
}

func randomWindow(rnd *rand.Rand) int64 {
	if rnd.IntN(2) == 0 {
		usual := []int64{1, 1000, 60_000, 3_600_000, 86_400_000, 604_800_000, 30 * 86_400_000, 365 * 86_400_000}
		return 1000 * usual[rnd.IntN(len(usual))]
	}
	return 1000 * (1 + logUniform(rnd, MaxWindowUS/1000-1))
}

func randomSpec(rnd *rand.Rand, form string) *Spec {
	l := Limit{WindowUS: randomWindow(rnd), PostPaid: rnd.IntN(8) == 0}
	switch form {
	case "exact_log":
		l.Kind, l.PostPaid = SlidingWindowLog, false
	case "ring":
		l.Kind, l.Precision = SlidingWindowLog, 1+rnd.Int64N(MaxPrecision)
	default:
		l.Kind, _ = ParseKind(form)
	}
	l.CountDenied = l.Kind == FixedWindow && rnd.IntN(2) == 0
	return randomNumbers(rnd, &Spec{Limit: l})
}

// randomNumbers keeps the form and window of a limit and changes its numbers.
func randomNumbers(rnd *rand.Rand, s *Spec) *Spec {
	for {
		l := s.Limit
		most := int64(MaxRequests)
		if l.Kind == SlidingWindowLog && l.Precision == 0 {
			most = MaxLogExact
		}
		l.Requests, l.Burst, l.MaxDebt = logUniform(rnd, most), 0, 0
		if rnd.IntN(20) == 0 {
			l.Requests = most
		}
		if (l.Kind == TokenBucket || l.Kind == LeakyBucket) && rnd.IntN(2) == 0 {
			l.Burst = logUniform(rnd, most)
		}
		if rnd.IntN(4) == 0 {
			l.MaxDebt = logUniform(rnd, most)
		}
		next, err := NewSpec(l)
		if err == nil {
			return next
		}
	}
}

func randomAsk(rnd *rand.Rand, s *Spec) Ask {
	ask := Ask{Mode: Spend}
	switch rnd.IntN(10) {
	case 0:
		ask.Mode = Look
	case 1:
		ask.Mode = Charge
	case 2:
		ask.Mode = TakeUpTo
	case 3:
		ask.Mode = Refund
	}
	switch rnd.IntN(8) {
	case 0:
		ask.Cost = 0
	case 1, 2:
		ask.Cost = 1
	case 3:
		ask.Cost = s.Most() + rnd.Int64N(3) - 1
	case 4:
		ask.Cost = logUniform(rnd, MaxCost)
	default:
		ask.Cost = logUniform(rnd, s.Most())
	}
	ask.Cost = max(ask.Cost, 0)
	return ask
}

func randomPause(rnd *rand.Rand, windowUS, wait int64) int64 {
	switch rnd.IntN(5) {
	case 0:
		return 0
	case 1:
		return max(0, wait-rnd.Int64N(2))
	case 2:
		return rnd.Int64N(windowUS * 5 / 2)
	default:
		return logUniform(rnd, windowUS)
	}
}
