package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	handshakeLimit  = 5 * time.Second
	readBuffer      = 64 << 10
	streamWindow    = 16 << 20 // Envoy's
	connWindow      = 1 << 30
	defaultWindow   = 65535
	defaultTable    = 4096
	lastStream      = 1<<31 - 3
	unlimitedByPeer = 1 << 30
	mostInFlight    = 1 << 14 // of one connection; what is due beyond waits, and its wait counts
)

// conn is one HTTP/2 connection. Its reader goroutine and, with a schedule, the
// pacer use it; mu guards all below it.
type conn struct {
	nc     net.Conn
	in     *stampedReader
	fr     *http2.Framer // reads
	hpack  *hpack.Decoder
	writer *writer
	reader sync.WaitGroup

	// Used by the reader alone, or by dial before it starts.
	status    string // grpc-status of the block being read
	ends      bool   // the block being read ends its stream
	unacked   int64  // received bytes that no WINDOW_UPDATE has given back
	settled   bool   // the peer's SETTINGS have come
	tableSize uint32 // the peer's SETTINGS_HEADER_TABLE_SIZE

	mu         sync.Mutex
	out        []byte
	control    *http2.Framer // writes to out
	calls      map[uint32]*call
	spare      []*call
	nextStream uint32
	window     int64 // what the peer's connection window still takes
	perStream  int64 // the peer's initial stream window
	maxStreams int
	part       *part // nil between runs
	err        error // set once: the connection is of no more use
}

// call is one request in flight.
type call struct {
	start int64 // ns since epoch; the scheduled time where there is one
	msg   []byte
}

// epoch makes monotonic times small integers.
var epoch = time.Now()

func now() int64 { return int64(time.Since(epoch)) }

// stampedReader notes when the latest bytes came.
type stampedReader struct {
	net.Conn
	at int64
}

func (r *stampedReader) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.at = now()
	return n, err
}

// dial connects, exchanges SETTINGS and asks once, so that the peer's header
// table is filled and known to work. The answer must be a verdict.
func dial(addr string, timeout time.Duration, shape Shape, seed uint64) (*conn, error) {
	nc, err := net.DialTimeout("tcp", addr, handshakeLimit)
	if err != nil {
		return nil, err
	}
	c := &conn{
		nc: nc, in: &stampedReader{Conn: nc}, calls: map[uint32]*call{}, nextStream: 1,
		window: defaultWindow, perStream: defaultWindow, maxStreams: unlimitedByPeer, tableSize: defaultTable,
	}
	buffered := bufio.NewReaderSize(c.in, readBuffer)
	c.fr = http2.NewFramer(nil, buffered)
	c.fr.SetReuseFrames()
	c.control = http2.NewFramer(appender{c}, nil)
	c.hpack = hpack.NewDecoder(defaultTable, func(f hpack.HeaderField) {
		if f.Name == "grpc-status" {
			c.status = f.Value
		}
	})
	if err := c.handshake(addr, timeout, shape, seed); err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	c.reader.Add(1)
	go func() {
		defer c.reader.Done()
		c.read(buffered)
	}()
	return c, nil
}

func (c *conn) handshake(addr string, timeout time.Duration, shape Shape, seed uint64) error {
	if err := c.nc.SetDeadline(time.Now().Add(handshakeLimit)); err != nil {
		return err
	}
	if _, err := c.nc.Write(preface()); err != nil {
		return err
	}
	for !c.settled {
		if err := c.readFrame(); err != nil {
			return err
		}
	}
	first, later := headerBlocks(addr, timeout, c.tableSize)
	opening, err := newTemplate(shape, shape.AllowKey, first)
	if err != nil {
		return err
	}
	if c.writer, err = newWriter(shape, seed, later); err != nil {
		return err
	}
	if int64(opening.payload) > min(c.perStream, c.window) {
		return fmt.Errorf("requests of %d bytes do not fit the peer's window", opening.payload)
	}
	c.part = &part{descriptors: shape.Descriptors, result: newResult()}
	result := c.part.result
	c.put(&opening, now())
	if err := c.flush(); err != nil {
		return err
	}
	for len(c.calls) > 0 {
		if err := c.readFrame(); err != nil {
			return err
		}
	}
	c.part = nil
	for reason := range result.Failed {
		return fmt.Errorf("first answer: %s", reason)
	}
	return errors.Join(c.flush(), c.nc.SetDeadline(time.Time{}))
}

// preface opens wide windows, so that the peer never waits for ours.
func preface() []byte {
	var b bytes.Buffer
	b.WriteString(http2.ClientPreface)
	fr := http2.NewFramer(&b, nil)
	_ = fr.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
	) // a bytes.Buffer takes everything
	_ = fr.WriteWindowUpdate(0, connWindow-defaultWindow)
	return b.Bytes()
}

// put writes one request to the buffer. mu is held, or nobody else is there.
func (c *conn) put(t *template, start int64) {
	var k *call
	if n := len(c.spare); n > 0 {
		k, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		k = new(call)
	}
	k.start, k.msg = start, k.msg[:0]
	c.calls[c.nextStream] = k
	c.out = c.writer.appendRequest(c.out, t, c.nextStream)
	c.window -= int64(t.payload)
	c.nextStream += 2
}

// fillLocked writes as many requests as the run wants and the peer takes.
func (c *conn) fillLocked(at int64) {
	if c.part == nil || c.err != nil {
		return
	}
	for len(c.calls) < min(c.maxStreams, mostInFlight) && c.window >= int64(c.writer.largest()) && c.nextStream <= lastStream {
		start, ok := c.part.next(len(c.calls), at)
		if !ok {
			break
		}
		c.put(c.writer.next(), start)
	}
}

// flush sends what is in the buffer. mu is held, or nobody else is there.
func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.nc.Write(c.out)
	c.out = c.out[:0]
	return err
}

// close ends the connection and waits for its reader.
func (c *conn) close() {
	_ = c.nc.Close()
	c.reader.Wait()
}
