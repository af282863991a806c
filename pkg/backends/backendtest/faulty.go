package backendtest

import (
	"context"
	"sync"
	"time"

	"github.com/weirhq/weir/pkg/backends"
)

// Fault is what a Faulty store does with a batch. The zero Fault passes it on.
type Fault struct {
	// Err is what every call answers. The store behind is not asked, unless
	// Counted is set: then it decides and its answer is lost.
	Err     error
	Counted bool
	// Delay is the time to the answer.
	Delay time.Duration
	// Hang keeps the answer until Release or Close, whatever the deadline.
	Hang bool
}

// Faulty is a store that fails, hangs and answers late as told, for tests of
// what stands in front of a store.
type Faulty struct {
	inner backends.Store

	mu       sync.Mutex
	schedule []Fault
	standing Fault // once the schedule is over
	hung     []func()
	asked    int
	late     sync.WaitGroup
}

var (
	_ backends.Wrapper = (*Faulty)(nil)
	_ backends.Pinger  = (*Faulty)(nil)
)

// NewFaulty wraps a store. The n-th batch meets the n-th fault; those after the
// last meet none, until Set.
func NewFaulty(inner backends.Store, schedule ...Fault) *Faulty {
	return &Faulty{inner: inner, schedule: schedule}
}

// Set makes all batches from now on meet a fault.
func (f *Faulty) Set(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.schedule, f.standing = nil, fault
}

// Submitted is the number of batches so far.
func (f *Faulty) Submitted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// Unwrap gives the store behind.
func (f *Faulty) Unwrap() backends.Store { return f.inner }

// Submit lets the batch meet its fault.
func (f *Faulty) Submit(b *backends.Batch) {
	fault := f.next()
	done := b.Done
	b.Done = func(b *backends.Batch) {
		b.Done = done
		f.answer(b, fault)
	}
	if fault.Err != nil && !fault.Counted {
		b.Done(b)
		return
	}
	f.inner.Submit(b)
}

func (f *Faulty) next() (fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if len(f.schedule) == 0 {
		return f.standing
	}
	fault, f.schedule = f.schedule[0], f.schedule[1:]
	return fault
}

func (f *Faulty) answer(b *backends.Batch, fault Fault) {
	if fault.Err != nil {
		for i := range b.Calls {
			b.Calls[i].Err = fault.Err
		}
	}
	switch {
	case fault.Hang:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.hung = append(f.hung, func() { b.Done(b) })
	case fault.Delay > 0:
		f.late.Add(1)
		time.AfterFunc(fault.Delay, func() {
			defer f.late.Done()
			b.Done(b)
		})
	default:
		b.Done(b)
	}
}

// Release lets every batch that hangs have its answer, and gives their number.
func (f *Faulty) Release() int {
	f.mu.Lock()
	hung := f.hung
	f.hung = nil
	f.mu.Unlock()
	for _, answer := range hung {
		answer()
	}
	return len(hung)
}

// Reset passes on, unless batches would now fail.
func (f *Faulty) Reset(ctx context.Context, items []backends.Item) error {
	if err := f.failure(); err != nil {
		return err
	}
	return f.inner.Reset(ctx, items)
}

// Ping tells whether batches would now fail.
func (f *Faulty) Ping(context.Context) error { return f.failure() }

func (f *Faulty) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.schedule) > 0 {
		return f.schedule[0].Err
	}
	return f.standing.Err
}

// Close releases what hangs, waits for what is late, and closes the store behind.
func (f *Faulty) Close(ctx context.Context) error {
	err := f.inner.Close(ctx)
	f.Release()
	f.late.Wait()
	return err
}
