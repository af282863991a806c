package envoyrls

import (
	"time"

	"github.com/weirhq/weir/internal/headers"
	"github.com/weirhq/weir/pkg/descriptors"
	"github.com/weirhq/weir/pkg/limiter"
)

// StatusLimits chooses which statuses carry current_limit: Envoy builds its own
// x-ratelimit headers from the one with the least remaining, whatever its code.
type StatusLimits uint8

// The choices of StatusLimits.
const (
	StatusLimitsAll      StatusLimits = iota // each counted descriptor, as the reference
	StatusLimitsRefusing                     // when something refuses, only what refuses
	StatusLimitsEnforced                     // all but shadow rules
)

// MetadataMode chooses when dynamic metadata is sent.
type MetadataMode uint8

// The choices of MetadataMode.
const (
	MetadataRefused MetadataMode = iota // when something refused, or would have in shadow mode
	MetadataAll
	MetadataOff
)

// Body is the form of a refusal's body.
type Body uint8

// The forms of a body.
const (
	BodyNone Body = iota
	BodyText
	BodyProblem // application/problem+json
)

// Bounds of what one request may hold, when Options leave them 0.
const (
	DefaultMaxDescriptors = 256
	DefaultMaxEntries     = 64
	DefaultMaxKeyBytes    = 1 << 10
	DefaultMaxValueBytes  = 64 << 10
)

// Options of a Service; the zero value answers as the reference does by
// default, plus retry-after and metadata on refusals.
type Options struct {
	// Headers is the form sent for rules that choose none. HeadersUnset is none.
	Headers     descriptors.HeaderForm
	HeaderNames headers.Names // of the RateLimit fields; zero means headers.RateLimitNames

	NoRetryAfter      bool
	StatusLimits      StatusLimits
	Metadata          MetadataMode
	ReferenceMetadata bool // the layout of RESPONSE_DYNAMIC_METADATA
	Body              Body

	// ShadowMode counts and reports everything but never refuses; QuotaMode
	// treats every counted descriptor as a quota.
	ShadowMode, QuotaMode bool
	// AllOrNothing counts the descriptors of a request only if all pass, in all
	// domains.
	AllOrNothing bool
	OnError      limiter.FailMode // of rules that choose none

	// Bounds of one request; 0 takes the default.
	MaxDescriptors, MaxEntries, MaxKeyBytes, MaxValueBytes int

	Observer Observer // nil observes nothing
	Now      func() time.Time
}

func (o *Options) fill() {
	if o.HeaderNames == (headers.Names{}) {
		o.HeaderNames = headers.RateLimitNames
	}
	for _, bound := range []struct {
		value    *int
		standard int
	}{
		{&o.MaxDescriptors, DefaultMaxDescriptors},
		{&o.MaxEntries, DefaultMaxEntries},
		{&o.MaxKeyBytes, DefaultMaxKeyBytes},
		{&o.MaxValueBytes, DefaultMaxValueBytes},
	} {
		if *bound.value <= 0 {
			*bound.value = bound.standard
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Observer is told of each call after it was answered, for metrics and logs. It
// must not keep or change the call.
type Observer interface {
	Observe(*Call)
}
