// Package descriptors turns rule files into a checked, immutable [Snapshot] and
// matches the descriptors of requests against it.
//
// It owns the config language (a superset of envoyproxy/ratelimit's), its
// diagnostics with positions, matching, counter keys and statistics keys. It
// must not know stores, protocols, clocks or files: it is given texts and gives
// back rules, keys and limits.
//
// The language is documented in docs/CONFIG.md.
package descriptors
