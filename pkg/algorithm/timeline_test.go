package algorithm

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/timelines")

// timelineStart is a multiple of 30 days, so that every usual window but the
// week begins there.
const timelineStart = 600 * 30 * 24 * 3600 * int64(1_000_000)

// TestTimelines plays the files in testdata/timelines: one key each, scripted
// asks and the right answers. A line is
//
//	limit KIND REQUESTS/WINDOW [burst=N] [debt=N] [precision=N] [count_denied] [post_paid] [lease=DURATION]
//	AT MODE COST [LEASE] -> ANSWER
//
// where AT is the time since the start (which begins a window). A second limit
// line changes the numbers and keeps the state.
func TestTimelines(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/timelines/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			got := playTimeline(t, string(want))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(want), got)
		})
	}
}

func playTimeline(t *testing.T, text string) string {
	var (
		out strings.Builder
		s   *Spec
		st  State
	)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		ask, _, _ := strings.Cut(line, "->")
		words := strings.Fields(ask)
		switch {
		case len(words) == 0 || strings.HasPrefix(line, "#"):
			fmt.Fprintln(&out, line)
		case words[0] == "limit":
			s = parseLimit(t, words[1:])
			fmt.Fprintln(&out, line)
		default:
			at, err := time.ParseDuration(words[0])
			require.NoError(t, err, line)
			d := decideAndApply(t, s, &st, timelineStart+at.Microseconds(), parseAsk(t, words[1:]))
			fmt.Fprintf(&out, "%-28s -> %s\n", strings.TrimRight(ask, " "), describe(d))
		}
	}
	return out.String()
}

func parseLimit(t *testing.T, words []string) *Spec {
	var l Limit
	var ok bool
	l.Kind, ok = ParseKind(words[0])
	require.True(t, ok, words[0])
	requests, window, windowed := strings.Cut(words[1], "/")
	l.Requests = parseNumber(t, requests)
	if windowed {
		l.WindowUS = parseDuration(t, window)
	}
	for _, option := range words[2:] {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "burst":
			l.Burst = parseNumber(t, value)
		case "debt":
			l.MaxDebt = parseNumber(t, value)
		case "precision":
			l.Precision = parseNumber(t, value)
		case "count_denied":
			l.CountDenied = true
		case "post_paid":
			l.PostPaid = true
		case "lease":
			l.LeaseTTLUS = parseDuration(t, value)
		default:
			t.Fatalf("unknown option %q", option)
		}
	}
	s, err := NewSpec(l)
	require.NoError(t, err)
	return s
}

func parseAsk(t *testing.T, words []string) Ask {
	ask := Ask{Mode: Mode(len(modeNames))}
	for m, name := range modeNames {
		if name == words[0] {
			ask.Mode = Mode(m)
		}
	}
	require.Less(t, int(ask.Mode), len(modeNames), words[0])
	ask.Cost = parseNumber(t, words[1])
	if len(words) > 2 {
		ask.Lease = words[2]
	}
	return ask
}

func parseNumber(t *testing.T, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}

func parseDuration(t *testing.T, text string) int64 {
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d.Microseconds()
}

// describe leaves out what is 0 beyond the verdict and what is left.
func describe(d Decision) string {
	text := "no"
	if d.Allowed {
		text = "ok"
	} else if d.Never {
		text = "never"
	}
	text += fmt.Sprintf(" left %d", d.Remaining)
	for _, part := range []struct {
		name string
		n    int64
	}{{"taken", d.Taken}, {"used", d.Used}} {
		if part.n != 0 {
			text += fmt.Sprintf(" %s %d", part.name, part.n)
		}
	}
	for _, part := range []struct {
		name string
		us   int64
	}{{"retry", d.RetryAfterUS}, {"reset", d.ResetAfterUS}} {
		if part.us != 0 {
			text += fmt.Sprintf(" %s %s", part.name, time.Duration(part.us)*time.Microsecond)
		}
	}
	return text
}
