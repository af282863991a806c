package compat

import (
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc/status"
)

// answer is one reply with its timing.
type answer struct {
	resp *rls.RateLimitResponse
	err  error
	at   time.Time // when it came
	took time.Duration
}

// code is the overall code, or "gRPC Code".
func (a *answer) code() string {
	if a.err != nil {
		return "gRPC " + status.Code(a.err).String()
	}
	return a.resp.GetOverallCode().String()
}

// line renders an answer as `expect` writes it.
func (a *answer) line() string {
	if a.err != nil {
		return a.code()
	}
	var b strings.Builder
	b.WriteString(a.code())
	for _, s := range a.resp.GetStatuses() {
		b.WriteString(" [" + s.GetCode().String())
		if l := s.GetCurrentLimit(); l != nil {
			fmt.Fprintf(&b, " %d/%s", l.GetRequestsPerUnit(), l.GetUnit())
			if l.GetName() != "" {
				b.WriteString(" name=" + l.GetName())
			}
			fmt.Fprintf(&b, " left=%d", s.GetLimitRemaining())
		}
		if s.GetDurationUntilReset() != nil {
			b.WriteString(" reset")
		}
		b.WriteString("]")
	}
	var headers []string
	for _, h := range a.resp.GetResponseHeadersToAdd() {
		value := h.GetValue()
		if name := strings.ToLower(h.GetKey()); strings.Contains(name, "reset") || name == "retry-after" {
			value = "*"
		}
		headers = append(headers, " "+h.GetKey()+"="+value)
	}
	sort.Strings(headers)
	b.WriteString(strings.Join(headers, ""))
	if body := a.resp.GetRawBody(); len(body) > 0 {
		b.WriteString(" body=" + string(body))
	}
	if a.resp.GetDynamicMetadata() != nil {
		b.WriteString(" meta=" + a.metadata())
	}
	return b.String()
}

func (a *answer) metadata() string {
	text, _ := json.Marshal(a.resp.GetDynamicMetadata().AsMap())
	return string(text)
}

func (a *answer) header(name string) (string, bool) {
	for _, h := range a.resp.GetResponseHeadersToAdd() {
		if strings.EqualFold(h.GetKey(), name) {
			return h.GetValue(), true
		}
	}
	return "", false
}

// bounds is a number or a range: 5, 3..7, 3.., ..7.
type bounds struct{ least, most int64 }

const unbounded = int64(1) << 62

func parseBounds(text string) (bounds, error) {
	from, to, isRange := strings.Cut(text, "..")
	b := bounds{-unbounded, unbounded}
	var err error
	if from != "" || !isRange {
		if b.least, err = strconv.ParseInt(from, 10, 64); err != nil {
			return b, fmt.Errorf("%q is no number or range", text)
		}
		if !isRange {
			b.most = b.least
		}
	}
	if to != "" {
		if b.most, err = strconv.ParseInt(to, 10, 64); err != nil {
			return b, fmt.Errorf("%q is no number or range", text)
		}
	}
	return b, nil
}

func (b bounds) holds(n int64) bool { return n >= b.least && n <= b.most }

func (b *bounds) UnmarshalYAML(n *yaml.Node) (err error) {
	*b, err = parseBounds(n.Value)
	return err
}

// boundsList is one range, or one for each status.
type boundsList []bounds

func (l *boundsList) UnmarshalYAML(n *yaml.Node) error {
	nodes := n.Content
	if n.Kind == yaml.ScalarNode {
		nodes = []*yaml.Node{n}
	}
	for _, e := range nodes {
		b, err := parseBounds(e.Value)
		if err != nil {
			return err
		}
		*l = append(*l, b)
	}
	return nil
}

// expected is one element of the short form: "OVER 7/!0".
type expected struct {
	code     string
	statuses []expectedStatus // nil: not looked at
}

type expectedStatus struct {
	any      bool
	refusing bool
	left     bounds
}

// parseAnswers reads the short form: "OK 4, OK 3/!0, OVER 0 x3, Unavailable".
func parseAnswers(text string) ([]expected, error) {
	var out []expected
	for part := range strings.SplitSeq(text, ",") {
		words := strings.Fields(part)
		if len(words) == 0 {
			return nil, fmt.Errorf("%q has an empty element", text)
		}
		times := 1
		if last := words[len(words)-1]; len(words) > 1 && strings.HasPrefix(last, "x") {
			n, err := strconv.Atoi(last[1:])
			if err != nil {
				return nil, fmt.Errorf("%q: %w", part, err)
			}
			times, words = n, words[:len(words)-1]
		}
		e := expected{code: map[string]string{"OK": "OK", "OVER": "OVER_LIMIT"}[words[0]]}
		if e.code == "" {
			e.code = "gRPC " + words[0]
		}
		if len(words) > 2 {
			return nil, fmt.Errorf("%q has too many words", part)
		}
		if len(words) == 2 {
			statuses, err := parseStatuses(words[1], e.code == "OVER_LIMIT")
			if err != nil {
				return nil, err
			}
			e.statuses = statuses
		}
		for range times {
			out = append(out, e)
		}
	}
	return out, nil
}

