package memory

import (
	"math/bits"
	"time"
)

// Defaults of Options.
const (
	DefaultMaxKeys    = 1_000_000
	DefaultSweepEvery = 10 * time.Second
)

const (
	// keysPerShard is what the default number of shards aims at: a sweep of that
	// many takes a fraction of a millisecond.
	keysPerShard = 4096
	minShards    = 64 // so that callers seldom meet
	maxShards    = 4096
)

// Options of a Store; the zero value is useful.
type Options struct {
	// MaxKeys bounds the keys with a state of their own; 0 is DefaultMaxKeys.
	MaxKeys int
	// MaxKeysPerRule bounds those of one rule (backends.Item.Rule), so that one
	// flooded rule leaves room for others; 0 is three quarters of MaxKeys.
	MaxKeysPerRule int
	// Shards is the number of locks, rounded up to a power of two; 0 chooses by
	// MaxKeys, from 64 to 4,096.
	Shards int
	// SweepEvery is the time for one pass of the sweeper over all shards; 0 is
	// DefaultSweepEvery, negative switches it off: states are then dropped only
	// as new keys come.
	SweepEvery time.Duration
	// NowUS is the clock in µs since the epoch, safe for concurrent use; nil is
	// the system's. It may step back: pkg/algorithm says what that does.
	NowUS func() int64
	// OnOverflow is told the rule when its keys begin to share cells, once a
	// minute at most for each rule. It must not block. nil tells nobody.
	OnOverflow func(rule string)
}

func (o *Options) fill() {
	if o.MaxKeys <= 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	if o.MaxKeysPerRule <= 0 {
		o.MaxKeysPerRule = max(1, o.MaxKeys-o.MaxKeys/4)
	}
	if o.Shards <= 0 {
		o.Shards = min(max(o.MaxKeys/keysPerShard, minShards), maxShards)
	}
	o.Shards = 1 << bits.Len(uint(o.Shards-1))
	if o.SweepEvery == 0 {
		o.SweepEvery = DefaultSweepEvery
	}
	if o.NowUS == nil {
		o.NowUS = func() int64 { return time.Now().UnixMicro() }
	}
}
