package algorithm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	second = int64(1_000_000)
	day    = 86_400 * second
	year   = 365 * day
)

func TestNewSpecErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		limit Limit
		want  string
	}{
		{"unknown kind", Limit{Kind: 99}, "unknown algorithm number 99"},
		{"negative", Limit{Requests: -1, WindowUS: second}, "limit -1 is not between 0 and 4294967295"},
		{"too large", Limit{Requests: 1 << 32, WindowUS: second}, "limit 4294967296 is not between 0 and 4294967295"},
		{"debt", Limit{Requests: 1, WindowUS: second, MaxDebt: -1}, "max_debt -1 is not between 0 and 4294967295"},
		{"no window", Limit{Requests: 1}, "window of 0 µs is not between 1 ms and 366 days"},
		{"half a millisecond", Limit{Requests: 1, WindowUS: 1500}, "window of 1500 µs is not a whole number of milliseconds"},
		{"decades", Limit{Requests: 1, WindowUS: 20 * year}, "window of 630720000000000 µs is not between 1 ms and 366 days"},
		{"burst elsewhere", Limit{Requests: 1, WindowUS: second, Burst: 1}, "burst belongs to token_bucket and leaky_bucket, not to fixed_window"},
		{"negative burst", Limit{Kind: TokenBucket, Requests: 1, WindowUS: second, Burst: -1}, "burst -1 is not between 0 and 4294967295"},
		{"count_denied elsewhere", Limit{Kind: TokenBucket, Requests: 1, WindowUS: second, CountDenied: true}, "count_denied belongs to fixed_window, not to token_bucket"},
		{"precision elsewhere", Limit{Requests: 1, WindowUS: second, Precision: 2}, "precision belongs to sliding_window_log, not to fixed_window"},
		{"precision", Limit{Kind: SlidingWindowLog, Requests: 1, WindowUS: second, Precision: 121}, "precision 121 is not between 1 and 120"},
		{"lease elsewhere", Limit{Requests: 1, WindowUS: second, LeaseTTLUS: second}, "lease_ttl belongs to concurrency, not to fixed_window"},
		{"short lease", Limit{Kind: Concurrency, Requests: 1, LeaseTTLUS: 1}, "lease_ttl of 1 µs is not between 1 ms and 366 days"},
		{"window of concurrency", Limit{Kind: Concurrency, Requests: 1, WindowUS: second}, "concurrency has no window: it counts what is in flight"},
		{"post-paid concurrency", Limit{Kind: Concurrency, Requests: 1, PostPaid: true}, "post_paid does not go with concurrency"},
		{
			"centuries to drain", Limit{Kind: TokenBucket, Requests: 1, WindowUS: year, Burst: 1000},
			"burst 1000 with max_debt 1000 is too large for 1 per 31536000000 ms: it would take more than 285 years to drain",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := NewSpec(test.limit)
			require.EqualError(t, err, test.want)
		})
	}
}

func TestDerivedNumbers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		limit  Limit
		want   Spec // Limit is not compared
		suffix string
	}{
		{
			"ten a second", Limit{Kind: TokenBucket, Requests: 10, WindowUS: second},
			Spec{PerHit: 100_000, PerMicro: 1, Exact: true, Capacity: 1_000_000, DebtCap: 2_000_000, SkewUS: second}, "tb:1000",
		},
		{
			"three a second", Limit{Kind: LeakyBucket, Requests: 3, WindowUS: second, Burst: 2, MaxDebt: 1},
			Spec{PerHit: 1_000_000, PerMicro: 3, Exact: true, Capacity: 2_000_000, DebtCap: 3_000_000, SkewUS: second}, "lb:1000",
		},
		{
			"many a millisecond", Limit{Kind: TokenBucket, Requests: 1<<32 - 1, WindowUS: 1000},
			Spec{PerHit: 200, PerMicro: 858_993_459, Exact: true, Capacity: 200 * (1<<32 - 1), DebtCap: 400 * (1<<32 - 1), SkewUS: 1000}, "tb:1",
		},
		{
			// 2^53/(2^33−1) leaves 2^20 units a hit; 2^20·L/W = 142.8.
			"many a year", Limit{Kind: TokenBucket, Requests: 1<<32 - 1, WindowUS: year},
			Spec{PerHit: 1_042_642, PerMicro: 142, Capacity: 1_042_642 * (1<<32 - 1), DebtCap: 1_042_642 * (1<<33 - 2), SkewUS: second}, "tb:31536000000",
		},
		{
			"nothing", Limit{Kind: TokenBucket, WindowUS: second, Burst: 7},
			Spec{PerHit: 1, PerMicro: 1, Exact: true, SkewUS: second}, "tb:1000",
		},
		{
			"counter in microseconds", Limit{Kind: SlidingWindowCounter, Requests: 1000, WindowUS: day},
			Spec{Exact: true, TickUS: 1, WindowTicks: day, SkewUS: second}, "sc:86400000",
		},
		{
			// 2·2^33 leaves 2^19 ticks: a second in ticks of two.
			"counter of the largest limit", Limit{Kind: SlidingWindowCounter, Requests: 1<<32 - 1, WindowUS: second},
			Spec{Exact: true, TickUS: 2, WindowTicks: 500_000, SkewUS: second}, "sc:1000",
		},
		{
			"exact log", Limit{Kind: SlidingWindowLog, Requests: 128, WindowUS: second},
			Spec{Exact: true, SlotUS: 1, SkewUS: second}, "sl:1000",
		},
		{
			"ring", Limit{Kind: SlidingWindowLog, Requests: 129, WindowUS: second},
			Spec{Exact: true, Slots: 60, SlotUS: 16_667, SkewUS: second}, "sr60:1000",
		},
		{
			"ring of milliseconds", Limit{Kind: SlidingWindowLog, Requests: 5, WindowUS: 7000, PostPaid: true},
			Spec{Exact: true, Slots: 7, SlotUS: 1000, SkewUS: 7000}, "sr7:7",
		},
		{"concurrency", Limit{Kind: Concurrency, Requests: 5}, Spec{Exact: true, SkewUS: second}, "cc"},
		{"fixed window", Limit{Requests: 5, WindowUS: 60 * second}, Spec{Exact: true, SkewUS: second}, "fw:60000"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := *mustSpec(t, test.limit)
			require.Equal(t, test.suffix, got.KeySuffix())
			got.Limit, got.suffix = Limit{}, ""
			require.Equal(t, test.want, got)
		})
	}
}

