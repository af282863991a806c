// Package proc starts the processes that a comparison needs and reads what
// they cost from /proc and from Redis' own counters.
//
// It owns processes, ports and counters. It must not know what load they get.
// Linux only.
package proc
