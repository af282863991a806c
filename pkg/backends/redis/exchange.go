package redis

import (
	"context"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/lua"
)

const (
	// maxRounds bounds the pipelines for one batch: scripts that the server has
	// lost, windows that have turned and slots that are moving are asked again,
	// since nothing was counted.
	maxRounds = 5
	// movePause is the first wait for a slot that is moving.
	movePause = 2 * time.Millisecond
)

// once is a command that go-redis never sends a second time: a lost reply may
// have been counted.
type once struct{ *goredis.Cmd }

// NoRetry implements a method of goredis.Cmder.
func (once) NoRetry() bool { return true }

// attempt is a unit under way.
type attempt struct {
	unit     *unit
	script   *lua.Script
	cmd      *goredis.Cmd
	withText bool // the server has lost the script: send its text along
	moving   bool // the slot is on its way from node to node
}

// exchange asks the server about the units and fills in their decisions or
// errors.
func (s *Store) exchange(ctx context.Context, units []*unit) {
	first, later := s.likelyRefusers(units)
	s.rounds(ctx, attempts(first))
	if len(later) > 0 {
		spare(later)
		s.rounds(ctx, attempts(later))
	}
	s.judge(units)
	s.remember(units)
	if refunds := s.refunds(units); len(refunds) > 0 {
		s.rounds(ctx, refunds)
		settleRefunds(refunds)
	}
}

func attempts(units []*unit) []attempt {
	out := make([]attempt, len(units))
	for i, u := range units {
		out[i].unit = u
	}
	return out
}

func (s *Store) rounds(ctx context.Context, open []attempt) {
	for round := range maxRounds {
		s.send(ctx, open)
		again, moving := open[:0], false
		for _, a := range open {
			if s.receive(&a) {
				again = append(again, a)
				moving = moving || a.moving
			}
		}
		if open = again; len(open) == 0 {
			return
		}
		if moving {
			pause(ctx, movePause<<round)
		}
	}
	for _, a := range open {
		class := "script"
		if a.moving {
			class = "clusterdown"
		}
		s.observe(class)
		a.unit.err = fmt.Errorf("%w: %s", backends.ErrUnavailable, class)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// send writes all attempts as one pipeline and reads the replies. Errors stay
// in the commands.
func (s *Store) send(ctx context.Context, open []attempt) {
	pipe := s.client.Pipeline()
	for i := range open {
		a := &open[i]
		script, keys, args := a.unit.request(&s.clock)
		a.script = script
		words := make([]any, 0, 3+len(keys)+len(args))
		if a.withText {
			words = append(words, "eval", script.Text)
		} else {
			words = append(words, "evalsha", script.SHA)
		}
		words = append(words, len(keys))
		for _, k := range keys {
			words = append(words, k)
		}
		a.cmd = goredis.NewCmd(ctx, append(words, args...)...)
		if len(keys) > 0 {
			a.cmd.SetFirstKeyPos(3)
		}
		_ = pipe.Process(ctx, once{a.cmd})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		for i := range open { // a connection that was refused leaves commands untouched
			if cmd := open[i].cmd; cmd.Err() == nil && cmd.Val() == nil {
				cmd.SetErr(err)
			}
		}
	}
}

// redirected tells the replies of a cluster's node that has not run the command
// because the slot is elsewhere or nowhere at the moment.
func redirected(err error) bool {
	text := err.Error()
	for _, prefix := range []string{"MOVED ", "ASK ", "TRYAGAIN ", "CLUSTERDOWN "} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// receive reads a reply into the unit; it reports true where the unit must be
// asked again.
func (s *Store) receive(a *attempt) (again bool) {
	reply, err := a.cmd.Int64Slice()
	if err != nil {
		if strings.HasPrefix(err.Error(), "NOSCRIPT") && !a.withText {
			a.withText = true
			return true
		}
		if a.moving = redirected(err); a.moving {
			return true
		}
		class := Class(err)
		s.observe(class)
		a.unit.err, a.unit.silent = fmt.Errorf("%w: %s", sentinel(class), class), silent(class)
		return false
	}
	nowUS, moved, ok := a.unit.read(reply)
	if !ok {
		s.observe("script")
		a.unit.err = fmt.Errorf("%w: unexpected reply of a script", backends.ErrUnavailable)
		return false
	}
	s.clock.learn(nowUS)
	return moved
}
