package redis

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"

	"github.com/weirhq/weir/pkg/backends"
)

// replyClasses are the errors that a server replies, by a word in their text:
// older servers wrap what a script met.
var replyClasses = []struct{ word, class string }{
	{"READONLY", "readonly"}, {"LOADING", "loading"}, {"MASTERDOWN", "masterdown"}, {"CLUSTERDOWN", "clusterdown"},
	{"TRYAGAIN", "clusterdown"}, {"OOM", "oom"}, {"NOSCRIPT", "noscript"}, {"WRONGTYPE", "wrongtype"},
	{"NOAUTH", "auth"}, {"WRONGPASS", "auth"}, {"NOPERM", "auth"}, {"MISCONF", "misconf"}, {"NOREPLICAS", "noreplicas"},
	{"BUSY", "busy"}, {"MOVED", "clusterdown"}, {"ASK", "clusterdown"},
}

// Classes lists what Class can say.
func Classes() []string {
	out := []string{"timeout", "overloaded", "breaker", "down", "script"}
	seen := map[string]bool{}
	for _, c := range replyClasses {
		if !seen[c.class] {
			seen[c.class] = true
			out = append(out, c.class)
		}
	}
	return out
}

// Class names the kind of a failure for metrics and logs; it holds no key, no
// address and no secret.
func Class(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	text := err.Error()
	for _, c := range replyClasses {
		if strings.Contains(text, c.word) {
			return c.class
		}
	}
	if strings.HasPrefix(text, "ERR") || strings.Contains(text, "user_script") {
		return "script"
	}
	return "down"
}

func sentinel(class string) error {
	if class == "timeout" {
		return backends.ErrTimeout
	}
	return backends.ErrUnavailable
}
