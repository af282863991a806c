package envoyrls

import (
	"context"
	"errors"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/descriptors"
	"github.com/weirhq/weir/pkg/limiter"
)

// Decider decides requests in one round trip and calls done once; see
// limiter.Limiter.Submit.
type Decider interface {
	Submit(reqs []*limiter.Request, done func())
}

// Service answers rate limit calls. It is safe for concurrent use.
type Service struct {
	rls.UnimplementedRateLimitServiceServer

	snapshot func() *descriptors.Snapshot
	decider  Decider
	opts     Options
}

// New makes a service. snapshot gives the configuration in force, nil while
// none was loaded; a call uses one snapshot to its end.
func New(snapshot func() *descriptors.Snapshot, decider Decider, opts Options) *Service {
	opts.fill()
	return &Service{snapshot: snapshot, decider: decider, opts: opts}
}

// ShouldRateLimit is the protocol's method: a batch of one.
func (s *Service) ShouldRateLimit(ctx context.Context, req *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	call := &Call{Request: req}
	call.Deadline, _ = ctx.Deadline()
	done := make(chan struct{})
	s.Submit([]*Call{call}, func() { close(done) })
	<-done
	if ctx.Err() != nil {
		s.release(call) // nobody will hear of the places taken
	}
	return call.Response, call.Err
}

// Submit answers all calls against one snapshot, with one round trip to the
// store, and calls done once, from any goroutine and possibly before Submit
// returns. The calls belong to the service until then.
func (s *Service) Submit(calls []*Call, done func()) {
	snapshot := s.snapshot()
	requests := make([]*limiter.Request, 0, len(calls))
	for _, c := range calls {
		c.Began = s.opts.Now()
		contain(c, func() { c.Err = s.prepare(snapshot, c) })
		if c.Err == nil && len(c.decision.Checks) > 0 {
			requests = append(requests, &c.decision)
		}
		c.Matched = s.opts.Now()
	}
	finish := func() {
		decided := s.opts.Now()
		for _, c := range calls {
			c.Decided = decided
			contain(c, func() { s.finish(c) })
		}
		done()
	}
	if len(requests) == 0 {
		finish()
		return
	}
	s.decider.Submit(requests, finish)
}

// contain answers a fault of weir's own as an error: no request may end the
// process, also where a store's goroutine completes it.
func contain(c *Call, f func()) {
	defer func() {
		if p := recover(); p != nil {
			c.Response, c.Err = nil, status.Errorf(codes.Internal, "internal fault: %v", p)
		}
	}()
	f()
}

func (s *Service) finish(c *Call) {
	if c.Err == nil {
		s.answer(c)
	}
	c.Answered = s.opts.Now()
	if c.Over || c.Err != nil {
		s.release(c) // the request does not run
	}
	if s.opts.Observer != nil {
		s.opts.Observer.Observe(c)
	}
}

// Call is one call: Request and Deadline go in, Response or Err come out.
type Call struct {
	Request  *rls.RateLimitRequest
	Deadline time.Time // when the caller stops waiting; zero means never

	Response *rls.RateLimitResponse
	Err      error // a gRPC status error

	// Descriptors has one element per descriptor of the request once it was
	// accepted.
	Descriptors []Descriptor
	// Over tells that the answer refuses; OverShadowed that global shadow mode
	// turned a refusal into OK.
	Over, OverShadowed bool
	// Exempt tells that an exempt rule let the whole request pass.
	Exempt bool

	Began, Matched, Decided, Answered time.Time

	decision limiter.Request
	lease    string
}

// Descriptor is what became of one descriptor of a request.
type Descriptor struct {
	Match descriptors.Match
	Check *limiter.Check // nil when nothing was to be counted
	Hits  int64          // as asked, clamped
	// Over tells that the limit refuses, also where shadow mode hides it;
	// Enforced that the status says so.
	Over, Enforced bool
}

// statusError translates the failure of a store.
func statusError(err error) error {
	if errors.Is(err, backends.ErrOverloaded) {
		return status.Error(codes.ResourceExhausted, "overloaded: too many decisions are waiting")
	}
	return status.Error(codes.Unavailable, "rate limit store does not answer")
}
