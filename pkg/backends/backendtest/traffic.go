package backendtest

import (
	"context"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
)

// Step is a moment of random traffic: what is submitted at once.
type Step struct {
	NowUS int64
	calls []backends.Call
}

// Batch makes the step's batch, for one store: a store writes into it. Its keys
// are what keys makes of their names; nil takes the names.
func (s Step) Batch(keys func(name string) string) *backends.Batch {
	b := &backends.Batch{Calls: make([]backends.Call, len(s.calls)), Deadline: time.Now().Add(10 * time.Second)}
	for i, call := range s.calls {
		b.Calls[i].Items = slices.Clone(call.Items)
		for j := range b.Calls[i].Items {
			if item := &b.Calls[i].Items[j]; keys != nil {
				item.Key = keys(item.Key)
			}
		}
	}
	return b
}

// Random is traffic to give to several stores, which must answer it alike: the
// same for the same seed. Batches have up to six calls, mostly of one item, else
// groups with lists, advisory members and keys named twice; the keys are few, so
// that they are used up, and their limits change now and then. Time never steps
// back, and no bucket's limit changes: a store may drop a state when it is as new
// by the numbers that it was written with, which can be before it is by others.
func Random(seed uint64, steps int) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		r := rand.New(rand.NewPCG(seed, 2))
		now := int64(Start)
		specs := allSpecs()
		for range steps {
			step := Step{NowUS: now, calls: make([]backends.Call, 1+r.IntN(6))}
			for i := range step.calls {
				step.calls[i].Items = drawCall(r, specs)
			}
			if !yield(step) {
				return
			}
			if r.IntN(50) == 0 {
				if spec := &specs[r.IntN(len(specs))]; spec[0].PerHit == 0 {
					spec[0], spec[1] = spec[1], spec[0] // a reload with other numbers
				}
			}
			now += []int64{0, 1, r.Int64N(1_000), r.Int64N(100_000), r.Int64N(2_000_000), r.Int64N(90_000_000)}[r.IntN(6)]
		}
	}
}

// allSpecs gives each of Limits with a variant of other numbers.
func allSpecs() [][2]*algorithm.Spec {
	var out [][2]*algorithm.Spec
	for _, l := range Limits() {
		var pair [2]*algorithm.Spec
		for i, limit := range []algorithm.Limit{l, withOtherNumbers(l)} {
			s, err := algorithm.NewSpec(limit)
			if err != nil {
				panic(err) //nolint:forbidigo // Limits are valid: a fault of the test itself
			}
			pair[i] = s
		}
		out = append(out, pair)
	}
	return out
}

func drawCall(r *rand.Rand, specs [][2]*algorithm.Spec) []backends.Item {
	current := make([]*algorithm.Spec, len(specs))
	for i := range specs {
		current[i] = specs[i][0]
	}
	if r.IntN(3) > 0 {
		n := r.IntN(len(current))
		ask := newTraffic(r.Uint64(), current[n].Limit).ask()
		return []backends.Item{{Key: "single" + strconv.Itoa(n) + "/" + strconv.Itoa(r.IntN(2)), Spec: current[n], Ask: ask, Rule: strconv.Itoa(n)}}
	}
	items := drawGroup(r, current, func(name string) string { return name })
	if twice := items[r.IntN(len(items))]; r.IntN(3) == 0 && namedTwice(twice) {
		items = append(items, twice)
	}
	return items
}

// namedTwice tells whether an item can be added to its call once more: what is a
// look for one of them and a spend for the other would not be summed.
func namedTwice(i backends.Item) bool {
	return i.Spec.Kind != algorithm.Concurrency && i.Ask.Cost > 0
}

// randomBatches holds random traffic against the model.
func (h Harness) randomBatches(t *testing.T) {
	w := h.open(t)
	model := NewModel(w.nowUS.Load)
	number := 0
	for step := range Random(11, Steps()) {
		w.nowUS.Store(step.NowUS)
		want, got := step.Batch(h.Keys), step.Batch(h.Keys)
		require.NoError(t, backends.Decide(context.Background(), model, want))
		require.NoError(t, backends.Decide(context.Background(), w.store, got))
		requireEqual(t, number, want, got)
		number++
	}
}

func requireEqual(t *testing.T, step int, want, got *backends.Batch) {
	t.Helper()
	for i := range want.Calls {
		require.NoError(t, got.Calls[i].Err)
		for j, item := range want.Calls[i].Items {
			require.Equal(t, item.Decision, got.Calls[i].Items[j].Decision, "step %d, call %d, item %d of %d: %s, %s of %d",
				step, i, j, len(want.Calls[i].Items), item.Spec.Kind, item.Ask.Mode, item.Ask.Cost)
		}
	}
}
