package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/weirhq/weir/test/bench/internal/proc"
)

// facts are what a reader needs to judge numbers, in order: name and value.
type facts [][2]string

func gatherFacts(ctx context.Context, o options, ts *targets) (facts, error) {
	cpu, kernel := proc.Machine()
	redis, err := ts.find(redisName).redis.Info("server")
	if err != nil {
		return nil, err
	}
	f := facts{
		{"Date", time.Now().UTC().Format(time.DateOnly)},
		{"Machine", fmt.Sprintf("%d × %s, shared by servers, Redis and driver", runtime.NumCPU(), cpu)},
		{"Kernel", "Linux " + kernel},
		{"weir", commit(ctx, o)},
		{"Go", strings.TrimPrefix(runtime.Version(), "go")},
		{"grpc-go (floor)", moduleVersion("google.golang.org/grpc")},
		{"Redis", redis["redis_version"]},
	}
	for _, other := range o.others {
		f = append(f, [2]string{"Also", other.name})
	}
	return append(f, [2]string{"Rounds", fmt.Sprintf("%d of %v each", o.rounds, o.duration)}), nil
}

// commit names weir's source; a binary from elsewhere has none.
func commit(ctx context.Context, o options) string {
	if o.weir != "" {
		return "a given binary"
	}
	hash, err := exec.CommandContext(ctx, "git", "-C", o.root, "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := "commit " + strings.TrimSpace(string(hash))
	changed, err := exec.CommandContext(ctx, "git", "-C", o.root, "status", "--porcelain", "--", "*.go", "*.lua").Output()
	if err == nil && len(changed) > 0 {
		name += " with changes"
	}
	return name
}

func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	return "unknown"
}
