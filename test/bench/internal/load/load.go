package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// answerGrace is how long a run waits for the last answers.
const answerGrace = 3 * time.Second

// longestRun bounds a run, and so what is kept of it.
const longestRun = 10 * time.Minute

// Config is whom to ask, and what.
type Config struct {
	Addr        string        // host:port on the loopback interface
	Connections int           // 1 to 1000
	Timeout     time.Duration // sent as grpc-timeout, as Envoy does; 0 sends none
	Shape       Shape
	Seed        uint64 // equal seeds draw equal keys
}

func (c Config) validate() error {
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%q is no loopback address", host)
	}
	if c.Connections < 1 || c.Connections > 1000 {
		return fmt.Errorf("%d connections: want 1 to 1000", c.Connections)
	}
	return c.Shape.validate()
}

// Load is a set of connections to one server. Runs follow each other.
type Load struct {
	conns       []*conn
	descriptors int
	seed        uint64
}

// part is one connection's share of a run.
type part struct {
	descriptors int
	callers     int     // closed loop: requests in flight; 0 with a schedule
	due         []int64 // scheduled times of what is not written yet
	stopping    bool    // nothing new is due
	result      *Result
	done        chan struct{} // closed when stopping and nothing is owed
}

// next tells when the next request counts as started, if there is one.
func (p *part) next(inFlight int, at int64) (start int64, ok bool) {
	if p.callers > 0 {
		return at, inFlight < p.callers && !p.stopping
	}
	if len(p.due) == 0 {
		return 0, false
	}
	start, p.due = p.due[0], p.due[1:]
	p.result.Lateness.Record(at - start)
	return start, true
}

// Dial opens the connections; each has had one verdict when it returns.
func Dial(cfg Config) (*Load, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	l := &Load{descriptors: cfg.Shape.Descriptors, seed: cfg.Seed}
	for i := range cfg.Connections {
		c, err := dial(cfg.Addr, cfg.Timeout, cfg.Shape, cfg.Seed+uint64(i))
		if err != nil {
			l.Close()
			return nil, err
		}
		l.conns = append(l.conns, c)
	}
	return l, nil
}

// Close ends the connections and waits for their readers.
func (l *Load) Close() {
	for _, c := range l.conns {
		c.close()
	}
}

// Closed keeps callers requests in flight on each connection for a while: a
// new request follows each answer. It shows what a server can do, not how long
// requests wait.
func (l *Load) Closed(ctx context.Context, callers int, duration time.Duration) (Result, error) {
	if callers < 1 || callers > mostInFlight {
		return Result{}, fmt.Errorf("%d callers: want 1 to %d", callers, mostInFlight)
	}
	return l.run(duration, callers, func(int64) {
		timer := time.NewTimer(duration)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	})
}

// Open sends by a schedule for a while, whatever the answers do, and counts
// each latency from the scheduled time: a request that had to wait for its
// turn has waited.
func (l *Load) Open(ctx context.Context, s Schedule, duration time.Duration) (Result, error) {
	if err := s.validate(); err != nil {
		return Result{}, err
	}
	return l.run(duration, 0, func(begin int64) { l.pace(ctx, s.offsets(l.seed), begin, duration) })
}

func (l *Load) run(duration time.Duration, callers int, issue func(begin int64)) (Result, error) {
	if duration <= 0 || duration > longestRun {
		return Result{}, fmt.Errorf("duration %v: want up to %v", duration, longestRun)
	}
	parts := make([]*part, len(l.conns))
	for i := range parts {
		parts[i] = &part{descriptors: l.descriptors, callers: callers, result: newResult(), done: make(chan struct{})}
	}
	begin := now()
	if err := l.start(parts, begin, time.Now().Add(duration+2*answerGrace)); err != nil {
		return Result{}, err
	}
	issue(begin)
	l.stop(parts)
	total := newResult()
	total.Elapsed = time.Duration(now() - begin)
	for _, p := range parts {
		total.merge(p.result)
	}
	return *total, nil
}

// start gives each connection its part; none has one if any is lost.
func (l *Load) start(parts []*part, begin int64, writeDeadline time.Time) error {
	for _, c := range l.conns {
		c.mu.Lock()
		err := c.err
		c.mu.Unlock()
		if err = errors.Join(err, c.nc.SetWriteDeadline(writeDeadline)); err != nil {
			return fmt.Errorf("connection lost: %w", err)
		}
	}
	for i, c := range l.conns {
		c.mu.Lock()
		c.part = parts[i]
		c.fillAndFlushLocked(begin)
		c.mu.Unlock()
	}
	return nil
}

// stop waits for what is owed, and gives it up after the grace.
func (l *Load) stop(parts []*part) {
	for _, c := range l.conns {
		c.mu.Lock()
		if c.part != nil {
			c.part.stopping = true
			c.finishLocked()
		}
		c.mu.Unlock()
	}
	grace := time.NewTimer(answerGrace)
	defer grace.Stop()
	for _, p := range parts {
		select {
		case <-p.done:
			continue
		case <-grace.C:
		}
		break
	}
	for _, c := range l.conns {
		c.mu.Lock()
		if c.part != nil {
			c.abandonLocked("unanswered")
		}
		c.mu.Unlock()
	}
}
