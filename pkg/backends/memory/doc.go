// Package memory is the embedded store: states in this process's memory.
//
// It owns where states live, how many there may be and when they are dropped;
// what a state decides is pkg/algorithm's. It shares nothing between processes.
//
// # Locks
//
// Keys are spread over shards by a seeded hash, each with a lock of its own. A
// call of several items locks the shards that it needs in ascending order, so
// that two calls never wait for each other. Under them only the list of rules is
// locked, which locks nothing further.
//
// # Expiry
//
// A state is dropped once it equals an unused one, by the numbers of the limit
// that wrote it last, and a second has passed: with each new key a few others of
// its shard are looked at, and a sweeper passes over one shard after the other.
// Shards stay small, so nobody waits for either, nor for a map that grows. A
// clock that steps back does not bring back what was dropped.
//
// # A full store
//
// When there are too many keys, in all or of one rule, and none of those looked
// at has expired, further keys of the rule share 4,096 cells, each with the
// rule's whole limit: that is strict, never lax, and nobody's count is lost. A
// key stays in its cell until the cell is as new.
package memory
