package envoyrls

import (
	"context"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirhq/weir/pkg/backends/memory"
	"github.com/weirhq/weir/pkg/descriptors"
	"github.com/weirhq/weir/pkg/limiter"
)

// FuzzRequest sends any bytes as a request: the answer is a verdict with one
// status per descriptor, or an error that names the caller's fault.
func FuzzRequest(f *testing.F) {
	const rules = `
domain: d
all_or_nothing: true
descriptors:
  - {key: k, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: k, value: "a*", share_threshold: true, headers: [draft-10], rate_limit: {name: "n", unit: second, requests_per_unit: 3, algorithm: token_bucket}}
  - {key: l, rate_limits: [{unit: minute, requests_per_unit: 3}, {unit: day, requests_per_unit: 5, algorithm: sliding_window_log}]}
  - {key: c, rate_limit: {requests_per_unit: 2, algorithm: concurrency}}
  - {key: x, exempt: true}
  - {key: q, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
`
	snapshot, problems := descriptors.Load([]descriptors.Source{{Name: "r", Data: []byte(rules)}}, descriptors.Options{})
	if snapshot == nil {
		f.Fatal(problems)
	}
	store := memory.New(memory.Options{SweepEvery: -1, MaxKeys: 5000})
	service := New(func() *descriptors.Snapshot { return snapshot }, limiter.New(store, limiter.Options{}),
		Options{Metadata: MetadataAll, ReferenceMetadata: true, Headers: descriptors.HeadersRateLimit, Body: BodyProblem})

	refund := descriptor("c", "x", "lease", "l")
	refund.IsNegativeHits = true
	huge := descriptor("k", "a1")
	huge.HitsAddend = wrapperspb.UInt64(1<<64 - 1)
	for _, req := range []*rls.RateLimitRequest{
		{Domain: "d", Descriptors: append(append([]*rlDescriptor{}, descriptor("k", "v")), descriptor("l", "v"), descriptor("c", "x"), refund, huge)},
		{Domain: "d", Descriptors: []*rlDescriptor{descriptor("q", "1"), descriptor("x", "1"), {}}},
		{},
	} {
		seed, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		req := &rls.RateLimitRequest{}
		if proto.Unmarshal(data, req) != nil {
			return
		}
		resp, err := service.ShouldRateLimit(context.Background(), req)
		if err != nil {
			if status.Code(err) != codes.InvalidArgument {
				t.Fatalf("%v", err)
			}
			return
		}
		if resp.GetOverallCode() == rls.RateLimitResponse_UNKNOWN || len(resp.GetStatuses()) != len(req.GetDescriptors()) {
			t.Fatalf("%v", resp)
		}
		if _, err := proto.Marshal(resp); err != nil {
			t.Fatalf("the answer cannot be sent: %v", err)
		}
	})
}
