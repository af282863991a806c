// Package backends declares what weir asks of a store of rate limit states.
//
// It owns the [Store] interface, the unit of work handed to it ([Batch]) and
// the errors that callers branch on. It must not know rules, descriptors or
// protocols: a key is text, a limit is an [algorithm.Spec].
//
// Implementations are in pkg/backends/memory and pkg/backends/redis; both pass
// the contract in pkg/backends/backendtest.
package backends

import (
	"context"
	"errors"
	"time"

	"github.com/weirhq/weir/pkg/algorithm"
)

// Errors of a call. A store wraps them; callers use errors.Is.
var (
	// ErrUnavailable: the store could not be asked (down, refused, wrong role).
	// Nothing was counted.
	ErrUnavailable = errors.New("store unavailable")
	// ErrTimeout: no answer came in time. The call may have been counted.
	ErrTimeout = errors.New("store timeout")
	// ErrOverloaded: the call was shed before it was sent. Nothing was counted.
	ErrOverloaded = errors.New("store overloaded")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store closed")
)

// Item is one question to one key.
type Item struct {
	// Key names the state. Keys of one Call carry the same {hash tag} where the
	// store is a cluster, unless they come from several descriptors.
	Key  string
	Spec *algorithm.Spec
	Ask  algorithm.Ask

	// Rule identifies the rule that the key belongs to, for stores that bound
	// what one rule may hold. It may be empty.
	Rule string

	// Member numbers the rule that the item belongs to, from 0. Items of one
	// member (the elements of a rate_limits list) are taken together or not at all.
	Member int
	// Advisory members (shadow, quota) commit by their own verdict and hold
	// nobody back.
	Advisory bool

	// Decision is the answer, set by the store when the Call has no error. An
	// item that was spared because another one refused answers as a Look.
	Decision algorithm.Decision
}

// Call is what is decided together, atomically: its enforcing members commit if
// and only if none of them refuses. Charges and refunds always commit. Most
// calls have one item.
//
// Items that name the same key with the same mode are decided as one, which
// costs the sum, and share its answer; they are expected to have equal limits. A
// Spend of cost 0 is a Look here.
// Items of one key with different modes all have their verdict from the state
// before the call, and are written in their order.
type Call struct {
	Items []Item
	// Err is set by the store when the call could not be answered; the items'
	// decisions are then meaningless.
	Err error
}

// Batch is the unit of work: calls that are independent of each other and
// travel together, in one round trip.
type Batch struct {
	Calls []Call
	// Deadline is when nobody waits for the answer any more; zero means the
	// store's own limit. A store answers ErrTimeout soon after it at the latest.
	Deadline time.Time
	// Done is called exactly once, when every call has its answer, from any
	// goroutine and possibly before Submit returns. It must not block. The batch
	// belongs to the store from Submit until then.
	Done func(*Batch)
}

// Store decides batches. Implementations are safe for concurrent use.
type Store interface {
	// Submit hands over a batch and returns without waiting for the store.
	Submit(*Batch)
	// Reset forgets the states of the keys, so that each is as new.
	Reset(ctx context.Context, items []Item) error
	// Close finishes what was submitted, within the context, and frees what the
	// store holds. Batches submitted later answer ErrClosed.
	Close(ctx context.Context) error
}

// Pinger is the optional ability to tell whether the store can be asked now.
type Pinger interface {
	Ping(ctx context.Context) error
}

// Scanner is the optional ability to list keys, for administration.
type Scanner interface {
	// Scan visits the keys in use that begin with prefix, in no order, until
	// visit returns false. Keys that come or go meanwhile may be missed.
	Scan(ctx context.Context, prefix string, visit func(key string) bool) error
}

// KeyCounter is the optional ability to tell how many keys are in use.
type KeyCounter interface {
	CountKeys(ctx context.Context) (int64, error)
}

// Wrapper is a store that adds something to another one.
type Wrapper interface {
	Store
	Unwrap() Store
}

// As finds an optional ability of a store or of one that it wraps.
func As[T any](s Store) (ability T, ok bool) {
	for {
		if ability, ok = s.(T); ok {
			return ability, true
		}
		w, wraps := s.(Wrapper)
		if !wraps {
			return ability, false
		}
		s = w.Unwrap()
	}
}

// Decide submits the batch and waits for its end or for the context's. In the
// latter case the batch still belongs to the store and must not be read.
func Decide(ctx context.Context, s Store, b *Batch) error {
	done := make(chan struct{})
	b.Done = func(*Batch) { close(done) }
	if b.Deadline.IsZero() {
		b.Deadline, _ = ctx.Deadline()
	}
	s.Submit(b)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		select {
		case <-done:
			return nil
		default:
			return ErrTimeout
		}
	}
}
