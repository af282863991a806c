package limiter

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
)

// scripted is a store that answers as told and remembers what it was asked.
type scripted struct {
	answer  func(*backends.Call)
	batches []*backends.Batch
}

func (s *scripted) Submit(b *backends.Batch) {
	s.batches = append(s.batches, b)
	for i := range b.Calls {
		s.answer(&b.Calls[i])
	}
	b.Done(b)
}
func (*scripted) Reset(context.Context, []backends.Item) error { return nil }
func (*scripted) Close(context.Context) error                  { return nil }

func fails(err error) func(*backends.Call) {
	return func(c *backends.Call) { c.Err = err }
}

// decides answers each item by its key.
func decides(byKey map[string]algorithm.Decision) func(*backends.Call) {
	return func(c *backends.Call) {
		for i := range c.Items {
			c.Items[i].Decision = byKey[c.Items[i].Key]
		}
	}
}

func spec(t *testing.T, l algorithm.Limit) *algorithm.Spec {
	t.Helper()
	s, err := algorithm.NewSpec(l)
	require.NoError(t, err)
	return s
}

func perMinute(t *testing.T, n int64) *algorithm.Spec {
	return spec(t, algorithm.Limit{Requests: n, WindowUS: 60_000_000})
}

func check(keys ...Limit) Check {
	return Check{Limits: keys, Ask: algorithm.Ask{Mode: algorithm.Spend, Cost: 1}}
}

func TestChecksTravelInOneBatch(t *testing.T) {
	five := perMinute(t, 5)
	store := &scripted{answer: decides(map[string]algorithm.Decision{"a": {Allowed: true}, "b": {}, "c": {Allowed: true}})}
	first := &Request{Checks: []Check{check(Limit{"a", five}), check(Limit{"b", five})}}
	second := &Request{Checks: []Check{check(Limit{"c", five})}}
	New(store, Options{}).Decide(first, second)

	require.Len(t, store.batches, 1, "one round trip")
	require.Len(t, store.batches[0].Calls, 3, "independent checks are calls of their own")
	require.True(t, first.Checks[0].Result.Allowed)
	require.False(t, first.Checks[1].Result.Allowed)
	require.True(t, second.Checks[0].Result.Allowed)
}

func TestGroupsAreOneCallWithAMemberPerCheck(t *testing.T) {
	five := perMinute(t, 5)
	store := &scripted{answer: decides(nil)}
	shadow := check(Limit{"c", five})
	shadow.Advisory = true
	r := &Request{AllOrNothing: true, Checks: []Check{check(Limit{"a", five}, Limit{"b", five}), shadow}}
	New(store, Options{}).Decide(r)

	require.Len(t, store.batches[0].Calls, 1)
	items := store.batches[0].Calls[0].Items
	require.Equal(t, []int{0, 0, 1}, []int{items[0].Member, items[1].Member, items[2].Member})
	require.Equal(t, []bool{false, false, true}, []bool{items[0].Advisory, items[1].Advisory, items[2].Advisory})
}

func TestAnswerSpeaksOfTheLimitThatMatters(t *testing.T) {
	ten, hundred := perMinute(t, 10), perMinute(t, 100)
	for name, tt := range map[string]struct {
		a, b algorithm.Decision
		want int
	}{
		"the refusing one":         {algorithm.Decision{Allowed: true}, algorithm.Decision{RetryAfterUS: 1}, 1},
		"the longest wait":         {algorithm.Decision{RetryAfterUS: 9}, algorithm.Decision{RetryAfterUS: 5}, 0},
		"never before any wait":    {algorithm.Decision{RetryAfterUS: 9}, algorithm.Decision{Never: true}, 1},
		"the least share":          {algorithm.Decision{Allowed: true, Remaining: 5}, algorithm.Decision{Allowed: true, Remaining: 20}, 1},
		"first where shares agree": {algorithm.Decision{Allowed: true, Remaining: 5}, algorithm.Decision{Allowed: true, Remaining: 50}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			store := &scripted{answer: decides(map[string]algorithm.Decision{"a": tt.a, "b": tt.b})}
			r := &Request{Checks: []Check{check(Limit{"a", ten}, Limit{"b", hundred})}}
			New(store, Options{}).Decide(r)
			require.Equal(t, tt.want, r.Checks[0].Result.Index)
			require.Equal(t, tt.a.Allowed && tt.b.Allowed, r.Checks[0].Result.Allowed)
			require.Len(t, r.Checks[0].Result.Decisions, 2)
		})
	}
}

