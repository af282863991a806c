package redis

import (
	"context"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/lua"
)

// maxRounds bounds the pipelines for one batch: scripts that the server has
// lost and windows that have turned are asked again, since nothing was counted.
const maxRounds = 4

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
}

// exchange asks the server about the units and fills in their decisions or
// errors.
func (s *Store) exchange(ctx context.Context, units []*unit) {
	open := make([]attempt, len(units))
	for i, u := range units {
		open[i].unit = u
	}
	s.rounds(ctx, open)
	if refunds := s.refunds(units); len(refunds) > 0 {
		s.rounds(ctx, refunds)
		settleRefunds(refunds)
	}
}

func (s *Store) rounds(ctx context.Context, open []attempt) {
	for range maxRounds {
		s.send(ctx, open)
		again := open[:0]
		for _, a := range open {
			if s.receive(&a) {
				again = append(again, a)
			}
		}
		if open = again; len(open) == 0 {
			return
		}
	}
	for _, a := range open {
		a.unit.err = fmt.Errorf("%w: the script was not taken", backends.ErrUnavailable)
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

// receive reads a reply into the unit; it reports true where the unit must be
// asked again.
func (s *Store) receive(a *attempt) (again bool) {
	reply, err := a.cmd.Int64Slice()
	if err != nil {
		if strings.HasPrefix(err.Error(), "NOSCRIPT") && !a.withText {
			a.withText = true
			return true
		}
		class := Class(err)
		s.observe(class)
		a.unit.err = fmt.Errorf("%w: %s", sentinel(class), class)
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
