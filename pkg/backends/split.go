package backends

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/pkg/algorithm"
)

// PerSecond sends limits of one second to a store of their own and everything
// else to the main one, as envoyproxy/ratelimit does with two Redis. Lists and
// groups live whole on the main store, since one script must decide them.
type PerSecond struct {
	Main, Second Store
}

var (
	_ Store  = (*PerSecond)(nil)
	_ Pinger = (*PerSecond)(nil)
)

func forSecond(items []Item) bool {
	return len(items) == 1 && items[0].Spec.Kind != algorithm.Concurrency && items[0].Spec.WindowUS == time.Second.Microseconds()
}

// Submit implements Store. A batch for both stores travels to both at once.
func (p *PerSecond) Submit(b *Batch) {
	var second []int
	for i := range b.Calls {
		if forSecond(b.Calls[i].Items) {
			second = append(second, i)
		}
	}
	switch len(second) {
	case 0:
		p.Main.Submit(b)
	case len(b.Calls):
		p.Second.Submit(b)
	default:
		p.both(b, second)
	}
}

// both submits a part of the batch to each store, and puts the answers back
// when both have come.
func (p *PerSecond) both(b *Batch, second []int) {
	var open atomic.Int32
	open.Store(2)
	part := func(indexes []int) *Batch {
		sub := &Batch{Calls: make([]Call, len(indexes)), Deadline: b.Deadline}
		for i, at := range indexes {
			sub.Calls[i] = b.Calls[at]
		}
		sub.Done = func(sub *Batch) {
			for i, at := range indexes {
				b.Calls[at] = sub.Calls[i]
			}
			if open.Add(-1) == 0 {
				b.Done(b)
			}
		}
		return sub
	}
	main := make([]int, 0, len(b.Calls)-len(second))
	for i, next := 0, 0; i < len(b.Calls); i++ {
		if next < len(second) && second[next] == i {
			next++
			continue
		}
		main = append(main, i)
	}
	one, two := part(main), part(second)
	p.Main.Submit(one)
	p.Second.Submit(two)
}

// Reset implements Store.
func (p *PerSecond) Reset(ctx context.Context, items []Item) error {
	var main, second []Item
	for i := range items {
		if forSecond(items[i : i+1]) {
			second = append(second, items[i])
		}
		main = append(main, items[i]) // it may be an element of a list as well
	}
	return errors.Join(p.Main.Reset(ctx, main), p.Second.Reset(ctx, second))
}

// Ping implements Pinger: both stores must answer.
func (p *PerSecond) Ping(ctx context.Context) error {
	for _, s := range []Store{p.Main, p.Second} {
		if pinger, ok := s.(Pinger); ok {
			if err := pinger.Ping(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close implements Store.
func (p *PerSecond) Close(ctx context.Context) error {
	return errors.Join(p.Main.Close(ctx), p.Second.Close(ctx))
}
