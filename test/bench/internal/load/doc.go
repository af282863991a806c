// Package load is a rate limit client that costs little: it asks one server
// over a few HTTP/2 connections, as fast as the answers come or at a fixed
// rate, and measures how long each answer took.
//
// It owns frames, request bytes, the schedule and the tally. It must not know
// which server it asks, nor compare anything. grpc-go's client costs more than
// the servers to be measured, so requests are encoded once and patched, and one
// goroutine per connection reads all answers of one read before it writes the
// next requests with one write, as an Envoy worker does.
package load
