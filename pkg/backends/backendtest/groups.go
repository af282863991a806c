package backendtest

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
)

// groups are calls of several items, told one by one.
func (h Harness) groups(t *testing.T) {
	const hour = 3_600_000_000
	of := func(n int64) *algorithm.Spec {
		return Spec(t, algorithm.Limit{Kind: algorithm.TokenBucket, Requests: n, WindowUS: hour})
	}
	item := func(key string, n int64, member int, cost int64) backends.Item {
		return backends.Item{Key: h.Keys(key), Spec: of(n), Ask: spend(cost), Member: member}
	}
	advisory := func(i backends.Item) backends.Item {
		i.Advisory = true
		return i
	}
	verdicts := func(items []backends.Item) (out []bool, left []int64) {
		for _, i := range items {
			out = append(out, i.Decision.Allowed)
			left = append(left, i.Decision.Remaining)
		}
		return out, left
	}
	for number, tt := range []struct {
		name    string
		calls   [][]backends.Item
		allowed []bool  // of the last call
		left    []int64 // of the last call
	}{
		{
			"a refusing member holds the other back, which answers as a look",
			[][]backends.Item{{item("a", 10, 0, 1), item("b", 1, 1, 1)}, {item("a", 10, 0, 1), item("b", 1, 1, 1)}},
			[]bool{true, false}, []int64{9, 0},
		},
		{
			"all pass, all are taken",
			[][]backends.Item{{item("a", 10, 0, 2), item("b", 5, 1, 1), item("c", 3, 2, 3)}},
			[]bool{true, true, true}, []int64{8, 4, 0},
		},
		{
			"elements of one list go together",
			[][]backends.Item{{item("a", 2, 0, 2), item("b", 9, 0, 2)}, {item("a", 2, 0, 1), item("b", 9, 0, 1)}},
			[]bool{false, true}, []int64{0, 7},
		},
		{
			"an advisory member that refuses holds nobody back",
			[][]backends.Item{{advisory(item("s", 1, 0, 1)), item("e", 3, 1, 1)}, {advisory(item("s", 1, 0, 1)), item("e", 3, 1, 1)}},
			[]bool{false, true}, []int64{0, 1},
		},
		{
			"an advisory member is taken although an enforcing one refuses",
			[][]backends.Item{{item("e", 1, 0, 1)}, {advisory(item("s", 5, 0, 1)), item("e", 1, 1, 1)}},
			[]bool{true, false}, []int64{4, 0},
		},
		{
			"the same key twice costs both",
			[][]backends.Item{{item("a", 5, 0, 2), item("a", 5, 1, 2)}},
			[]bool{true, true}, []int64{1, 1},
		},
		{
			"the same key twice refuses both",
			[][]backends.Item{{item("a", 3, 0, 2), item("a", 3, 1, 2)}},
			[]bool{false, false}, []int64{3, 3},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := h.open(t)
			var last []backends.Item
			for i := range tt.calls {
				for j := range tt.calls[i] {
					tt.calls[i][j].Key += strconv.Itoa(number)
				}
				last = w.decide(tt.calls[i]...)
			}
			allowed, left := verdicts(last)
			require.Equal(t, tt.allowed, allowed)
			require.Equal(t, tt.left, left)
		})
	}
}

// randomGroups holds groups of random limits against the algorithms.
func (h Harness) randomGroups(t *testing.T) {
	w := h.open(t)
	limits := Limits()
	r := rand.New(rand.NewPCG(7, 7))
	states := map[string]*algorithm.State{}
	specs := make([]*algorithm.Spec, len(limits))
	for i, l := range limits {
		specs[i] = Spec(t, l)
	}
	for step := range Steps() {
		items := drawGroup(r, specs, h.Keys)
		want := model(items, states, w.nowUS.Load())
		got := w.decide(items...)
		for i := range got {
			require.Equal(t, want[i], got[i].Decision, "step %d, item %d of %d: %s, %s of %d", step, i, len(got), got[i].Spec.Kind, got[i].Ask.Mode, got[i].Ask.Cost)
		}
		w.nowUS.Add(r.Int64N(2_000_000))
	}
}

// drawGroup draws two to four different keys.
func drawGroup(r *rand.Rand, specs []*algorithm.Spec, keys func(string) string) []backends.Item {
	order := r.Perm(len(specs))[:2+r.IntN(3)]
	items := make([]backends.Item, len(order))
	member := 0
	for i, n := range order {
		if i > 0 && r.IntN(3) > 0 {
			member++
		}
		ask := newTraffic(r.Uint64(), specs[n].Limit).ask()
		items[i] = backends.Item{Key: keys("group" + strconv.Itoa(n)), Spec: specs[n], Ask: ask, Member: member}
	}
	advisory := r.IntN(3) == 0
	for i := range items {
		items[i].Advisory = advisory && items[i].Member == member
	}
	return items
}

// model decides a group as backends.Call says, on plain states.
func model(items []backends.Item, states map[string]*algorithm.State, now int64) []algorithm.Decision {
	refused := map[int]bool{}
	held := false
	first := make([]algorithm.Decision, len(items))
	for i, it := range items {
		if states[it.Key] == nil {
			states[it.Key] = &algorithm.State{}
		}
		first[i] = it.Spec.Decide(states[it.Key], now, it.Ask)
		if !first[i].Allowed {
			refused[it.Member] = true
			held = held || !it.Advisory
		}
	}
	out := make([]algorithm.Decision, len(items))
	for i, it := range items {
		state := states[it.Key]
		postPaid := it.Spec.PostPaid && it.Ask.Cost > 0 && (it.Ask.Mode == algorithm.Spend || it.Ask.Mode == algorithm.TakeUpTo)
		switch {
		case it.Ask.Mode == algorithm.Charge, it.Ask.Mode == algorithm.Refund, postPaid, !refused[it.Member] && (it.Advisory || !held):
			out[i] = it.Spec.Apply(state, now, it.Ask)
		case first[i].Allowed:
			out[i] = it.Spec.Decide(state, now, algorithm.Ask{Mode: algorithm.Look, Lease: it.Ask.Lease})
		default:
			out[i] = first[i]
		}
	}
	return out
}
