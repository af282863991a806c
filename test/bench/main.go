// Command bench measures rate limit servers against each other on one machine.
//
//	bench            compare: a no-op server, weir in memory, weir with Redis, others
//	bench drive      put load on one server that runs already
//	bench floor      serve the no-op server alone
//
// It speaks only the protocol and starts servers as users do, so it can be
// pointed at any server; it imports nothing of weir.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "floor":
			return runFloor(ctx, args[1:], out)
		case "drive":
			return runDrive(ctx, args[1:], out)
		case "compare":
			args = args[1:]
		}
	}
	return runCompare(ctx, args, out, progress)
}
