package limiter

import (
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
)

// Defaults of Options.
const (
	DefaultTimeout       = 500 * time.Millisecond
	DefaultChargeTimeout = 500 * time.Millisecond
)

// Options of a Limiter; the zero value is useful.
type Options struct {
	// Timeout bounds each decision, also where the caller waits longer. 0 is
	// DefaultTimeout.
	Timeout time.Duration
	// ChargeTimeout bounds requests that only charge, refund or release: they
	// are carried out although the caller is gone. 0 is DefaultChargeTimeout.
	ChargeTimeout time.Duration
	// Local decides checks of FailLocal while the store cannot; nil makes them
	// fail as FailError. The limiter does not close it.
	Local backends.Store
	// Replicas divides the limits of FailLocal; below 1 is 1.
	Replicas int
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Limiter decides requests against one store. It is safe for concurrent use.
type Limiter struct {
	store backends.Store
	opts  Options
	local *localLimits
}

// New makes a limiter on a store, which it does not close.
func New(store backends.Store, opts Options) *Limiter {
	if opts.Timeout <= 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.ChargeTimeout <= 0 {
		opts.ChargeTimeout = DefaultChargeTimeout
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	l := &Limiter{store: store, opts: opts}
	if opts.Local != nil {
		l.local = newLocalLimits(opts.Local, max(1, opts.Replicas))
	}
	return l
}

// Submit decides all requests in one round trip of the store and calls done
// once, from any goroutine and possibly before Submit returns, when each check
// has its Result. The requests belong to the limiter until then. Submit does
// not wait for the store.
func (l *Limiter) Submit(reqs []*Request, done func()) {
	now := l.opts.Now()
	var prompt, detached work
	for _, r := range reqs {
		if len(r.Checks) == 0 {
			continue
		}
		if detachable(r) {
			detached.add(r, now.Add(l.opts.ChargeTimeout))
		} else {
			prompt.add(r, l.deadline(now, r.Deadline))
		}
	}
	var open atomic.Int32
	open.Store(1)
	finish := func() {
		if open.Add(-1) == 0 {
			done()
		}
	}
	for _, w := range []*work{&prompt, &detached} {
		if len(w.requests) == 0 {
			continue
		}
		open.Add(1)
		l.send(w, finish)
	}
	finish()
}

// Decide is Submit for callers that wait.
func (l *Limiter) Decide(reqs ...*Request) {
	done := make(chan struct{})
	l.Submit(reqs, func() { close(done) })
	<-done
}

// deadline leaves a margin before the caller's own, so that the fail mode is
// answered while somebody still listens.
func (l *Limiter) deadline(now, callers time.Time) time.Time {
	limit := now.Add(l.opts.Timeout)
	if callers.IsZero() {
		return limit
	}
	left := callers.Sub(now)
	own := callers.Add(-max(time.Millisecond, left/10))
	if own.Before(limit) {
		return own
	}
	return limit
}

// detachable tells requests that only record what has happened: nobody needs
// their answer, and losing them would lose hits.
func detachable(r *Request) bool {
	for i := range r.Checks {
		c := &r.Checks[i]
		if c.Ask.Mode == algorithm.Refund || c.Ask.Mode == algorithm.Charge {
			continue
		}
		if c.Ask.Mode != algorithm.Spend || c.Ask.Cost == 0 || !c.Limits[0].Spec.PostPaid {
			return false
		}
	}
	return true
}

// work is what travels to the store together.
type work struct {
	requests []*Request
	deadline time.Time
	batch    backends.Batch
}

func (w *work) add(r *Request, deadline time.Time) {
	if len(w.requests) == 0 || deadline.Before(w.deadline) {
		w.deadline = deadline
	}
	w.requests = append(w.requests, r)
}

func (l *Limiter) send(w *work, finish func()) {
	w.batch.Calls = makeCalls(w.requests)
	w.batch.Deadline = w.deadline
	w.batch.Done = func(b *backends.Batch) {
		if failed := w.settle(b.Calls); len(failed) > 0 && l.local != nil {
			l.local.decide(failed, finish)
			return
		}
		finish()
	}
	l.store.Submit(&w.batch)
}

// makeCalls turns requests into store calls: one per check, or one per request
// where all checks are counted together.
func makeCalls(reqs []*Request) []backends.Call {
	calls, items := 0, 0
	for _, r := range reqs {
		for i := range r.Checks {
			items += len(r.Checks[i].Limits)
		}
		if r.AllOrNothing {
			calls++
		} else {
			calls += len(r.Checks)
		}
	}
	out := make([]backends.Call, 0, calls)
	room := make([]backends.Item, 0, items)
	for _, r := range reqs {
		start := len(room)
		for i := range r.Checks {
			member := 0
			if r.AllOrNothing {
				member = i
			}
			room = appendItems(room, &r.Checks[i], member)
			if !r.AllOrNothing {
				out = append(out, backends.Call{Items: room[start:len(room):len(room)]})
				start = len(room)
			}
		}
		if r.AllOrNothing {
			out = append(out, backends.Call{Items: room[start:len(room):len(room)]})
		}
	}
	return out
}

func appendItems(items []backends.Item, c *Check, member int) []backends.Item {
	for _, limit := range c.Limits {
		items = append(items, backends.Item{
			Key: limit.Key, Spec: limit.Spec, Ask: c.Ask, Rule: c.Rule,
			Member: member, Advisory: c.Advisory,
		})
	}
	return items
}

// settle reads the answers back into the checks. It returns the checks whose
// store failed and whose fail mode is to decide locally.
func (w *work) settle(calls []backends.Call) (failed []*Check) {
	next := 0
	for _, r := range w.requests {
		items := calls[next].Items
		for i := range r.Checks {
			c := &r.Checks[i]
			call := &calls[next]
			if !r.AllOrNothing {
				items = call.Items
				next++
			}
			if call.Err != nil {
				if c.fail(call.Err) {
					failed = append(failed, c)
				}
			} else {
				c.answer(items[:len(c.Limits)])
			}
			items = items[len(c.Limits):]
		}
		if r.AllOrNothing {
			next++
		}
	}
	return failed
}

// fail answers by the fail mode; it asks for a local decision by returning true.
func (c *Check) fail(err error) (local bool) {
	c.Result = Result{Err: err, Cause: CauseOnError}
	switch c.OnError {
	case FailAllow:
		c.Result.Allowed = true
	case FailDeny:
	case FailLocal:
		c.Result.Cause = CauseError
		return true
	default:
		c.Result.Cause = CauseError
	}
	return false
}

func (c *Check) answer(items []backends.Item) {
	r := Result{Allowed: true, Cause: CauseLimit, Decisions: make([]algorithm.Decision, len(items))}
	for i := range items {
		r.Decisions[i] = items[i].Decision
		r.Allowed = r.Allowed && items[i].Decision.Allowed
		if i > 0 && speaksBefore(&items[i], &items[r.Index]) {
			r.Index = i
		}
	}
	c.Result = r
}

// speaksBefore tells whether a says more to the caller than b.
func speaksBefore(a, b *backends.Item) bool {
	da, db := &a.Decision, &b.Decision
	if da.Allowed != db.Allowed {
		return !da.Allowed
	}
	if !da.Allowed {
		if da.Never != db.Never {
			return da.Never
		}
		return da.RetryAfterUS > db.RetryAfterUS
	}
	// Shares are compared as products of numbers below 2^32.
	return uint64(da.Remaining)*uint64(max(1, b.Spec.Most())) < uint64(db.Remaining)*uint64(max(1, a.Spec.Most()))
}
