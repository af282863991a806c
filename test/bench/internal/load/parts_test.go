package load

import (
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

func TestHistogramKeepsThreeDigits(t *testing.T) {
	h := NewHistogram()
	for us := range int64(100_000) {
		h.Record((us + 1) * 1000)
	}
	require.EqualValues(t, 100_000, h.Count())
	require.InEpsilon(t, 50*time.Millisecond, h.At(50), 0.001)
	require.InEpsilon(t, 99*time.Millisecond, h.At(99), 0.001)
	require.InEpsilon(t, 99_900*time.Microsecond, h.At(99.9), 0.001)
	require.InEpsilon(t, 100*time.Millisecond, h.At(100), 0.001)

	h.Record(-5)
	h.Record(int64(time.Hour)) // neither is lost
	require.EqualValues(t, 100_002, h.Count())
	require.InEpsilon(t, 2*time.Minute, h.At(100), 0.001)
}

func TestResultsAddUp(t *testing.T) {
	a, b := newResult(), newResult()
	a.verdict(codeOK)
	a.Failed["reset"] = 2
	b.verdict(codeOverLimit)
	b.verdict(codeOverLimit)
	b.Failed["reset"] = 1
	b.Latency.Record(1000)
	a.merge(b)
	a.Elapsed = 500 * time.Millisecond
	require.EqualValues(t, 1, a.OK)
	require.EqualValues(t, 2, a.OverLimit)
	require.EqualValues(t, 3, a.Failures())
	require.EqualValues(t, 1, a.Latency.Count())
	require.InDelta(t, 6, a.Rate(), 1e-9)
	require.Zero(t, Result{}.Rate())
}

func TestHeaderBlocksShareOneTable(t *testing.T) {
	for _, table := range []uint32{0, 100, 4096, 1 << 20} {
		first, later := headerBlocks("127.0.0.1:8081", 20*time.Millisecond, table)
		dec := hpack.NewDecoder(4096, nil)
		want, err := dec.DecodeFull(first)
		require.NoError(t, err)
		require.Len(t, want, 7)
		require.Equal(t, hpack.HeaderField{Name: "grpc-timeout", Value: "20m"}, want[6])
		for range 3 {
			got, err := dec.DecodeFull(later)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		if table >= 4096 {
			require.Len(t, later, 7) // an index each
		}
	}
}

func TestTimeoutText(t *testing.T) {
	require.Equal(t, "20m", grpcTimeout(20*time.Millisecond))
	require.Equal(t, "500u", grpcTimeout(500*time.Microsecond))
	require.Equal(t, "99999999m", grpcTimeout(1000*time.Hour))
}

func TestDrawers(t *testing.T) {
	shape := Shape{Keys: 1000}
	count := func(d Distribution) map[int]int {
		shape.Keyed = d
		draw, seen := shape.drawer(7), map[int]int{}
		for range 50_000 {
			seen[draw()]++
		}
		return seen
	}
	require.Equal(t, map[int]int{0: 50_000}, count(OneKey))

	uniform := count(Uniform)
	require.Len(t, uniform, 1000)
	require.InDelta(t, 50, uniform[0], 40)

	zipf := count(Zipf)
	require.Greater(t, zipf[0], 5000)
	require.Greater(t, zipf[0], zipf[1])
	require.Greater(t, zipf[1], zipf[10])
	for key := range zipf {
		require.Less(t, key, 1000)
	}
}

func TestParseAnswer(t *testing.T) {
	encode := func(r *rlsv3.RateLimitResponse) []byte {
		msg, err := proto.Marshal(r)
		require.NoError(t, err)
		return append([]byte{0, 0, 0, byte(len(msg) >> 8), byte(len(msg))}, msg...)
	}
	full := encode(&rlsv3.RateLimitResponse{
		OverallCode: rlsv3.RateLimitResponse_OVER_LIMIT,
		Statuses:    []*rlsv3.RateLimitResponse_DescriptorStatus{{LimitRemaining: 3}, {}},
		RawBody:     []byte("slow down"),
	})
	got, err := parseAnswer(full)
	require.NoError(t, err)
	require.Equal(t, verdict{code: codeOverLimit, statuses: 2}, got)

	empty, err := parseAnswer(encode(&rlsv3.RateLimitResponse{}))
	require.NoError(t, err)
	require.Zero(t, empty)

	for n := range full {
		_, err := parseAnswer(full[:n])
		require.ErrorIs(t, err, errAnswer, "first %d bytes", n)
	}
	compressed := append([]byte{1}, full[1:]...)
	_, err = parseAnswer(compressed)
	require.ErrorIs(t, err, errAnswer)
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 8, 1})
	f.Add([]byte{0, 0, 0, 0, 4, 0x12, 2, 8, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := parseAnswer(data)
		if err != nil {
			return
		}
		var want rlsv3.RateLimitResponse
		if proto.Unmarshal(data[messagePrefix:], &want) == nil && v.statuses != len(want.GetStatuses()) {
			t.Fatalf("%d statuses, protobuf reads %d", v.statuses, len(want.GetStatuses()))
		}
	})
}
