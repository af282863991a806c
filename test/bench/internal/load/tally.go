package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	longestLatency = int64(2 * time.Minute)
	latencyDigits  = 3
)

// Result is what a run gave.
type Result struct {
	OK, OverLimit uint64
	Failed        map[string]uint64 // by reason: gRPC status, reset, malformed answer, unanswered
	Elapsed       time.Duration     // from the first request to the last answer
	Latency       *Histogram        // of answers without failure; from the scheduled time where there is a schedule
	Lateness      *Histogram        // how long after its scheduled time a request was written; empty without a schedule
}

// Answered counts the verdicts.
func (r Result) Answered() uint64 { return r.OK + r.OverLimit }

// Failures counts the requests that got no verdict.
func (r Result) Failures() uint64 {
	var n uint64
	for _, count := range r.Failed {
		n += count
	}
	return n
}

// Rate is verdicts per second.
func (r Result) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Answered()) / r.Elapsed.Seconds()
}

func newResult() *Result {
	return &Result{Failed: map[string]uint64{}, Latency: NewHistogram(), Lateness: NewHistogram()}
}

func (r *Result) verdict(code uint64) {
	switch code {
	case codeOK:
		r.OK++
	case codeOverLimit:
		r.OverLimit++
	default:
		r.Failed["overall code UNKNOWN"]++
	}
}

func (r *Result) merge(from *Result) {
	r.OK += from.OK
	r.OverLimit += from.OverLimit
	for reason, n := range from.Failed {
		r.Failed[reason] += n
	}
	r.Latency.h.Merge(from.Latency.h)
	r.Lateness.h.Merge(from.Lateness.h)
}

// Histogram holds durations to three significant digits.
type Histogram struct{ h *hdrhistogram.Histogram }

// NewHistogram gives an empty one.
func NewHistogram() *Histogram {
	return &Histogram{hdrhistogram.New(1, longestLatency, latencyDigits)}
}

// Record adds one duration in nanoseconds; what is out of range counts as the
// nearest end.
func (h *Histogram) Record(ns int64) {
	_ = h.h.RecordValue(min(max(ns, 1), longestLatency)) // in range by the line's own clamp
}

// Count is the number of durations.
func (h *Histogram) Count() int64 { return h.h.TotalCount() }

// At is the duration that the given percentage of all does not exceed.
func (h *Histogram) At(percent float64) time.Duration {
	return time.Duration(h.h.ValueAtPercentile(percent))
}
