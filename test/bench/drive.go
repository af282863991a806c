package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/weirhq/weir/test/bench/internal/load"
	"github.com/weirhq/weir/test/bench/internal/proc"
)

// runDrive puts one load on a server that runs already.
func runDrive(ctx context.Context, args []string, out io.Writer) error {
	cfg := load.Config{Shape: load.Shape{DenyKey: denyKey}}
	var schedule load.Schedule
	flags := flag.NewFlagSet("bench drive", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&cfg.Addr, "addr", "127.0.0.1:8081", "gRPC `address`, on the loopback interface")
	flags.IntVar(&cfg.Connections, "connections", connections, "HTTP/2 connections")
	perConn := flags.Int("callers", callers, "calls in flight on each connection, without --rate")
	flags.Float64Var(&schedule.Rate, "rate", 0, "requests per second by a schedule; 0 sends as answers come")
	flags.BoolVar(&schedule.Poisson, "poisson", false, "with --rate: random arrivals instead of equal gaps")
	flags.DurationVar(&cfg.Timeout, "timeout", callerTimeout, "grpc-timeout to send; 0 sends none")
	flags.StringVar(&cfg.Shape.Domain, "domain", plainDomain, "domain")
	flags.StringVar(&cfg.Shape.AllowKey, "key", allowKey, "entry key")
	flags.StringVar(&cfg.Shape.DenyKey, "deny-key", denyKey, "entry key of the share given by --denied")
	flags.Float64Var(&cfg.Shape.Denied, "denied", 0, "share of requests with --deny-key, 0 to 1")
	flags.IntVar(&cfg.Shape.Descriptors, "descriptors", 1, "descriptors in each request")
	flags.IntVar(&cfg.Shape.Keys, "keys", manyKeys, "different entry values")
	flags.IntVar(&cfg.Shape.Routes, "routes", 0, "values of a first entry, route; 0 leaves it out")
	flags.StringVar((*string)(&cfg.Shape.Keyed), "distribution", string(load.Uniform), "of the values: one, uniform or zipf")
	duration := flags.Duration("duration", 5*time.Second, "how long, up to 10m")
	pid := flags.Int("pid", 0, "the server's process id, to print its CPU per request")
	if err := flags.Parse(args); err != nil {
		return err
	}
	l, err := load.Dial(cfg)
	if err != nil {
		return err
	}
	defer l.Close()
	var before time.Duration
	if *pid > 0 {
		if before, err = proc.CPU(*pid); err != nil {
			return err
		}
	}
	var r load.Result
	if schedule.Rate > 0 {
		r, err = l.Open(ctx, schedule, *duration)
	} else {
		r, err = l.Closed(ctx, *perConn, *duration)
	}
	if err != nil {
		return err
	}
	printResult(out, r)
	if *pid > 0 && r.Answered() > 0 {
		after, err := proc.CPU(*pid)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "server CPU  %v a request\n", (after-before).Round(time.Nanosecond)/time.Duration(r.Answered()))
	}
	return nil
}

func printResult(out io.Writer, r load.Result) {
	fmt.Fprintf(out, "verdicts    %d (%d refused) in %v: %.0f/s\n", r.Answered(), r.OverLimit, r.Elapsed.Round(time.Millisecond), r.Rate())
	for reason, n := range r.Failed {
		fmt.Fprintf(out, "failed      %d: %s\n", n, reason)
	}
	for _, h := range []struct {
		name string
		of   *load.Histogram
	}{{"latency", r.Latency}, {"lateness", r.Lateness}} {
		if h.of.Count() > 0 {
			fmt.Fprintf(out, "%-11s p50 %v, p90 %v, p99 %v, p99.9 %v, max %v\n", h.name, h.of.At(50), h.of.At(90), h.of.At(99), h.of.At(99.9), h.of.At(100))
		}
	}
}
