// Command server is weir, the rate limit server. Its subcommands are in
// internal/cli; without one it serves.
package main

import (
	"os"

	"github.com/weirhq/weir/internal/cli"
)

func main() { os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr)) }
