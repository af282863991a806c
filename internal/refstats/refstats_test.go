package refstats

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirhq/weir/pkg/backends/memory"
	"github.com/weirhq/weir/pkg/descriptors"
	"github.com/weirhq/weir/pkg/envoyrls"
	"github.com/weirhq/weir/pkg/limiter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collected is a sink that adds up.
type collected map[string]uint64

func (c collected) Count(list []Counter) {
	for _, one := range list {
		c[one.Name] += one.Value
	}
}
func (collected) Time(string, time.Duration) {}

// show gives what was counted below a prefix, sorted.
func (c collected) show(prefix string) string {
	var out []string
	for name, n := range c {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			out = append(out, fmt.Sprintf("%s=%d", rest, n))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func serve(t *testing.T, rules string, sink Sink, ratio float64, opts envoyrls.Options) (*Stats, func(domain, key, value string, hits uint64)) {
	t.Helper()
	snapshot, problems := descriptors.Load([]descriptors.Source{{Name: "r", Data: []byte(rules)}}, descriptors.Options{})
	require.NotNil(t, snapshot, "%v", problems)
	store := memory.New(memory.Options{SweepEvery: -1, NowUS: func() int64 { return 1_796_083_210_000_000 }})
	t.Cleanup(func() { _ = store.Close(context.Background()) })
	stats := New(sink, Options{NearLimitRatio: ratio, FlushEvery: time.Hour})
	opts.Observer = stats
	service := envoyrls.New(func() *descriptors.Snapshot { return snapshot }, limiter.New(store, limiter.Options{}), opts)
	return stats, func(domain, key, value string, hits uint64) {
		d := &ratelimit.RateLimitDescriptor{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: key, Value: value}}, HitsAddend: wrapperspb.UInt64(hits)}
		_, _ = service.ShouldRateLimit(context.Background(), &rls.RateLimitRequest{Domain: domain, Descriptors: []*ratelimit.RateLimitDescriptor{d}})
	}
}

func TestArithmetic(t *testing.T) {
	for name, tt := range map[string]struct {
		rule string
		hits []uint64
		want string
	}{
		"straddling hits":  {"rate_limit: {unit: hour, requests_per_unit: 5}", []uint64{1, 7, 4}, "near_limit=3 over_limit=7 total_hits=12 within_limit=1"},
		"one by one":       {"rate_limit: {unit: hour, requests_per_unit: 4}", []uint64{1, 1, 1, 1, 1, 1}, "near_limit=2 over_limit=2 total_hits=6 within_limit=4"},
		"shadow":           {"shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}", []uint64{1, 1, 1}, "near_limit=1 over_limit=2 shadow_mode=2 total_hits=3 within_limit=1"},
		"looks":            {"rate_limit: {unit: hour, requests_per_unit: 1}", []uint64{0, 0}, ""},
		"unlimited":        {"rate_limit: {unlimited: true}", []uint64{1, 1}, ""},
		"not counted":      {"rate_limit: {unit: hour, requests_per_unit: 5, count_denied: false}", []uint64{4, 3, 1}, "near_limit=4 over_limit=2 total_hits=8 within_limit=5"},
		"a bucket, denied": {"rate_limit: {unit: hour, requests_per_unit: 2, algorithm: token_bucket}", []uint64{1, 1, 1}, "near_limit=1 over_limit=1 total_hits=3 within_limit=2"},
	} {
		t.Run(name, func(t *testing.T) {
			sink := collected{}
			stats, ask := serve(t, "domain: d\ndescriptors: [{key: k, "+tt.rule+"}]\n", sink, 0.5, envoyrls.Options{})
			for _, n := range tt.hits {
				ask("d", "k", "v", n)
			}
			stats.flush()
			require.Equal(t, tt.want, sink.show("ratelimit.service.rate_limit.d.k."))
		})
	}
}

func TestNames(t *testing.T) {
	sink := collected{}
	stats, ask := serve(t, "domain: d\ndescriptors: [{key: k, value_to_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}]\n", sink, 0.8, envoyrls.Options{ShadowMode: true})
	ask("d", "k", "a:b|c 10.0.0.1", 1)
	ask("d", "k", "x", 1)
	ask("d", "k", "x", 1)
	ask("no.such", "k", "x", 1)
	ask("", "k", "x", 1)
	stats.Loaded(true)
	stats.Loaded(false)
	stats.flush()
	require.Equal(t, "call.should_rate_limit.service_error=1 config_load_error=1 config_load_success=1 global_shadow_mode=1 "+
		"rate_limit.d.k_a_b_c 10_0_0_1.near_limit=1 rate_limit.d.k_a_b_c 10_0_0_1.total_hits=1 rate_limit.d.k_a_b_c 10_0_0_1.within_limit=1 "+
		"rate_limit.d.k_x.near_limit=1 rate_limit.d.k_x.over_limit=1 rate_limit.d.k_x.total_hits=2 rate_limit.d.k_x.within_limit=1 "+
		"rate_limit.no.such.domain_not_found=1", sink.show("ratelimit.service."))
}

func TestRequestsMakeABoundedNumberOfNames(t *testing.T) {
	sink := collected{}
	stats, ask := serve(t, "domain: d\n", sink, 0.8, envoyrls.Options{})
	for i := range maxCounters + 100 {
		ask(fmt.Sprint("domain", i), "k", "v", 1)
	}
	stats.flush()
	require.Len(t, sink, maxCounters+1)
	require.Equal(t, uint64(100), sink[foldedName])
}

func TestPrometheusNames(t *testing.T) {
	for name, tt := range map[string]struct{ mapping, want, metric string }{
		"built in": {"", `
# HELP ratelimit_service_rate_limit_total_hits Metric autogenerated by statsd_exporter.
# TYPE ratelimit_service_rate_limit_total_hits counter
ratelimit_service_rate_limit_total_hits{domain="a.b/c",key1="path_/x.y"} 2
`, "ratelimit_service_rate_limit_total_hits"},
		"a mapping file": {`
mappings:
  - match: 'ratelimit\.service\.rate_limit\.(.*)\.total_hits'
    match_type: regex
    name: hits
    labels: {rule: "$1"}
`, `
# HELP hits Metric autogenerated by statsd_exporter.
# TYPE hits counter
hits{rule="a.b/c.path_/x.y"} 2
`, "hits"},
	} {
		t.Run(name, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			sink, closeSink, err := NewPrometheus(reg, PrometheusOptions{Mapping: tt.mapping})
			require.NoError(t, err)
			stats, ask := serve(t, "domain: a.b/c\ndescriptors: [{key: path, value: /x.y, rate_limit: {unit: hour, requests_per_unit: 1}}]\n", sink, 0.8, envoyrls.Options{})
			ask("a.b/c", "path", "/x.y", 1)
			ask("a.b/c", "path", "/x.y", 1)
			stats.flush()
			sink.Time("ShouldRateLimit", 12*time.Millisecond)
			closeSink()
			require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(tt.want), tt.metric))
			if tt.mapping == "" {
				n, err := testutil.GatherAndCount(reg, "ratelimit_service_response_time_seconds")
				require.NoError(t, err)
				require.Equal(t, 1, n)
			}
		})
	}
	_, _, err := NewPrometheus(prometheus.NewRegistry(), PrometheusOptions{Mapping: "mappings: 5"})
	require.Error(t, err)
}
