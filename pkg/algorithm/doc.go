// Package algorithm is the pure core of weir: what a rate limit decides, as
// integer arithmetic on a small state.
//
// It owns the six algorithms (fixed window, sliding window log, sliding window
// counter, token bucket, leaky bucket, concurrency), the numbers derived from a
// limit ([Spec]) and the state kept per key ([State]). A decision is a function
// of (state, now, limit, cost, mode); the scripts of pkg/lua compute the same
// functions, and tests hold the two against each other and against a slow model
// that keeps whole histories.
//
// It must not know: clocks, stores, goroutines, configuration files, protocols.
// Time comes in as microseconds since the Unix epoch. Every product of two
// numbers stays below 2^53, so that Lua's doubles give the same results.
//
// The formulas and their derivations are in docs/ALGORITHMS.md.
package algorithm
