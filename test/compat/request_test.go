package compat

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// message builds the n-th request of a step.
func (r *request) message(n int64) (*rls.RateLimitRequest, error) {
	out := &rls.RateLimitRequest{Domain: r.Domain, HitsAddend: r.Hits}
	for _, d := range r.Descriptors {
		one, err := r.descriptor(&d, n)
		if err != nil {
			return nil, err
		}
		for range max(1, r.Copies) {
			out.Descriptors = append(out.Descriptors, one)
		}
	}
	return out, nil
}

func (r *request) descriptor(d *descriptor, n int64) (*ratelimit.RateLimitDescriptor, error) {
	out := &ratelimit.RateLimitDescriptor{IsNegativeHits: d.Negative}
	if d.Hits != nil {
		out.HitsAddend = wrapperspb.UInt64(*d.Hits)
	}
	for _, pair := range d.Entries {
		for key, value := range pair {
			if key == r.Unique {
				value += "-" + strconv.FormatInt(n, 10)
			}
			if width := r.Pad[key]; width > len(value) {
				value += strings.Repeat("x", width-len(value))
			}
			out.Entries = append(out.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
	}
	if d.Limit == nil {
		return out, nil
	}
	unit, err := unitNumber(d.Limit.Unit)
	if err != nil {
		return nil, err
	}
	out.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: d.Limit.RPU, Unit: typev3.RateLimitUnit(unit)}
	if d.Limit.Multiplier != nil {
		out.Limit.UnitMultiplier = wrapperspb.UInt32(*d.Limit.Multiplier)
	}
	return out, nil
}

func unitNumber(name string) (int32, error) {
	if n, ok := typev3.RateLimitUnit_value[name]; ok {
		return n, nil
	}
	if name == "WEEK" {
		return 7, nil
	}
	n, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("unit %q: %w", name, err)
	}
	return int32(n), nil
}

// run sends the requests of a step and gives the answers in order of sending.
func (w *world) run(r *request) ([]*answer, error) {
	targets, err := w.targets(r.Server)
	if err != nil {
		return nil, err
	}
	switch {
	case r.For > 0:
		return w.runFor(r, targets), nil
	case r.Every > 0:
		return w.runEvery(r, targets), nil
	default:
		return w.runTimes(r, targets), nil
	}
}

func (w *world) targets(server string) ([]rls.RateLimitServiceClient, error) {
	if server == "all" {
		return w.clients, nil
	}
	n := 0
	if server != "" {
		var err error
		if n, err = strconv.Atoi(server); err != nil || n >= len(w.clients) {
			return nil, fmt.Errorf("no server %q", server)
		}
	}
	return w.clients[n : n+1], nil
}

func (w *world) ask(r *request, targets []rls.RateLimitServiceClient, n int64) *answer {
	msg, err := r.message(n)
	if err != nil {
		return &answer{err: err}
	}
	timeout := time.Duration(r.Timeout)
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	began := time.Now()
	resp, err := targets[n%int64(len(targets))].ShouldRateLimit(ctx, msg)
	now := time.Now()
	return &answer{resp: resp, err: err, at: now, took: now.Sub(began)}
}

func (w *world) runTimes(r *request, targets []rls.RateLimitServiceClient) []*answer {
	answers := make([]*answer, max(1, r.Times))
	var next atomic.Int64
	var wait sync.WaitGroup
	for range max(1, r.Parallel) {
		wait.Go(func() {
			for n := next.Add(1) - 1; n < int64(len(answers)); n = next.Add(1) - 1 {
				answers[n] = w.ask(r, targets, n)
			}
		})
	}
	wait.Wait()
	return answers
}

// runEvery is an open loop: each request is sent at its time, whether the one
// before was answered or not.
func (w *world) runEvery(r *request, targets []rls.RateLimitServiceClient) []*answer {
	answers := make([]*answer, max(1, r.Times))
	var wait sync.WaitGroup
	began := time.Now()
	for n := range answers {
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Duration(r.Every))))
		wait.Go(func() { answers[n] = w.ask(r, targets, int64(n)) })
	}
	wait.Wait()
	return answers
}

func (w *world) runFor(r *request, targets []rls.RateLimitServiceClient) []*answer {
	ends := time.Now().Add(time.Duration(r.For))
	var next atomic.Int64
	var mu sync.Mutex
	var answers []*answer
	var wait sync.WaitGroup
	for range max(1, r.Parallel) {
		wait.Go(func() {
			var own []*answer
			for time.Now().Before(ends) {
				own = append(own, w.ask(r, targets, next.Add(1)-1))
			}
			mu.Lock()
			answers = slices.Concat(answers, own)
			mu.Unlock()
		})
	}
	wait.Wait()
	return answers
}
