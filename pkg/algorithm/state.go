package algorithm

// State is what one key holds. The zero State is a key that was never used; a
// store that has lost or dropped a key may always start from it. The meaning
// of the words depends on the algorithm and is written beside each.
type State struct {
	At   int64 // fixed window, counter: window number; buckets: time in µs to which Level refers; ring: last sub-window number
	N    int64 // fixed window: hits; counter: hits of window At; buckets: level; log and ring: hits in total
	Prev int64 // counter: hits of window At−1; buckets: the PerHit that Level was written with
	// Log holds what does not fit into three words: entries of the exact log,
	// slots of the ring, leases. nil while unused.
	Log *Log
}

