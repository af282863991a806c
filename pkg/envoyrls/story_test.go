package envoyrls

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weirhq/weir/pkg/backends/memory"
	"github.com/weirhq/weir/pkg/descriptors"
	"github.com/weirhq/weir/pkg/limiter"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata")

// start is 00:00:10 of a minute, an hour and a day.
const start = 1_796_083_200_000_000 + 10_000_000

// world is a service over the memory store under a clock that stands still
// until it is moved.
type world struct {
	t     *testing.T
	nowUS int64
	opts  Options
	rules string
	store *memory.Store
	svc   *Service
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, nowUS: start}
	w.store = memory.New(memory.Options{NowUS: func() int64 { return w.nowUS }})
	t.Cleanup(func() { require.NoError(t, w.store.Close(context.Background())) })
	return w
}

// serve builds the service when it is first needed, and after each change.
func (w *world) serve() *Service {
	if w.svc == nil {
		snapshot, problems := descriptors.Load([]descriptors.Source{{Name: "rules.yaml", Data: []byte(w.rules)}}, descriptors.Options{})
		require.NotNil(w.t, snapshot, "%v", problems)
		decider := limiter.New(w.store, limiter.Options{})
		w.svc = New(func() *descriptors.Snapshot { return snapshot }, decider, w.opts)
	}
	return w.svc
}

func (w *world) ask(text string) string {
	req := &rls.RateLimitRequest{}
	require.NoError(w.t, protojson.Unmarshal([]byte(expand(text)), req), text)
	resp, err := w.serve().ShouldRateLimit(context.Background(), req)
	return render(resp, err)
}

// expand turns the short form of a request ("domain a=1,b=2 c=3 hits=2 day=5")
// into JSON; text that starts with { is JSON already. A word is a descriptor of
// comma separated entries, with suffixes *N (hits), *-N (refund), and @N/UNIT
// (override).
func expand(text string) string {
	if strings.HasPrefix(text, "{") {
		return text
	}
	words := strings.Fields(text)
	req := map[string]any{"domain": words[0]}
	list := []any{}
	for _, word := range words[1:] {
		list = append(list, descriptorOf(word))
	}
	req["descriptors"] = list
	out, _ := json.Marshal(req)
	return string(out)
}

func descriptorOf(word string) map[string]any {
	d := map[string]any{}
	if body, n, ok := strings.Cut(word, "@"); ok {
		rpu, unit, _ := strings.Cut(n, "/")
		d["limit"] = map[string]any{"requestsPerUnit": json.Number(rpu), "unit": unit}
		word = body
	}
	if body, n, ok := strings.Cut(word, "*"); ok {
		if rest, negative := strings.CutPrefix(n, "-"); negative {
			d["isNegativeHits"], n = true, rest
		}
		d["hitsAddend"], word = n, body
	}
	entries := []any{}
	for _, pair := range strings.Split(word, ",") {
		k, v, _ := strings.Cut(pair, "=")
		entries = append(entries, map[string]any{"key": k, "value": v})
	}
	d["entries"] = entries
	return d
}