func TestBudgetEndsBeforeTheCallers(t *testing.T) {
	start := time.Unix(1_796_094_000, 0)
	five := perMinute(t, 5)
	for name, tt := range map[string]struct {
		callers, want time.Duration // 0: the caller sets none
	}{
		"20 ms less a tenth":       {20 * time.Millisecond, 18 * time.Millisecond},
		"at least a millisecond":   {5 * time.Millisecond, 4 * time.Millisecond},
		"never above the timeout":  {10 * time.Second, 500 * time.Millisecond},
		"the timeout without one":  {0, 500 * time.Millisecond},
		"already past stays past ": {-time.Second, -time.Second - time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			store := &scripted{answer: decides(nil)}
			r := &Request{Checks: []Check{check(Limit{"a", five})}}
			if tt.callers != 0 {
				r.Deadline = start.Add(tt.callers)
			}
			New(store, Options{Now: func() time.Time { return start }}).Decide(r)
			require.Equal(t, tt.want, store.batches[0].Deadline.Sub(start))
		})
	}
}

func TestChargesHaveTheirOwnBudget(t *testing.T) {
	start := time.Unix(1_796_094_000, 0)
	five := perMinute(t, 5)
	postPaid := spec(t, algorithm.Limit{Kind: algorithm.TokenBucket, Requests: 5, WindowUS: 1_000_000, PostPaid: true})
	gone := start.Add(-time.Second)

	refund := check(Limit{"refund", five})
	refund.Ask.Mode = algorithm.Refund
	store := &scripted{answer: decides(nil)}
	New(store, Options{Now: func() time.Time { return start }}).Decide(
		&Request{Deadline: gone, Checks: []Check{refund}},
		&Request{Deadline: gone, Checks: []Check{check(Limit{"paid", postPaid})}},
		&Request{Deadline: start.Add(20 * time.Millisecond), Checks: []Check{check(Limit{"ask", five})}},
	)
	require.Len(t, store.batches, 2)
	require.Equal(t, "ask", store.batches[0].Calls[0].Items[0].Key)
	require.Equal(t, 500*time.Millisecond, store.batches[1].Deadline.Sub(start), "the caller's deadline does not matter")
	require.Len(t, store.batches[1].Calls, 2)
}

func TestFailModes(t *testing.T) {
	five := perMinute(t, 5)
	for _, tt := range []struct {
		mode    FailMode
		allowed bool
		cause   Cause
	}{
		{FailError, false, CauseError},
		{FailAllow, true, CauseOnError},
		{FailDeny, false, CauseOnError},
		{FailLocal, false, CauseError}, // no local store was given
	} {
		t.Run(tt.mode.String(), func(t *testing.T) {
			c := check(Limit{"a", five})
			c.OnError = tt.mode
			r := &Request{Checks: []Check{c}}
			New(&scripted{answer: fails(backends.ErrUnavailable)}, Options{}).Decide(r)
			result := r.Checks[0].Result
			require.Equal(t, tt.allowed, result.Allowed)
			require.Equal(t, tt.cause, result.Cause)
			require.ErrorIs(t, result.Err, backends.ErrUnavailable)
			require.Empty(t, result.Decisions)
			require.Zero(t, result.Decision())
		})
	}
}

func TestAFailedGroupAnswersEachByItsOwnMode(t *testing.T) {
	five := perMinute(t, 5)
	open, closed := check(Limit{"a", five}), check(Limit{"b", five})
	open.OnError, closed.OnError = FailAllow, FailDeny
	r := &Request{AllOrNothing: true, Checks: []Check{open, closed}}
	New(&scripted{answer: fails(backends.ErrTimeout)}, Options{}).Decide(r)
	require.True(t, r.Checks[0].Result.Allowed)
	require.False(t, r.Checks[1].Result.Allowed)
}

func TestLocalDividesTheLimit(t *testing.T) {
	ten := spec(t, algorithm.Limit{Kind: algorithm.TokenBucket, Requests: 10, WindowUS: 60_000_000, Burst: 5})
	var asked *algorithm.Spec
	local := &scripted{answer: func(c *backends.Call) {
		asked = c.Items[0].Spec
		c.Items[0].Decision = algorithm.Decision{Allowed: true, Remaining: 3}
	}}
	c := check(Limit{"a", ten})
	c.OnError = FailLocal
	r := &Request{Checks: []Check{c}}
	New(&scripted{answer: fails(backends.ErrTimeout)}, Options{Local: local, Replicas: 4}).Decide(r)

	require.Equal(t, int64(3), asked.Requests, "10 / 4, rounded up")
	require.Equal(t, int64(2), asked.Burst, "5 / 4, rounded up")
	require.Equal(t, CauseLocal, r.Checks[0].Result.Cause)
	require.True(t, r.Checks[0].Result.Allowed)
	require.ErrorIs(t, r.Checks[0].Result.Err, backends.ErrTimeout)
}

func TestEmptyRequestsNeedNoStore(t *testing.T) {
	store := &scripted{answer: decides(nil)}
	done := 0
	New(store, Options{}).Submit([]*Request{{}, {}}, func() { done++ })
	require.Equal(t, 1, done)
	require.Empty(t, store.batches)
}
