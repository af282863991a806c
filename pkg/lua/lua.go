// Package lua holds the decisions as Redis scripts: the same functions as
// pkg/algorithm, state by state and number by number.
//
// It owns the scripts' texts and their interface, so that a program in any
// language can share limits with weir. It must not know how scripts are sent.
//
// # Interface
//
// A single script takes one key and decides one limit:
//
//	KEYS[1]  the state's key (for fixed windows with ":" and the window number)
//	ARGV[1]  now in µs since the epoch, or "" for the server's clock
//	ARGV[2]  mode: 0 spend, 1 look, 2 charge, 3 take up to, 4 refund
//	ARGV[3]  cost in hits; a spend of 0 must be sent as a look
//	ARGV[4]  ms that the key lives longer than needed (random, so that keys do
//	         not all expire at once)
//	ARGV[5…] the algorithm's numbers, in the order of the script's first comment
//
// and replies seven integers: code (1 allowed, 0 refused, −1 refused and never
// possible, −2 wrong window number: nothing was written, ask again with the one
// of the replied time), hits taken, hits remaining, hits used, µs until the same
// ask passes, µs until the state is as new, and the time used.
//
// [Group] takes several keys, which must share a slot in a cluster; its first
// comment has the arguments.
package lua

import (
	"crypto/sha1" //nolint:gosec // names a script to Redis, protects nothing
	_ "embed"
	"encoding/hex"
)

// Script is a text and the name by which EVALSHA calls it.
type Script struct {
	Text string
	SHA  string // hex
}

// Codes of a reply.
const (
	CodeAllowed = 1
	CodeDenied  = 0
	CodeNever   = -1
	CodeMoved   = -2
)

// Numbers of the algorithms in Group's arguments.
const (
	NumberFixedWindow = iota
	NumberLog
	NumberRing
	NumberCounter
	NumberTokenBucket
	NumberLeakyBucket
	NumberConcurrency
)

var (
	//go:embed scripts/common.lua
	common string
	//go:embed scripts/fixed_window.lua
	fixedWindow string
	//go:embed scripts/log.lua
	log string
	//go:embed scripts/ring.lua
	ring string
	//go:embed scripts/counter.lua
	counter string
	//go:embed scripts/bucket.lua
	bucket string
	//go:embed scripts/concurrency.lua
	concurrency string
	//go:embed scripts/single.lua
	single string
	//go:embed scripts/group.lua
	group string
)

// The scripts. Both buckets share one.
var (
	FixedWindow = one(fixedWindow, "fixed_window")
	Log         = one(log, "log")
	Ring        = one(ring, "ring")
	Counter     = one(counter, "counter")
	Bucket      = one(bucket, "bucket")
	Concurrency = one(concurrency, "concurrency")
	Group       = script(common + fixedWindow + log + ring + counter + bucket + concurrency + group)
)

// All lists every script.
func All() []*Script {
	return []*Script{&FixedWindow, &Log, &Ring, &Counter, &Bucket, &Concurrency, &Group}
}

func one(text, name string) Script {
	return script(common + text + "local algorithm = " + name + "\n" + single)
}

func script(text string) Script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return Script{Text: text, SHA: hex.EncodeToString(sum[:])}
}
