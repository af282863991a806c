// Package headers renders what a client is told about its limits: response
// header fields and the body of a refusal.
//
// It owns the three forms of rate limit fields, Retry-After, the problem+json
// body, and the rules for what may be put into a header at all: Envoy validates
// nothing, so a line feed in a value would inject a header. It must not know
// rules, stores or protocols.
package headers

import (
	"strconv"
	"strings"
	"time"
)

// Field is one header field.
type Field struct {
	Key, Value string
}

// Policy is one limit as a client sees it.
type Policy struct {
	Name      string // printable ASCII without quotes and backslash
	Limit     int64
	Remaining int64
	Window    time.Duration // 0: the limit has no window (requests in flight)
	Reset     time.Duration // until more becomes available; negative: not to be told
}

// Names are the names of the three single fields.
type Names struct {
	Limit, Remaining, Reset string
}

// The usual names.
var (
	RateLimitNames  = Names{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}
	XRateLimitNames = Names{Limit: "X-RateLimit-Limit", Remaining: "X-RateLimit-Remaining", Reset: "X-RateLimit-Reset"}
)

// Single appends the three fields that tell one limit, in seconds.
func Single(dst []Field, n Names, p Policy) []Field {
	return append(dst,
		Field{n.Limit, strconv.FormatInt(p.Limit, 10)},
		Field{n.Remaining, strconv.FormatInt(p.Remaining, 10)},
		Field{n.Reset, strconv.FormatInt(Seconds(max(0, p.Reset)), 10)},
	)
}

// maxInteger is the largest integer of a structured field (RFC 9651).
const maxInteger = 1e15 - 1

// Draft10 appends RateLimit-Policy and RateLimit, lists over all policies, in
// the form of draft-ietf-httpapi-ratelimit-headers-08 … -11.
func Draft10(dst []Field, policies []Policy) []Field {
	if len(policies) == 0 {
		return dst
	}
	var quota, state strings.Builder
	for i, p := range policies {
		if i > 0 {
			quota.WriteString(", ")
			state.WriteString(", ")
		}
		name := `"` + Name(p.Name) + `"`
		quota.WriteString(name)
		parameter(&quota, "q", p.Limit)
		if p.Window > 0 {
			parameter(&quota, "w", Seconds(p.Window))
		} else {
			quota.WriteString(`;qu="concurrent-requests"`)
		}
		state.WriteString(name)
		parameter(&state, "r", p.Remaining)
		if p.Reset >= 0 && p.Window > 0 {
			parameter(&state, "t", Seconds(p.Reset))
		}
	}
	return append(dst, Field{"RateLimit-Policy", quota.String()}, Field{"RateLimit", state.String()})
}

func parameter(b *strings.Builder, key string, value int64) {
	b.WriteString(";" + key + "=")
	b.WriteString(strconv.FormatInt(min(max(0, value), maxInteger), 10))
}

// RetryAfter is the field that tells a refused client when to come again:
// whole seconds, rounded up, at least 1 (RFC 9110, 10.2.3).
func RetryAfter(wait time.Duration) Field {
	return Field{"retry-after", strconv.FormatInt(max(1, Seconds(wait)), 10)}
}

// Seconds rounds up, so that nobody comes early.
func Seconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}

// Name makes a name fit for a quoted string in a header: printable ASCII
// without quotes and backslash, other bytes become '_'.
func Name(name string) string {
	for i := 0; i < len(name); i++ {
		if !nameByte(name[i]) {
			out := []byte(name)
			for j := range out {
				if !nameByte(out[j]) {
					out[j] = '_'
				}
			}
			return string(out)
		}
	}
	return name
}

func nameByte(c byte) bool { return c >= ' ' && c <= '~' && c != '"' && c != '\\' }

// Valid tells whether a field may be sent: the key is a token, the value holds
// no control characters, and the field is none that would break the message or
// be glued to the upstream's. OK answers take no content-type and retry-after.
func Valid(f Field, refused bool) bool {
	key := strings.ToLower(f.Key)
	switch key {
	case "content-length", "transfer-encoding", "connection", "host":
		return false
	case "content-type", "retry-after":
		if !refused {
			return false
		}
	}
	return token(key) && clean(f.Value)
}

func token(key string) bool {
	for i := 0; i < len(key); i++ {
		c := key[i]
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return key != ""
}

func clean(value string) bool {
	for i := 0; i < len(value); i++ {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
