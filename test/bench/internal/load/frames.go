package load

import (
	"bufio"
	"errors"
	"fmt"

	"golang.org/x/net/http2"
)

// read handles frames until the connection ends; after each read's worth of
// them it writes the next requests.
func (c *conn) read(buffered *bufio.Reader) {
	for {
		err := c.readFrame()
		c.mu.Lock()
		if err == nil && buffered.Buffered() == 0 {
			c.fillLocked(c.in.at)
			err = c.flush()
		}
		if err != nil {
			c.failLocked(err)
			c.mu.Unlock()
			return
		}
		c.finishLocked()
		c.mu.Unlock()
	}
}

// failLocked gives up the connection and everything in flight on it.
func (c *conn) failLocked(err error) {
	c.err = err
	_ = c.nc.Close() // so that the reader ends too
	if c.part == nil {
		return
	}
	c.abandonLocked(fmt.Sprintf("connection: %v", err))
}

// abandonLocked ends a connection's part of a run; what it owes has failed.
func (c *conn) abandonLocked(reason string) {
	p := c.part
	if owed := len(c.calls) + len(p.due); owed > 0 {
		p.result.Failed[reason] += uint64(owed)
	}
	clear(c.calls)
	c.part = nil
	close(p.done)
}

// finishLocked tells a run that is stopping that nothing is in flight any more.
func (c *conn) finishLocked() {
	if p := c.part; p != nil && p.stopping && len(c.calls) == 0 && len(p.due) == 0 {
		c.part = nil
		close(p.done)
	}
}

func (c *conn) readFrame() error {
	frame, err := c.fr.ReadFrame()
	if err != nil {
		return err
	}
	switch f := frame.(type) {
	case *http2.DataFrame:
		return c.data(f)
	case *http2.HeadersFrame:
		c.status, c.ends = "", f.StreamEnded()
		return c.block(f.StreamID, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.ContinuationFrame:
		return c.block(f.StreamID, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.RSTStreamFrame:
		c.lockedFinish(f.StreamID, "reset: "+f.ErrCode.String())
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			c.mu.Lock()
			c.window += int64(f.Increment)
			c.mu.Unlock()
		}
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			c.reply(func() error { return c.control.WritePing(true, f.Data) })
		}
	case *http2.GoAwayFrame:
		return fmt.Errorf("peer went away: %s %q", f.ErrCode, f.DebugData())
	}
	return nil
}

func (c *conn) data(f *http2.DataFrame) error {
	c.unacked += int64(f.Length)
	if c.unacked >= connWindow/2 {
		increment := uint32(c.unacked)
		c.reply(func() error { return c.control.WriteWindowUpdate(0, increment) })
		c.unacked = 0
	}
	if f.StreamEnded() {
		return errors.New("answer ends without trailers")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.calls[f.StreamID]; k != nil {
		k.msg = append(k.msg, f.Data()...)
	}
	return nil
}

func (c *conn) block(stream uint32, fragment []byte, last bool) error {
	if _, err := c.hpack.Write(fragment); err != nil {
		return err
	}
	if !last {
		return nil
	}
	if err := c.hpack.Close(); err != nil {
		return err
	}
	if !c.ends {
		return nil
	}
	switch c.status {
	case "0":
		c.lockedFinish(stream, "")
	case "":
		c.lockedFinish(stream, "no grpc-status")
	default:
		c.lockedFinish(stream, "grpc-status "+c.status)
	}
	return nil
}

// lockedFinish counts the end of a call; an empty failure means that its
// message holds the verdict.
func (c *conn) lockedFinish(stream uint32, failure string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.calls[stream]
	if k == nil || c.part == nil {
		return
	}
	delete(c.calls, stream)
	c.spare = append(c.spare, k)
	result := c.part.result
	if failure == "" {
		v, err := parseAnswer(k.msg)
		switch {
		case err != nil:
			failure = err.Error()
		case v.statuses != c.part.descriptors:
			failure = fmt.Sprintf("%d statuses", v.statuses)
		default:
			result.verdict(v.code)
			result.Latency.Record(c.in.at - k.start)
			return
		}
	}
	result.Failed[failure]++
}

func (c *conn) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	c.mu.Lock()
	err := f.ForeachSetting(func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingInitialWindowSize:
			c.perStream = int64(s.Val)
		case http2.SettingMaxConcurrentStreams:
			c.maxStreams = int(min(s.Val, unlimitedByPeer))
		case http2.SettingHeaderTableSize:
			if c.settled && s.Val < c.tableSize {
				return errors.New("peer shrinks its header table")
			}
			c.tableSize = min(s.Val, defaultTable)
		}
		return nil
	})
	c.mu.Unlock()
	c.settled = true
	c.reply(c.control.WriteSettingsAck)
	return err
}

// reply adds a control frame to what is sent next.
func (c *conn) reply(write func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = write() // an appender takes everything
}

// appender lets a Framer write to the buffer of a connection.
type appender struct{ c *conn }

func (a appender) Write(p []byte) (int, error) {
	a.c.out = append(a.c.out, p...)
	return len(p), nil
}
