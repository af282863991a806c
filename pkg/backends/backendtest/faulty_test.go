package backendtest_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/backendtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func fixedNow() int64 { return backendtest.Start }

// submit gives a batch of one spend, and a channel that tells of its end.
func submit(t *testing.T, s backends.Store) (*backends.Batch, chan struct{}) {
	done := make(chan struct{})
	spec := backendtest.Spec(t, algorithm.Limit{Requests: 5, WindowUS: 60_000_000})
	b := &backends.Batch{
		Calls: []backends.Call{{Items: []backends.Item{{Key: "key", Spec: spec, Ask: algorithm.Ask{Cost: 1}}}}},
		Done:  func(*backends.Batch) { close(done) },
	}
	s.Submit(b)
	return b, done
}

func TestFaultySchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := backendtest.NewFaulty(backendtest.NewModel(fixedNow),
			backendtest.Fault{Err: backends.ErrUnavailable},
			backendtest.Fault{Err: backends.ErrTimeout, Counted: true},
			backendtest.Fault{Delay: time.Second},
		)
		require.ErrorIs(t, f.Ping(t.Context()), backends.ErrUnavailable)

		b, done := submit(t, f)
		<-done
		require.ErrorIs(t, b.Calls[0].Err, backends.ErrUnavailable)

		b, done = submit(t, f)
		<-done
		require.ErrorIs(t, b.Calls[0].Err, backends.ErrTimeout)

		begin := time.Now()
		b, done = submit(t, f)
		<-done
		require.Equal(t, time.Second, time.Since(begin))
		require.NoError(t, b.Calls[0].Err)
		require.EqualValues(t, 3, b.Calls[0].Items[0].Decision.Remaining, "the second was counted, the first was not")

		b, done = submit(t, f)
		<-done
		require.NoError(t, b.Calls[0].Err)
		require.NoError(t, f.Ping(t.Context()))
		require.Equal(t, 4, f.Submitted())
		require.NoError(t, f.Close(t.Context()))
	})
}

func TestFaultyHangs(t *testing.T) {
	f := backendtest.NewFaulty(backendtest.NewModel(fixedNow))
	f.Set(backendtest.Fault{Hang: true})
	_, first := submit(t, f)
	_, second := submit(t, f)
	select {
	case <-first:
		t.Fatal("answered")
	default:
	}
	require.Equal(t, 2, f.Release())
	<-first
	<-second
	b, last := submit(t, f)
	require.NoError(t, f.Close(context.Background()))
	<-last
	require.NoError(t, b.Calls[0].Err)
	f.Set(backendtest.Fault{})
	b, _ = submit(t, f)
	require.ErrorIs(t, b.Calls[0].Err, backends.ErrClosed)
}

func TestFaultyReset(t *testing.T) {
	f := backendtest.NewFaulty(backendtest.NewModel(fixedNow))
	require.NoError(t, f.Reset(t.Context(), nil))
	f.Set(backendtest.Fault{Err: backends.ErrUnavailable})
	require.ErrorIs(t, f.Reset(t.Context(), nil), backends.ErrUnavailable)
}

// TestAbilities: what a store can do is found behind a decorator.
func TestAbilities(t *testing.T) {
	model := backendtest.NewModel(fixedNow)
	f := backendtest.NewFaulty(backendtest.NewFaulty(model))
	found, ok := backends.As[*backendtest.Model](f)
	require.True(t, ok)
	require.Same(t, model, found)
	_, ok = backends.As[backends.Scanner](f)
	require.False(t, ok)
}

// TestRandomIsRepeatable: the same seed gives the same traffic, another one
// gives other traffic.
func TestRandomIsRepeatable(t *testing.T) {
	play := func(seed uint64) (decisions []algorithm.Decision) {
		now := int64(0)
		model := backendtest.NewModel(func() int64 { return now })
		for step := range backendtest.Random(seed, 100) {
			now = step.NowUS
			b := step.Batch(nil)
			require.NoError(t, backends.Decide(t.Context(), model, b))
			for _, call := range b.Calls {
				for _, item := range call.Items {
					decisions = append(decisions, item.Decision)
				}
			}
		}
		return decisions
	}
	require.Equal(t, play(1), play(1))
	require.False(t, slices.Equal(play(1), play(2)))
}
