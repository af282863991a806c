package headers

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSingleTellsWholeSecondsRoundedUp(t *testing.T) {
	p := Policy{Limit: 3, Remaining: 1, Window: time.Minute, Reset: 1200 * time.Millisecond}
	require.Equal(t, []Field{
		{"RateLimit-Limit", "3"}, {"RateLimit-Remaining", "1"}, {"RateLimit-Reset", "2"},
	}, Single(nil, RateLimitNames, p))

	p.Reset = -1
	require.Equal(t, Field{"X-RateLimit-Reset", "0"}, Single(nil, XRateLimitNames, p)[2])
}

func TestDraft10ListsAllPolicies(t *testing.T) {
	fields := Draft10(nil, []Policy{
		{Name: "burst", Limit: 100, Remaining: 50, Window: time.Minute, Reset: 29500 * time.Millisecond},
		{Name: "daily", Limit: 1 << 60, Remaining: 0, Window: 24 * time.Hour, Reset: -1},
		{Name: "flight", Limit: 5, Remaining: 2},
	})
	require.Equal(t, []Field{
		{"RateLimit-Policy", `"burst";q=100;w=60, "daily";q=999999999999999;w=86400, "flight";q=5;qu="concurrent-requests"`},
		{"RateLimit", `"burst";r=50;t=30, "daily";r=0, "flight";r=2`},
	}, fields)
	require.Empty(t, Draft10(nil, nil))
}

func TestRetryAfterIsNeverEarly(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		time.Microsecond: "1", time.Second: "1", time.Second + 1: "2", 0: "1",
	} {
		require.Equal(t, want, RetryAfter(wait).Value, wait)
	}
}

func TestValidRefusesWhatBreaksMessages(t *testing.T) {
	for _, f := range []Field{
		{"", "x"}, {":status", "200"}, {"a b", "x"}, {"x-a", "1\r\nb: c"}, {"x-a", "nul\x00"}, {"x-a", "\x7f"},
		{"Content-Length", "5"}, {"transfer-encoding", "chunked"}, {"Connection", "close"}, {"HOST", "x"}, {"x\"", "v"}, {"ключ", "v"},
	} {
		require.False(t, Valid(f, true), "%q", f)
		require.False(t, Valid(f, false), "%q", f)
	}
	for _, f := range []Field{{"Content-Type", "application/json"}, {"retry-after", "1"}} {
		require.True(t, Valid(f, true), "%q", f)
		require.False(t, Valid(f, false), "an OK answer must not carry %q", f)
	}
	require.True(t, Valid(Field{"RateLimit", `"a";r=1`}, false))
	require.True(t, Valid(Field{"x-tab", "a\tb"}, false))
}

func TestNameIsSafeInAQuotedString(t *testing.T) {
	require.Equal(t, "plan-free", Name("plan-free"))
	require.Equal(t, "a_b_c__d", Name("a\"b\\c\r\nd"))
	require.Equal(t, "__", Name("ż"))
}

func TestProblemNamesThePolicies(t *testing.T) {
	var body map[string]any
	require.NoError(t, json.Unmarshal(Problem([]string{"burst", `q"uota`}), &body))
	require.Equal(t, []any{"burst", `q"uota`}, body["violated-policies"])
	require.Equal(t, float64(429), body["status"])
}
