package redis

import (
	"crypto/rand"
	"slices"
	"strconv"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/lua"
)

// unit is what one script decides: a call, or where its keys lie in several
// slots of a cluster one member of it.
type unit struct {
	call   int // index of the call in its batch
	items  []item
	jitter int64
	spread *spread // not nil for a member of a call that is spread over slots

	sentWindow []int64 // window numbers that the last attempt named, by item
	err        error
	silent     bool // err is no answer of the server's
}

// item is a copy of a backends.Item as it is sent.
type item struct {
	index    int // in its call
	same     int // index of an earlier item of the unit with the same key and mode, or −1
	key      string
	spec     *algorithm.Spec
	mode     algorithm.Mode
	cost     int64
	lease    string
	member   int
	advisory bool
	decision algorithm.Decision
}

// units makes the scripts' calls for a batch.
func (s *Store) units(calls []backends.Call) []unit {
	out := make([]unit, 0, len(calls))
	for i := range calls {
		u := unit{call: i, items: make([]item, len(calls[i].Items)), jitter: s.opts.jitterMS()}
		for j := range calls[i].Items {
			u.items[j] = newItem(&calls[i].Items[j], j)
		}
		if s.opts.Topology == Cluster && !oneSlot(u.items) {
			out = append(out, split(u)...)
			continue
		}
		u.sum()
		out = append(out, u)
	}
	return out
}

func newItem(from *backends.Item, index int) item {
	it := item{
		index: index, same: -1, key: from.Key, spec: from.Spec, mode: from.Ask.Mode, lease: from.Ask.Lease,
		cost: min(max(from.Ask.Cost, 0), algorithm.MaxCost), member: from.Member, advisory: from.Advisory,
	}
	spends := it.mode == algorithm.Spend || it.mode == algorithm.TakeUpTo
	switch {
	case spends && it.cost == 0:
		it.mode = algorithm.Look
	case spends && it.spec.PostPaid:
		it.mode = algorithm.Charge
	}
	if it.spec.Kind == algorithm.Concurrency && it.lease == "" && spends {
		it.lease = rand.Text() // a place that nobody can name: it ages out
	}
	return it
}

// sum gives a key that is named twice the costs of both: a script would decide
// each from the same state.
func (u *unit) sum() {
	for j := 1; j < len(u.items); j++ {
		it := &u.items[j]
		first := slices.IndexFunc(u.items[:j], func(o item) bool { return o.same < 0 && o.key == it.key && o.mode == it.mode })
		if first >= 0 {
			it.same = first
			u.items[first].advisory = u.items[first].advisory && it.advisory
			u.items[first].cost = min(u.items[first].cost+it.cost, algorithm.MaxCost)
		}
	}
}

// sent are the items that travel: all but repeated keys.
func (u *unit) sent(visit func(*item)) {
	for j := range u.items {
		if u.items[j].same < 0 {
			visit(&u.items[j])
		}
	}
}

func windowKey(key string, number int64) string {
	return key + ":" + strconv.FormatInt(number, 10)
}

// request gives the script with keys and arguments, as of the server's time
// estimated by the clock.
func (u *unit) request(c *serverClock) (script *lua.Script, keys []string, args []any) {
	given := ""
	now := c.nowUS()
	if c.given != nil {
		given = strconv.FormatInt(now, 10)
	}
	args = append(args, given)
	u.sentWindow = u.sentWindow[:0]
	single := len(u.items) == 1
	u.sent(func(it *item) {
		key := it.key
		number := int64(0)
		if it.spec.Kind == algorithm.FixedWindow {
			number = now / it.spec.WindowUS
			if u.spread != nil && u.spread.refunding {
				number = u.spread.windows[it.index]
			}
			key = windowKey(key, number)
		}
		u.sentWindow = append(u.sentWindow, number)
		keys = append(keys, key)
		script = scriptOf(it.spec)
		own := numbers(it, number)
		if single {
			args = append(args, int(it.mode), it.cost, u.jitter)
		} else {
			args = append(args, scriptNumber(it.spec), it.member, flag(it.advisory), int(it.mode), it.cost, u.jitter, len(own))
		}
		args = append(args, own...)
	})
	if !single {
		script = &lua.Group
	}
	return script, keys, args
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

func scriptOf(s *algorithm.Spec) *lua.Script {
	switch {
	case s.Kind == algorithm.SlidingWindowLog && s.Slots > 0:
		return &lua.Ring
	case s.Kind == algorithm.SlidingWindowLog:
		return &lua.Log
	case s.Kind == algorithm.SlidingWindowCounter:
		return &lua.Counter
	case s.Kind == algorithm.TokenBucket || s.Kind == algorithm.LeakyBucket:
		return &lua.Bucket
	case s.Kind == algorithm.Concurrency:
		return &lua.Concurrency
	default:
		return &lua.FixedWindow
	}
}

func scriptNumber(s *algorithm.Spec) int {
	switch {
	case s.Kind == algorithm.SlidingWindowLog && s.Slots > 0:
		return lua.NumberRing
	case s.Kind == algorithm.SlidingWindowLog:
		return lua.NumberLog
	case s.Kind == algorithm.SlidingWindowCounter:
		return lua.NumberCounter
	case s.Kind == algorithm.TokenBucket || s.Kind == algorithm.LeakyBucket:
		return lua.NumberTokenBucket
	case s.Kind == algorithm.Concurrency:
		return lua.NumberConcurrency
	default:
		return lua.NumberFixedWindow
	}
}

// numbers are the algorithm's own arguments, in the order that its script names.
func numbers(it *item, window int64) []any {
	s := it.spec
	most := s.Requests + s.MaxDebt
	switch {
	case s.Kind == algorithm.SlidingWindowLog && s.Slots > 0:
		return []any{s.Requests, most, s.Slots, s.SlotUS, s.SkewUS}
	case s.Kind == algorithm.SlidingWindowLog:
		return []any{s.Requests, most, s.WindowUS, s.SkewUS}
	case s.Kind == algorithm.SlidingWindowCounter:
		return []any{s.Requests, most, s.WindowUS, s.TickUS, s.WindowTicks, s.SkewUS}
	case s.Kind == algorithm.TokenBucket || s.Kind == algorithm.LeakyBucket:
		return []any{s.Burst, s.PerHit, s.PerMicro, s.Capacity, s.DebtCap, s.SkewUS}
	case s.Kind == algorithm.Concurrency:
		return []any{s.Requests, s.LeaseTTLUS, it.lease}
	default:
		return []any{s.Requests, s.WindowUS, window, flag(s.CountDenied)}
	}
}

// read takes a script's reply. moved tells that nothing was written because a
// window has turned; nowUS is the server's time.
func (u *unit) read(reply []int64) (nowUS int64, moved, ok bool) {
	if len(u.items) == 1 {
		if len(reply) != 7 {
			return 0, false, false
		}
		if reply[0] == lua.CodeMoved {
			return reply[6], true, true
		}
		u.items[0].decision = decision(reply)
		return reply[6], false, true
	}
	if len(reply) == 2 && reply[1] == lua.CodeMoved {
		return reply[0], true, true
	}
	at := 1
	u.sent(func(it *item) {
		if at+6 <= len(reply) {
			it.decision = decision(reply[at:])
		}
		at += 6
	})
	return reply[0], false, at == len(reply)
}

func decision(r []int64) algorithm.Decision {
	return algorithm.Decision{
		Allowed: r[0] == lua.CodeAllowed, Never: r[0] == lua.CodeNever,
		Taken: r[1], Remaining: r[2], Used: r[3], RetryAfterUS: r[4], ResetAfterUS: r[5],
	}
}
