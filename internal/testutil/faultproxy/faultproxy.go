// Package faultproxy is a TCP proxy that misbehaves as told, for tests of what
// happens between weir and its store.
package faultproxy

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Mode is how the proxy behaves.
type Mode string

// The modes.
const (
	Pass      Mode = "pass"
	Hang      Mode = "hang"       // takes everything, answers nothing
	Refuse    Mode = "refuse"     // closes connections, old and new
	LoseReply Mode = "lose_reply" // passes requests on, closes instead of the reply
	HalfReply Mode = "half_reply" // passes half of the reply, then closes
)

// Proxy passes a port on to a target.
type Proxy struct {
	target   string
	listener net.Listener

	mu      sync.Mutex
	mode    Mode
	delay   time.Duration // of replies
	conns   map[net.Conn]bool
	closed  bool
	running sync.WaitGroup
}

// Start starts a proxy in mode Pass; it ends with the test.
func Start(t testing.TB, target string) *Proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{target: target, listener: l, mode: Pass, conns: map[net.Conn]bool{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set changes the behaviour, also of open connections. delay is how late
// replies are.
func (p *Proxy) Set(m Mode, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode, p.delay = m, delay
	if m == Refuse {
		for c := range p.conns {
			_ = c.Close()
		}
	}
}

func (p *Proxy) get() (Mode, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.delay
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	_ = p.listener.Close()
	p.running.Wait()
}

// track keeps a connection for close; it reports false after that.
func (p *Proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) forget(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if mode, _ := p.get(); mode == Refuse || !p.track(client) {
			_ = client.Close()
			continue
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer p.forget(client)
	server, err := net.Dial("tcp", p.target)
	if err != nil || !p.track(server) {
		return
	}
	defer p.forget(server)
	var both sync.WaitGroup
	both.Go(func() {
		p.requests(client, server)
		_ = server.Close()
	})
	p.replies(server, client)
	_ = client.Close()
	both.Wait()
}

func (p *Proxy) requests(from, to net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if mode, _ := p.get(); mode == Hang {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *Proxy) replies(from, to net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		mode, delay := p.get()
		if delay > 0 {
			time.Sleep(delay)
		}
		switch mode {
		case Hang:
			continue
		case LoseReply, Refuse:
			return
		case HalfReply:
			_, _ = to.Write(buf[:n/2])
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
