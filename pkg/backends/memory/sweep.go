package memory

import (
	"maps"
	"math"
	"time"
)

const (
	minTick = 5 * time.Millisecond
	// A map that has shrunk to a quarter of its most is made anew: Go's maps keep
	// their size, and looking for a few keys in an empty one takes long.
	shrinkFrom  = 256
	shrinkShare = 4
)

// sweep drops what has expired, a few shards at a time, so that a pass over all
// takes SweepEvery and no decision waits for more than one shard.
func (s *Store) sweep() {
	n := len(s.shards)
	tick := max(s.opts.SweepEvery/time.Duration(n), minTick)
	perTick := min(n, int(math.Ceil(float64(n)*float64(tick)/float64(s.opts.SweepEvery))))
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for next := 0; ; {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
		}
		now := s.opts.NowUS()
		for range perTick {
			s.shards[next].sweep(now)
			next = (next + 1) % n
			if next == 0 {
				s.rules.forget(now)
			}
		}
	}
}

// sweep drops all that has expired.
func (sh *shard) sweep(now int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for name, c := range sh.shared {
		if c.expired(now) {
			delete(sh.shared, name)
			c.rule.shared.Add(-1)
		}
	}
	if len(sh.shared) == 0 {
		sh.shared = nil
	}
	if now-graceUS < sh.earliestUS {
		return
	}
	sh.expire(len(sh.cells), now)
	sh.earliestUS = math.MaxInt64
	for _, c := range sh.cells {
		sh.earliestUS = min(sh.earliestUS, c.idleUS)
	}
	if sh.most >= shrinkFrom && len(sh.cells) < sh.most/shrinkShare {
		sh.cells = maps.Collect(maps.All(sh.cells))
		sh.most = len(sh.cells)
	}
}