func parseStatuses(text string, over bool) ([]expectedStatus, error) {
	parts := strings.Split(text, "/")
	out := make([]expectedStatus, len(parts))
	for i, p := range parts {
		out[i].refusing = len(parts) == 1 && over
		if rest, ok := strings.CutPrefix(p, "!"); ok {
			out[i].refusing, p = true, rest
		}
		if p == "-" {
			out[i].any = true
			continue
		}
		b, err := parseBounds(p)
		if err != nil {
			return nil, err
		}
		out[i].left = b
	}
	return out, nil
}

func (e *expected) check(a *answer) error {
	if a.code() != e.code {
		return fmt.Errorf("want %s, got %s", e.code, a.line())
	}
	if e.statuses == nil {
		return nil
	}
	got := a.resp.GetStatuses()
	if len(got) != len(e.statuses) {
		return fmt.Errorf("want %d statuses, got %s", len(e.statuses), a.line())
	}
	for i, want := range e.statuses {
		if want.any {
			continue
		}
		if refusing := got[i].GetCode() == rls.RateLimitResponse_OVER_LIMIT; refusing != want.refusing {
			return fmt.Errorf("status %d: refusing %t, got %s", i, want.refusing, a.line())
		}
		if !want.left.holds(int64(got[i].GetLimitRemaining())) {
			return fmt.Errorf("status %d: left is not in %d..%d, got %s", i, want.left.least, want.left.most, a.line())
		}
	}
	return nil
}