func render(resp *rls.RateLimitResponse, err error) string {
	if err != nil {
		s, _ := status.FromError(err)
		return fmt.Sprintf("gRPC %s: %s", s.Code(), s.Message())
	}
	var b strings.Builder
	b.WriteString(resp.GetOverallCode().String())
	for _, s := range resp.GetStatuses() {
		b.WriteString(" [" + s.GetCode().String())
		if l := s.GetCurrentLimit(); l != nil {
			fmt.Fprintf(&b, " %d/", l.GetRequestsPerUnit())
			if l.GetUnitMultiplier() != nil {
				fmt.Fprintf(&b, "%d×", l.GetUnitMultiplier().GetValue())
			}
			b.WriteString(l.GetUnit().String())
			if l.GetName() != "" {
				b.WriteString(" name=" + l.GetName())
			}
			fmt.Fprintf(&b, " left=%d", s.GetLimitRemaining())
		} else if s.GetLimitRemaining() > 0 {
			fmt.Fprintf(&b, " left=%d", s.GetLimitRemaining())
		}
		if d := s.GetDurationUntilReset(); d != nil {
			b.WriteString(" reset=" + d.AsDuration().String())
		}
		b.WriteString("]")
	}
	for _, h := range resp.GetResponseHeadersToAdd() {
		fmt.Fprintf(&b, "\n  %s: %s", h.GetKey(), h.GetValue())
	}
	if len(resp.GetRawBody()) > 0 {
		fmt.Fprintf(&b, "\n  body %q", resp.GetRawBody())
	}
	if m := resp.GetDynamicMetadata(); m != nil {
		b.WriteString("\n  meta")
		keys := make([]string, 0, len(m.GetFields()))
		for k := range m.GetFields() {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			value, _ := json.Marshal(m.GetFields()[k].AsInterface())
			if k == "lease" {
				value = []byte("*")
			}
			fmt.Fprintf(&b, " %s=%s", k, value)
		}
	}
	return b.String()
}

// TestStories plays testdata/*.txt: rules, options, requests and moves of the
// clock, each request followed by its answer.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			got := play(t, string(text))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(text), got)
		})
	}
}

func play(t *testing.T, text string) string {
	w := newWorld(t)
	var out strings.Builder
	lines := bufio.NewScanner(strings.NewReader(text))
	inRules := false
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "  ") && !inRules || isAnswer(line) {
			continue // written anew
		}
		out.WriteString(line + "\n")
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "rules:":
			inRules, w.rules, w.svc = true, "", nil
		case inRules && line == "end":
			inRules = false
		case inRules:
			w.rules += line + "\n"
		case word == "options":
			w.opts, w.svc = optionsOf(t, rest), nil
		case word == "wait":
			d, err := time.ParseDuration(rest)
			require.NoError(t, err)
			w.nowUS += d.Microseconds()
		case word == "ask":
			out.WriteString(w.ask(rest) + "\n")
		case line != "" && !strings.HasPrefix(line, "#"):
			t.Fatalf("unknown line %q", line)
		}
	}
	return out.String()
}

func isAnswer(line string) bool {
	for _, p := range []string{"OK", "OVER_LIMIT", "gRPC "} {
		if strings.HasPrefix(line, p) {
			return true
		}
	}
	return false
}

func optionsOf(t *testing.T, words string) Options {
	o := Options{NoRetryAfter: true, Metadata: MetadataOff}
	for _, word := range strings.Fields(words) {
		switch word {
		case "retry-after":
			o.NoRetryAfter = false
		case "ratelimit":
			o.Headers |= descriptors.HeadersRateLimit
		case "x-ratelimit":
			o.Headers |= descriptors.HeadersXRateLimit
		case "draft-10":
			o.Headers |= descriptors.HeadersDraft10
		case "shadow":
			o.ShadowMode = true
		case "quota":
			o.QuotaMode = true
		case "all-or-nothing":
			o.AllOrNothing = true
		case "limits=refusing":
			o.StatusLimits = StatusLimitsRefusing
		case "limits=enforced":
			o.StatusLimits = StatusLimitsEnforced
		case "metadata":
			o.Metadata = MetadataAll
		case "metadata=refused":
			o.Metadata = MetadataRefused
		case "reference-metadata":
			o.ReferenceMetadata = true
		case "body=text":
			o.Body = BodyText
		case "body=problem":
			o.Body = BodyProblem
		default:
			t.Fatalf("unknown option %q", word)
		}
	}
	return o
}

type rlDescriptor = ratelimit.RateLimitDescriptor

// descriptor makes one descriptor of pairs of key and value.
func descriptor(pairs ...string) *ratelimit.RateLimitDescriptor {
	d := &ratelimit.RateLimitDescriptor{}
	for i := 0; i+1 < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}
