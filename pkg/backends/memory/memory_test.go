package memory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/backendtest"
	"github.com/weirhq/weir/pkg/backends/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestContract is without the sweeper: the contract's clock steps back, and what
// has been dropped by then cannot be known.
func TestContract(t *testing.T) {
	for _, shards := range []int{0, 1, 4096} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			backendtest.Run(t, backendtest.Harness{
				Open: func(_ *testing.T, now func() int64) backends.Store {
					return memory.New(memory.Options{NowUS: now, Shards: shards, SweepEvery: -1})
				},
			})
		})
	}
}

// TestSweeperChangesNoVerdict: while time goes forward nobody can tell that
// states are dropped.
func TestSweeperChangesNoVerdict(t *testing.T) {
	w := open(t, memory.Options{Shards: 2, SweepEvery: 5 * time.Millisecond})
	model := backendtest.NewModel(w.nowUS.Load)
	for step := range backendtest.Random(3, 5*backendtest.Steps()) {
		w.nowUS.Store(step.NowUS)
		want, got := step.Batch(nil), step.Batch(nil)
		require.NoError(t, backends.Decide(t.Context(), model, want))
		require.NoError(t, backends.Decide(t.Context(), w.store, got))
		require.Equal(t, want.Calls, got.Calls)
	}
	require.NotZero(t, w.store.Stats().Expired)
}