// check holds all answers of a request step against what is expected.
func (s *step) check(answers []*answer) error {
	var problems []string
	add := func(err error) {
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	if s.Expect != "" {
		add(checkLines(strings.Split(strings.TrimSpace(s.Expect), "\n"), answers))
	}
	if s.Answers != "" {
		add(checkAnswers(s.Answers, answers))
	}
	if s.Count != nil {
		add(checkCount(s.Count, answers))
	}
	for i, a := range answers {
		if err := s.checkOne(a); err != nil {
			add(fmt.Errorf("answer %d: %w", i+1, err))
			break
		}
	}
	if s.StableReset {
		add(checkStableReset(answers))
	}
	if s.Within != nil {
		add(checkWithin(answers, time.Duration(*s.Within), s.Slow))
	}
	if problems == nil {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(problems, "; "))
}

func checkLines(want []string, answers []*answer) error {
	if len(want) != len(answers) {
		return fmt.Errorf("want %d answers, got %d", len(want), len(answers))
	}
	for i, a := range answers {
		if got := a.line(); got != strings.TrimSpace(want[i]) {
			return fmt.Errorf("answer %d: want %s, got %s", i+1, want[i], got)
		}
	}
	return nil
}

func checkAnswers(text string, answers []*answer) error {
	want, err := parseAnswers(text)
	if err != nil {
		return err
	}
	if len(want) != len(answers) {
		return fmt.Errorf("want %d answers, got %d", len(want), len(answers))
	}
	for i := range want {
		if err := want[i].check(answers[i]); err != nil {
			return fmt.Errorf("answer %d: %w", i+1, err)
		}
	}
	return nil
}

func checkCount(want map[string]string, answers []*answer) error {
	got := map[string]int64{}
	for _, a := range answers {
		got[a.code()]++
	}
	for code, text := range want {
		b, err := parseBounds(text)
		if err != nil {
			return err
		}
		if !b.holds(got[code]) {
			return fmt.Errorf("want %s %s times, got %v", code, text, got)
		}
	}
	for code := range got {
		if _, ok := want[code]; !ok {
			return fmt.Errorf("unexpected %s: got %v", code, got)
		}
	}
	return nil
}

func (s *step) checkOne(a *answer) error {
	if s.Match != "" {
		re, err := regexp.Compile(s.Match)
		if err != nil {
			return err
		}
		if !re.MatchString(a.line()) {
			return fmt.Errorf("%s does not match %s", a.line(), s.Match)
		}
	}
	for i, st := range a.resp.GetStatuses() {
		if s.Left != nil && !s.Left.holds(int64(st.GetLimitRemaining())) {
			return fmt.Errorf("left is not in %d..%d: %s", s.Left.least, s.Left.most, a.line())
		}
		if len(s.Reset) > 0 {
			want := s.Reset[min(i, len(s.Reset)-1)]
			reset := st.GetDurationUntilReset()
			if reset == nil || reset.GetNanos() != 0 || !want.holds(reset.GetSeconds()) {
				return fmt.Errorf("status %d: reset %v is not in whole seconds %d..%d", i, reset.AsDuration(), want.least, want.most)
			}
		}
		if s.Window != nil {
			if got := windowOf(st.GetCurrentLimit()); got != time.Duration(*s.Window) {
				return fmt.Errorf("window is %s, want %s", got, s.Window)
			}
		}
	}
	if (s.Left != nil || len(s.Reset) > 0 || s.Window != nil) && len(a.resp.GetStatuses()) == 0 {
		return fmt.Errorf("no status in %s", a.line())
	}
	for name, want := range s.Headers {
		if err := checkHeader(a, name, want); err != nil {
			return err
		}
	}
	return checkMetadata(a, s.Metadata)
}

func checkHeader(a *answer, name, want string) error {
	value, present := a.header(name)
	switch {
	case want == "absent":
		if present {
			return fmt.Errorf("header %s is there: %q", name, value)
		}
		return nil
	case !present:
		return fmt.Errorf("header %s is absent", name)
	case want == "present":
		return nil
	case len(want) > 1 && strings.HasPrefix(want, "/") && strings.HasSuffix(want, "/"):
		if ok, err := regexp.MatchString(want[1:len(want)-1], value); err != nil || !ok {
			return fmt.Errorf("header %s: %q does not match %s", name, value, want)
		}
		return nil
	case strings.Contains(want, ".."):
		b, err := parseBounds(want)
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || !b.holds(n) {
			return fmt.Errorf("header %s: %q is not in %s", name, value, want)
		}
		return nil
	case value != want:
		return fmt.Errorf("header %s: want %q, got %q", name, want, value)
	}
	return nil
}

func checkMetadata(a *answer, want string) error {
	present := a.resp.GetDynamicMetadata() != nil
	switch {
	case want == "":
		return nil
	case want == "absent":
		if present {
			return fmt.Errorf("metadata is there: %s", a.metadata())
		}
	case !present:
		return fmt.Errorf("metadata is absent")
	case want != "present" && !strings.Contains(a.metadata(), want):
		return fmt.Errorf("metadata %s does not hold %q", a.metadata(), want)
	}
	return nil
}

var unitLengths = map[rls.RateLimitResponse_RateLimit_Unit]time.Duration{
	rls.RateLimitResponse_RateLimit_SECOND: time.Second, rls.RateLimitResponse_RateLimit_MINUTE: time.Minute,
	rls.RateLimitResponse_RateLimit_HOUR: time.Hour, rls.RateLimitResponse_RateLimit_DAY: 24 * time.Hour,
	rls.RateLimitResponse_RateLimit_WEEK: 168 * time.Hour, rls.RateLimitResponse_RateLimit_MONTH: 720 * time.Hour,
	rls.RateLimitResponse_RateLimit_YEAR: 8760 * time.Hour,
}

func windowOf(l *rls.RateLimitResponse_RateLimit) time.Duration {
	n := uint32(1)
	if l.GetUnitMultiplier() != nil {
		n = l.GetUnitMultiplier().GetValue()
	}
	return time.Duration(n) * unitLengths[l.GetUnit()]
}

// checkStableReset wants now + reset to be one instant, as far as whole seconds
// can tell it.
func checkStableReset(answers []*answer) error {
	var first, last time.Time
	for _, a := range answers {
		for _, s := range a.resp.GetStatuses() {
			end := a.at.Add(s.GetDurationUntilReset().AsDuration())
			if first.IsZero() || end.Before(first) {
				first = end
			}
			if end.After(last) {
				last = end
			}
		}
	}
	if spread := last.Sub(first); first.IsZero() || spread > time.Second+100*time.Millisecond {
		return fmt.Errorf("the reset wanders by %s", spread)
	}
	return nil
}

func checkWithin(answers []*answer, within time.Duration, slow int) error {
	late, worst := 0, time.Duration(0)
	for _, a := range answers {
		if a.took > within {
			late++
			worst = max(worst, a.took)
		}
	}
	if late > slow {
		return fmt.Errorf("%d answers took longer than %s, up to %s", late, within, worst)
	}
	return nil
}
