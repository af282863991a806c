// Package redis is the store that replicas share: Redis or Valkey, single, with
// Sentinel, or as a Cluster.
//
// It owns how decisions travel: batches are queued, a worker sends whatever is
// queued as one pipeline of scripts, and completes each batch from the replies.
// It must not know rules or fail modes, and computes nothing itself; the scripts
// of pkg/lua decide by the server's clock.
//
// A command is never sent twice: a lost reply may have been counted. What has
// passed its deadline in the queue is not sent at all, and a batch is answered
// at its deadline whatever the server does.
package redis
