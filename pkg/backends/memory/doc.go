// Package memory is the embedded store: states in this process's memory.
//
// It owns where states live, how many there may be and when they are dropped;
// what a state decides is pkg/algorithm's. It shares nothing between processes.
//
// Keys are spread over shards, each with a lock of its own. A state is dropped
// when it equals an unused one: a few are looked at with each new key, and a
// sweeper passes over one shard after the other. When a shard is full of states
// that still matter, further keys of a rule share cells, each with the rule's
// whole limit: that is strict, never lax, and nobody's count is lost. A key
// stays in its cell until the cell is as new.
package memory
