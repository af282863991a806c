package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

const digits = 8 // a key number's width, fixed so that it can be patched

// headerBlocks gives the request headers as the first request of a connection
// sends them, which fills the peer's table, and as every later one does: a few
// indices, the same each time.
func headerBlocks(authority string, timeout time.Duration, tableSize uint32) (first, later []byte) {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	enc.SetMaxDynamicTableSize(min(tableSize, 4096))
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"},
		{Name: ":path", Value: rlsv3.RateLimitService_ShouldRateLimit_FullMethodName},
		{Name: ":authority", Value: authority},
		{Name: "te", Value: "trailers"}, {Name: "content-type", Value: "application/grpc"},
	}
	if timeout > 0 {
		fields = append(fields, hpack.HeaderField{Name: "grpc-timeout", Value: grpcTimeout(timeout)})
	}
	write := func() []byte {
		block.Reset()
		for _, f := range fields {
			_ = enc.WriteField(f) // a bytes.Buffer takes everything
		}
		return bytes.Clone(block.Bytes())
	}
	first = write()
	return first, write()
}

// grpcTimeout is at most eight digits and a unit.
func grpcTimeout(d time.Duration) string {
	if ms := d.Milliseconds(); ms > 0 {
		return strconv.FormatInt(min(ms, 99_999_999), 10) + "m"
	}
	return strconv.FormatInt(max(d.Microseconds(), 1), 10) + "u"
}

// template is one encoded request: a HEADERS and a DATA frame, and the places
// at which one request differs from the next.
type template struct {
	frames  []byte
	payload int   // bytes that count against flow control
	streams []int // offsets of the stream id
	clients []int // offsets of the client numbers, one per descriptor
	routes  []int // offsets of the route numbers, one per descriptor, or none
}

// marker stands in for the n-th patched number while the message is encoded.
func marker(n int) string { return fmt.Sprintf("#%0*d", digits-1, n) }

func newTemplate(s Shape, entryKey string, block []byte) (template, error) {
	req := &rlsv3.RateLimitRequest{Domain: s.Domain}
	for i := range s.Descriptors {
		d := &commonv3.RateLimitDescriptor{}
		if s.Routes > 0 {
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: "route", Value: "r" + marker(2*i+1)})
		}
		value := fmt.Sprintf("d%dk%s", i, marker(2*i))
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: entryKey, Value: value})
		req.Descriptors = append(req.Descriptors, d)
	}
	msg, err := proto.Marshal(req)
	if err != nil {
		return template{}, err
	}
	data := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(msg)))
	data = append(data, msg...)

	var frames bytes.Buffer
	fr := http2.NewFramer(&frames, nil)
	const anyStream = 1
	if err := fr.WriteHeaders(http2.HeadersFrameParam{StreamID: anyStream, BlockFragment: block, EndHeaders: true}); err != nil {
		return template{}, err
	}
	second := frames.Len()
	if err := fr.WriteData(anyStream, true, data); err != nil {
		return template{}, err
	}
	const idInHeader = 5 // length 3, type 1, flags 1
	t := template{frames: frames.Bytes(), payload: len(data), streams: []int{idInHeader, second + idInHeader}}
	for i := range s.Descriptors {
		t.clients = append(t.clients, second+bytes.Index(t.frames[second:], []byte(marker(2*i))))
		if s.Routes > 0 {
			t.routes = append(t.routes, second+bytes.Index(t.frames[second:], []byte(marker(2*i+1))))
		}
	}
	return t, nil
}

// writer makes the requests of one connection.
type writer struct {
	shape       Shape
	allow, deny template
	draw        drawer
	owed        float64 // refusals owed: reaches 1 when the next request is to be refused
}

func newWriter(s Shape, seed uint64, block []byte) (*writer, error) {
	allow, err := newTemplate(s, s.AllowKey, block)
	if err != nil {
		return nil, err
	}
	deny, err := newTemplate(s, s.DenyKey, block)
	if err != nil {
		return nil, err
	}
	return &writer{shape: s, allow: allow, deny: deny, draw: s.drawer(seed)}, nil
}

// largest is the most that a request takes of the connection's window.
func (w *writer) largest() int { return max(w.allow.payload, w.deny.payload) }

// next chooses the template of the next request.
func (w *writer) next() *template {
	w.owed += w.shape.Denied
	if w.owed >= 1 {
		w.owed--
		return &w.deny
	}
	return &w.allow
}

// appendRequest adds one request on a stream to buf.
func (w *writer) appendRequest(buf []byte, t *template, stream uint32) []byte {
	at := len(buf)
	buf = append(buf, t.frames...)
	frames := buf[at:]
	for _, off := range t.streams {
		binary.BigEndian.PutUint32(frames[off:], stream)
	}
	for i, off := range t.clients {
		client := w.draw()
		putNumber(frames[off:off+digits], client)
		if len(t.routes) > 0 {
			putNumber(frames[t.routes[i]:t.routes[i]+digits], client%w.shape.Routes)
		}
	}
	return buf
}

func putNumber(dst []byte, n int) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}
