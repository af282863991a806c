package metrics

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/pkg/backends/memory"
	"github.com/weirhq/weir/pkg/descriptors"
	"github.com/weirhq/weir/pkg/envoyrls"
	"github.com/weirhq/weir/pkg/limiter"
)

// world is a service with metrics over the memory store.
type world struct {
	t *testing.T
	m *Metrics
	s *envoyrls.Service
}

func newWorld(t *testing.T, rules string) *world {
	t.Helper()
	snapshot, problems := descriptors.Load([]descriptors.Source{{Name: "r", Data: []byte(rules)}}, descriptors.Options{})
	require.NotNil(t, snapshot, "%v", problems)
	store := memory.New(memory.Options{SweepEvery: -1})
	t.Cleanup(func() { _ = store.Close(context.Background()) })
	m := New("memory")
	m.Loaded(snapshot, time.Unix(100, 0))
	return &world{t, m, envoyrls.New(func() *descriptors.Snapshot { return snapshot }, limiter.New(store, limiter.Options{}), envoyrls.Options{Observer: m})}
}

func (w *world) ask(domain, key, value string) {
	_, _ = w.s.ShouldRateLimit(context.Background(), &rls.RateLimitRequest{
		Domain: domain, Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: key, Value: value}}}},
	})
}

func (w *world) expect(name, want string) {
	w.t.Helper()
	require.NoError(w.t, testutil.GatherAndCompare(w.m.Registry, strings.NewReader(want), name))
}

func TestDecisionsAgreeWithTheVerdicts(t *testing.T) {
	w := newWorld(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 2}}, {key: s, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}]\n")
	for range 3 {
		w.ask("d", "k", "a")
		w.ask("d", "s", "a")
	}
	w.ask("d", "none", "a")
	w.ask("", "k", "a")
	w.expect("weir_decisions_total", `
# HELP weir_decisions_total Decided descriptors by rule, verdict and what the verdict rests on.
# TYPE weir_decisions_total counter
weir_decisions_total{cause="limit",domain="d",rule="k",verdict="ok"} 2
weir_decisions_total{cause="limit",domain="d",rule="k",verdict="over_limit"} 1
weir_decisions_total{cause="limit",domain="d",rule="s",verdict="ok"} 1
weir_decisions_total{cause="limit",domain="d",rule="s",verdict="over_limit"} 0
weir_decisions_total{cause="limit",domain="d",rule="s",verdict="shadow"} 2
`)
	w.expect("weir_requests_total", `
# HELP weir_requests_total Rate limit calls by gRPC code and overall verdict.
# TYPE weir_requests_total counter
weir_requests_total{code="InvalidArgument",verdict="error"} 1
weir_requests_total{code="OK",verdict="ok"} 6
weir_requests_total{code="OK",verdict="over_limit"} 1
`)
}

func TestNoRequestMakesSeries(t *testing.T) {
	w := newWorld(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 2}}]\n")
	count := func() int {
		n, err := testutil.GatherAndCount(w.m.Registry)
		require.NoError(t, err)
		return n
	}
	w.ask("d", "k", "warm")
	before := count()
	for i := range 200 {
		w.ask("d", "k", fmt.Sprint(i))
		w.ask(fmt.Sprint("domain", i), "k", "a")
		w.ask("d", fmt.Sprint("key", i), "\xff\"\n|:.")
	}
	require.Equal(t, before, count())
}

func TestManyRulesAreFolded(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("domain: d\ndescriptors:\n")
	for i := range maxRules + 5 {
		fmt.Fprintf(&rules, "  - {key: k, value: v%d, rate_limit: {unit: hour, requests_per_unit: 2}}\n", i)
	}
	w := newWorld(t, rules.String())
	w.ask("d", "k", fmt.Sprint("v", maxRules+1))
	w.ask("d", "k", "v0")
	require.InDelta(t, 5, testutil.ToFloat64(w.m.folded), 0)
	require.InDelta(t, 1, testutil.ToFloat64(w.m.decisions.WithLabelValues("d", otherRule, verdictOK, "limit")), 0)
	require.InDelta(t, 1, testutil.ToFloat64(w.m.decisions.WithLabelValues("d", "k_v0", verdictOK, "limit")), 0)
}
