// Package limiter decides requests: it asks a store about the limits that a
// request met and answers in time, whatever the store does.
//
// It owns what stands between rules and stores: grouping (layered limits,
// all-or-nothing), the time budget of a decision, the fail mode of each check
// and the choice of the limit that an answer speaks of. It must not know rule
// files, descriptors, gRPC or HTTP, so that it serves as a library without them.
package limiter
