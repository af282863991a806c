package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/weirhq/weir/internal/settings"
)

type settingsCmd struct {
	settings.Settings `embed:""`
}

// Run prints each setting with its value and origin; secrets are hidden.
func (c *settingsCmd) Run(s *streams, app *kong.Kong) error {
	w := tabwriter.NewWriter(s.out, 0, 4, 2, ' ', 0)
	for _, e := range settings.Describe(commandNode(app, "settings"), processEnvironment{}, s.args) {
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Env, e.Value, e.Origin)
	}
	return w.Flush()
}

// commandNode finds a subcommand's part of the command line.
func commandNode(app *kong.Kong, name string) *kong.Node {
	for _, n := range app.Model.Children {
		if n.Name == name {
			return n
		}
	}
	return app.Model.Node
}

type healthcheckCmd struct {
	Host    string        `env:"HOST" default:"127.0.0.1" help:"Host of the HTTP port."`
	Port    int           `env:"PORT" default:"8080" help:"HTTP port."`
	Path    string        `default:"/healthcheck" help:"What to ask: /healthcheck, /livez or /readyz."`
	Timeout time.Duration `default:"2s" help:"Longest wait."`
}

// Run exits 0 if the answer is 200, for probes in images without a shell.
func (c *healthcheckCmd) Run(*streams) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	host := c.Host
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost" // a server on all addresses is asked on one
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, strconv.Itoa(c.Port))+c.Path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("unhealthy: %s", resp.Status)
	}
	return nil
}

type versionCmd struct{}

// version is set when a release is built.
var version = "dev"

// Run prints the version and what it was built from.
func (versionCmd) Run(s *streams) error {
	revision := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, v := range info.Settings {
			if v.Key == "vcs.revision" {
				revision = " " + v.Value
			}
		}
	}
	fmt.Fprintf(s.out, "weir %s%s\n", version, revision)
	return nil
}
