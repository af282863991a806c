// Package envoyrls implements Envoy's RateLimitService v3 on top of the limiter.
//
// It owns the translation between the protocol and the engine: what a request's
// descriptors ask, and how verdicts become statuses, an overall code, headers,
// a body and dynamic metadata. Its unit of work is a list of calls, so that a
// transport can hand over whatever arrived together; a grpc-go handler hands
// over one. It must not know stores, rule files or how it is served.
package envoyrls
