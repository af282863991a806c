package redis

import (
	"context"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// maxGather bounds the calls of one pipeline, so that one answer does not
	// wait for too many others.
	maxGather = 512
	// warmTime bounds the wait for the first connections.
	warmTime = time.Second
	// stallTime is how long a batch may wait while all workers are busy before a
	// spare takes it.
	stallTime = 5 * time.Millisecond
)

// crew is the goroutines that send. Workers take what comes; few of them make
// large pipelines while the server is fast. When it is slow, all of them wait
// for replies, and spares take what has been waiting.
type crew struct {
	workers, warming sync.WaitGroup
	watch            sync.WaitGroup
	stop             chan struct{}
	stalled          chan struct{}
}

func (s *Store) start() {
	c := &s.crew
	c.stop, c.stalled = make(chan struct{}), make(chan struct{})
	c.warming.Add(2 * s.opts.Workers)
	for range s.opts.Workers {
		c.workers.Go(s.work)
		c.workers.Go(s.spare)
	}
	c.watch.Go(s.watchQueue)
	c.watch.Go(s.probe)
}

// end waits for everybody; the queue must be closed.
func (c *crew) end() {
	close(c.stop)
	c.watch.Wait()
	c.workers.Wait()
}

// warm opens a connection, so that no decision pays for it; where that fails
// the first decision tries again. All hold theirs until each has one, else they
// would share the first that is free.
func (s *Store) warm() {
	client, ok := s.client.(*goredis.Client)
	if !ok {
		return // a cluster's nodes are not known yet
	}
	ctx, cancel := context.WithTimeout(context.Background(), warmTime)
	defer cancel()
	conn := client.Conn()
	_ = conn.Ping(ctx).Err()
	s.crew.warming.Done()
	s.crew.warming.Wait()
	_ = conn.Close()
}

// work sends whatever is queued, as one pipeline, until the queue is closed.
func (s *Store) work() {
	s.warm()
	for p := range s.queue {
		s.serve(s.gather(p))
	}
}

// spare sends what has waited for too long.
func (s *Store) spare() {
	s.warm()
	for range s.crew.stalled {
		select {
		case p, ok := <-s.queue:
			if ok {
				s.serve(s.gather(p))
			}
		default:
		}
	}
}

// watchQueue calls a spare whenever batches wait.
func (s *Store) watchQueue() {
	defer close(s.crew.stalled)
	ticker := time.NewTicker(stallTime)
	defer ticker.Stop()
	for {
		select {
		case <-s.crew.stop:
			return
		case <-ticker.C:
			if len(s.queue) == 0 {
				continue
			}
			select {
			case s.crew.stalled <- struct{}{}:
			default: // all spares are busy too
			}
		}
	}
}

// gather takes what waits behind a batch.
func (s *Store) gather(first *pending) []*pending {
	list, units := []*pending{first}, len(first.units)
	for units < maxGather {
		select {
		case next, ok := <-s.queue:
			if !ok {
				return list
			}
			list = append(list, next)
			units += len(next.units)
		default:
			return list
		}
	}
	return list
}
