package algorithm

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// longestWait is how long any ask may have to wait, however the clock moved:
// docs/ALGORITHMS.md, "Clocks".
func longestWait(s *Spec) int64 {
	switch s.Kind {
	case FixedWindow:
		return s.WindowUS + s.SkewUS
	case SlidingWindowCounter:
		return 2*s.WindowUS + s.SkewUS
	case SlidingWindowLog:
		return s.logLifeUS() + s.SkewUS
	default:
		return ceilDiv(s.DebtCap, s.PerMicro) + s.SkewUS
	}
}

var windowed = []Kind{FixedWindow, SlidingWindowLog, SlidingWindowCounter, TokenBucket, LeakyBucket}

// TestClockAnyStep moves the clock at random: numbers stay in range, and the
// wait that a refusal names is enough once the clock runs again.
func TestClockAnyStep(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 5))
	for _, form := range []string{"fixed_window", "exact_log", "ring", "sliding_window_counter", "token_bucket"} {
		for range 1000 {
			s := randomSpec(rnd, form)
			var st State
			now := int64(1_700_000_000_000_000)
			for range 40 {
				ask := randomAsk(rnd, s)
				d := decideAndApply(t, s, &st, now, ask)
				require.GreaterOrEqual(t, d.Remaining, int64(0))
				require.LessOrEqual(t, d.Remaining, s.Most())
				require.LessOrEqual(t, d.RetryAfterUS, longestWait(s), "%+v", s.Limit)
				require.LessOrEqual(t, d.ResetAfterUS, longestWait(s), "%+v", s.Limit)
				if ask = s.canonical(ask); !d.Allowed && !d.Never && ask.Mode == Spend && now+d.RetryAfterUS <= maxTimeUS {
					later := cloneState(&st)
					require.True(t, s.Apply(later, now+d.RetryAfterUS, ask).Allowed, "%+v", s.Limit)
				}
				now += s.WindowUS/2 - logUniform(rnd, 3*s.WindowUS)
			}
		}
	}
}

// TestClockStepBack: a used-up limit gives nothing away when the clock steps
// back, and does not punish for the time stepped over.
func TestClockStepBack(t *testing.T) {
	t.Parallel()
	for _, kind := range windowed {
		for _, requests := range []int64{10, 1000} { // exact log and ring
			s := mustSpec(t, Limit{Kind: kind, Requests: requests, WindowUS: 60_000_000})
			for _, step := range []int64{0, 1, s.SkewUS, s.SkewUS + 1, s.WindowUS, 20 * s.WindowUS} {
				for _, start := range []int64{1_700_000_040_000_000, 1_700_000_059_999_999} { // first and 20th second of a minute
					var st State
					require.True(t, s.Apply(&st, start, Ask{Cost: requests}).Allowed)
					now := start - step
					d := decideAndApply(t, s, &st, now, Ask{Cost: 1})
					require.False(t, d.Allowed, "%s, step %d", kind, step)
					require.LessOrEqual(t, d.RetryAfterUS, longestWait(s), "%s, step %d", kind, step)
					require.False(t, s.Decide(&st, now+d.RetryAfterUS-1, Ask{Cost: 1}).Allowed, "%s, step %d", kind, step)
					require.True(t, s.Decide(&st, now+d.RetryAfterUS, Ask{Cost: 1}).Allowed, "%s, step %d", kind, step)
				}
			}
		}
	}
}

// TestClocksThatDiffer: callers whose times differ by less than SkewUS and
// take turns (a time read before a lock) get no more than one clock gives.
func TestClocksThatDiffer(t *testing.T) {
	t.Parallel()
	for _, kind := range windowed {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			s := mustSpec(t, Limit{Kind: kind, Requests: 100, WindowUS: 1_000_000})
			var st State
			start := int64(1_700_000_000_000_000) // begins a second
			admitted := int64(0)
			for i := range int64(100_000) { // two seconds
				now := start + 20*i - i%2*5_000
				admitted += s.Apply(&st, now, Ask{Cost: 1}).Taken
			}
			// At most two windows' worth and, for buckets, the burst.
			require.LessOrEqual(t, admitted, int64(300))
			require.GreaterOrEqual(t, admitted, int64(190))
		})
	}
}

// TestLeasesAfterStepBack: no lease lives longer than its time from the step on.
func TestLeasesAfterStepBack(t *testing.T) {
	t.Parallel()
	s := mustSpec(t, Limit{Kind: Concurrency, Requests: 1, LeaseTTLUS: 10_000_000})
	var st State
	now := int64(1_700_000_000_000_000)
	require.True(t, s.Apply(&st, now, Ask{Cost: 1, Lease: "a"}).Allowed)
	now -= 3_600_000_000
	require.False(t, s.Apply(&st, now, Ask{Cost: 1, Lease: "b"}).Allowed)
	require.False(t, s.Apply(&st, now+9_999_999, Ask{Cost: 1, Lease: "b"}).Allowed)
	require.True(t, s.Apply(&st, now+10_000_000, Ask{Cost: 1, Lease: "b"}).Allowed)
}

// TestLateLease: a caller whose time is a little late gets a lease from the
// time that was seen, and does not turn that time back.
func TestLateLease(t *testing.T) {
	t.Parallel()
	s := mustSpec(t, Limit{Kind: Concurrency, Requests: 2, LeaseTTLUS: 10_000_000})
	var st State
	now := int64(1_700_000_000_000_000)
	require.True(t, s.Apply(&st, now, Ask{Cost: 1, Lease: "a"}).Allowed)
	require.True(t, s.Apply(&st, now-s.SkewUS, Ask{Cost: 1, Lease: "b"}).Allowed)
	require.Equal(t, now, st.At)
	require.EqualValues(t, 2, s.Decide(&st, now+9_999_999, Ask{Mode: Look}).Used)
	require.Zero(t, s.Decide(&st, now+10_000_000, Ask{Mode: Look}).Used)
}

// TestLateAtBoundary: a caller still in the window before is answered as at the
// first instant of the window that the state has seen.
func TestLateAtBoundary(t *testing.T) {
	t.Parallel()
	boundary := int64(1_700_000_000_000_000) // begins a second
	for _, kind := range []Kind{FixedWindow, SlidingWindowCounter} {
		s := mustSpec(t, Limit{Kind: kind, Requests: 100, WindowUS: 1_000_000})
		var st State
		s.Apply(&st, boundary-1, Ask{Cost: 50})
		s.Apply(&st, boundary, Ask{Cost: 10})
		at, late := s.Decide(&st, boundary, Ask{Mode: Look}), s.Decide(&st, boundary-400_000, Ask{Mode: Look})
		require.Equal(t, at.Remaining, late.Remaining)
		require.Equal(t, at.Used, late.Used)
		require.Equal(t, at.ResetAfterUS+400_000, late.ResetAfterUS)
	}
}
