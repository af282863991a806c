package algorithm

// State is what one key holds. The zero State is a key that was never used; a
// store that has lost or dropped a key may always start from it. The meaning
// of the words depends on the algorithm and is written beside each.
type State struct {
	At   int64 // fixed window, counter: window number; buckets: time in µs to which N refers; concurrency: last time seen; log: unused
	N    int64 // fixed window: hits; counter: hits of window At; buckets: level; log: hits in total; concurrency: places held
	Prev int64 // counter: hits of window At−1; buckets: the PerHit that N was written with; concurrency: latest end of a lease
	// Log holds what does not fit into three words: the entries of a log, the
	// leases of concurrency. nil while unused.
	Log *Log
}

// Log is the part of a state that grows. It is bounded: an exact log has at
// most 2·MaxLogExact entries, a ring one per sub-window and one more, and
// concurrency one lease per holder.
type Log struct {
	entries []entry
	leases  leases
}