// TestNumbersFit checks for limits of every size that no product passes 2^53,
// and that what is rounded is rounded to the strict side and by little.
func TestNumbersFit(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(6, 6))
	for range 20_000 {
		s := randomSpec(rnd, "token_bucket")
		if s.Requests > 0 {
			require.LessOrEqual(t, s.DebtCap+s.PerHit, int64(maxExact), "%+v", s)
			require.GreaterOrEqual(t, s.PerHit, int64(1))
			require.GreaterOrEqual(t, s.PerMicro, int64(1))
			asked := big.NewRat(s.Requests, s.WindowUS)
			got := big.NewRat(s.PerMicro, s.PerHit)
			if s.Exact {
				require.Zero(t, asked.Cmp(got), "%+v", s)
			} else {
				lost := new(big.Rat).Sub(asked, got)
				require.GreaterOrEqual(t, lost.Sign(), 0, "%+v", s)
				share, _ := lost.Quo(lost, asked).Float64()
				require.LessOrEqual(t, share, 2e-6, "%+v", s)
			}
		}

		s = randomSpec(rnd, "sliding_window_counter")
		most := big.NewInt(2 * (s.Requests + s.MaxDebt))
		most.Mul(most, big.NewInt(s.WindowTicks))
		require.LessOrEqual(t, most.Cmp(big.NewInt(maxExact)), 0, "%+v", s)
		require.GreaterOrEqual(t, s.WindowTicks*s.TickUS, s.WindowUS)
		require.Less(t, (s.WindowTicks-1)*s.TickUS, s.WindowUS)

		s = randomSpec(rnd, "ring")
		require.GreaterOrEqual(t, s.Slots*s.SlotUS, s.WindowUS)
		require.GreaterOrEqual(t, s.SlotUS, int64(1000))
	}
}

// TestDivisionInDoubles checks what scripts rely on: below 2^53, floor and ceil
// of the rounded quotient are those of the exact one, also beside a multiple.
func TestDivisionInDoubles(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(7, 7))
	for range 1_000_000 {
		b := 1 + logUniform(rnd, maxExact-2)
		a := rnd.Int64N(maxExact)
		switch rnd.IntN(3) {
		case 0:
			a = min(a/b*b+1, maxExact-1)
		case 1:
			a = max(a/b*b-1, 0)
		}
		if got := floorInDoubles(a, b); got != a/b {
			t.Fatalf("floor(%d/%d) is %d in doubles", a, b, got)
		}
		if got := -floorInDoubles(-a, b); got != ceilDiv(a, b) {
			t.Fatalf("ceil(%d/%d) is %d in doubles", a, b, got)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds() {
		got, ok := ParseKind(k.String())
		require.True(t, ok)
		require.Equal(t, k, got)
	}
	got, ok := ParseKind("gcra")
	require.True(t, ok)
	require.Equal(t, TokenBucket, got)
	_, ok = ParseKind("Fixed_window")
	require.False(t, ok)
	require.Equal(t, "Kind(77)", Kind(77).String())
	require.Equal(t, "take_up_to", TakeUpTo.String())
	require.Equal(t, "Mode(77)", Mode(77).String())
	require.EqualValues(t, MaxCost, ClampCost(1<<63))
	require.EqualValues(t, 7, ClampCost(7))
}

func floorInDoubles(a, b int64) int64 {
	return int64(math.Floor(float64(a) / float64(b)))
}
