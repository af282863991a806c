package main

import (
	"slices"
	"time"
)

// metric reads one number from a sample.
type metric func(sample) float64

func perRequest(total time.Duration, s sample) float64 {
	if s.Answered() == 0 {
		return 0
	}
	return float64(total.Nanoseconds()) / 1000 / float64(s.Answered())
}

// The metrics; times are in µs, latencies in ms.
func requestRate(s sample) float64 { return s.Rate() }
func serverCPU(s sample) float64   { return perRequest(s.server, s) }
func redisCPU(s sample) float64    { return perRequest(s.redis, s) }
func driverCPU(s sample) float64   { return perRequest(s.driver, s) }
func redisCall(s sample) float64   { return float64(s.calls.PerCall().Nanoseconds()) / 1000 }
func strangers(s sample) float64   { return s.strangers }

func redisCalls(s sample) float64 {
	if s.Answered() == 0 {
		return 0
	}
	return float64(s.calls.Count) / float64(s.Answered())
}

func refused(s sample) float64 {
	if s.Answered() == 0 {
		return 0
	}
	return float64(s.OverLimit) / float64(s.Answered())
}

func latency(percent float64) metric {
	return func(s sample) float64 { return float64(s.Latency.At(percent).Nanoseconds()) / 1e6 }
}

func lateness(percent float64) metric {
	return func(s sample) float64 { return float64(s.Lateness.At(percent).Nanoseconds()) / 1e6 }
}

// spread is the middle and the ends of what the rounds showed.
type spread struct{ median, least, most float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return spread{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]}
}

func (e *entry) spread(m metric) spread {
	values := make([]float64, len(e.samples))
	for i, s := range e.samples {
		values[i] = m(s)
	}
	return spreadOf(values)
}

// ratio compares two entries round by round; rounds in which the second shows
// nothing are left out.
func ratio(a, b *entry, m metric) (spread, bool) {
	if a == nil || b == nil {
		return spread{}, false
	}
	var values []float64
	for i := range min(len(a.samples), len(b.samples)) {
		if base := m(b.samples[i]); base > 0 {
			values = append(values, m(a.samples[i])/base)
		}
	}
	return spreadOf(values), len(values) > 0
}

// total is all rounds as one sample, without latencies: what is rare but dear,
// such as a garbage collection, shows in it and not in a median.
func (e *entry) total() sample {
	var t sample
	for _, s := range e.samples {
		t.OK += s.OK
		t.OverLimit += s.OverLimit
		t.Elapsed += s.Elapsed
		t.server += s.server
		t.redis += s.redis
		t.calls.Count += s.calls.Count
		t.calls.Spent += s.calls.Spent
	}
	return t
}
