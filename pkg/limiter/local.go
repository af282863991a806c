package limiter

import (
	"sync"

	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/backends"
)

// localLimits stands in for a store that cannot answer: the same limits in this
// process, each divided by the number of replicas. Its states outlive short
// outages, so that a flapping store gives no fresh allowance each time.
type localLimits struct {
	store    backends.Store
	replicas int64

	mu    sync.Mutex
	specs map[*algorithm.Spec]*algorithm.Spec
}

// maxLocalSpecs bounds the memory of divided limits; reloads and overrides make
// new ones, and dividing again is cheap.
const maxLocalSpecs = 10_000

func newLocalLimits(store backends.Store, replicas int) *localLimits {
	return &localLimits{store: store, replicas: int64(replicas), specs: map[*algorithm.Spec]*algorithm.Spec{}}
}

// decide answers checks that the main store failed, then calls finish.
func (l *localLimits) decide(failed []*Check, finish func()) {
	b := &backends.Batch{Calls: make([]backends.Call, len(failed))}
	for i, c := range failed {
		items := appendItems(nil, c, 0)
		for j := range items {
			items[j].Spec = l.divided(items[j].Spec)
		}
		b.Calls[i].Items = items
	}
	b.Done = func(b *backends.Batch) {
		for i, c := range failed {
			if b.Calls[i].Err != nil {
				continue // the first error stands
			}
			err := c.Result.Err
			c.answer(b.Calls[i].Items)
			c.Result.Cause, c.Result.Err = CauseLocal, err
		}
		finish()
	}
	l.store.Submit(b)
}

// divided gives the share of one replica, rounded up, at least 1 where the whole
// limit is not 0.
func (l *localLimits) divided(s *algorithm.Spec) *algorithm.Spec {
	if l.replicas == 1 {
		return s
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if d, ok := l.specs[s]; ok {
		return d
	}
	share := s.Limit
	share.Requests = (share.Requests + l.replicas - 1) / l.replicas
	share.Burst = (share.Burst + l.replicas - 1) / l.replicas
	share.MaxDebt = (share.MaxDebt + l.replicas - 1) / l.replicas
	d, err := algorithm.NewSpec(share)
	if err != nil {
		d = s // cannot happen: smaller numbers are valid where larger are
	}
	if len(l.specs) >= maxLocalSpecs {
		clear(l.specs)
	}
	l.specs[s] = d
	return d
}
