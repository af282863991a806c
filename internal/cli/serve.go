package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/weirhq/weir/internal/server"
	"github.com/weirhq/weir/internal/settings"
)

type serveCmd struct {
	settings.Settings `embed:""`
}

// Run serves until a signal. SIGTERM and SIGINT drain, a second one ends at
// once, SIGHUP reads the rules again.
func (c *serveCmd) Run(s *streams) error {
	if c.Log.Level == "" {
		c.Log.Level = "warn" // as the reference
		if c.Rules.Config != "" {
			c.Log.Level = "info"
		}
	}
	log, err := newLog(s.err, c.Log)
	if err != nil {
		return err
	}
	drain, stopDrain := context.WithCancel(context.Background())
	defer stopDrain()
	now, stopNow := context.WithCancel(context.Background())
	defer stopNow()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)

	for _, warning := range c.Warnings() {
		log.Warn(warning)
	}
	srv, err := server.Open(drain, c.Settings, log)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(drain, now) }()
	for {
		select {
		case err := <-ended:
			return err
		case sig := <-signals:
			switch {
			case sig == syscall.SIGHUP:
				srv.Reload()
			case drain.Err() == nil:
				stopDrain()
			default:
				stopNow()
			}
		}
	}
}

var levels = map[string]slog.Level{
	"trace": slog.LevelDebug - 4, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
	"warning": slog.LevelWarn, "error": slog.LevelError, "fatal": slog.LevelError + 4, "panic": slog.LevelError + 8,
}

// newLog makes the log. The json format has the reference's field names.
func newLog(w io.Writer, l settings.Log) (*slog.Logger, error) {
	level, ok := levels[strings.ToLower(l.Level)]
	if !ok {
		return nil, fmt.Errorf("LOG_LEVEL=%q: not accepted; write trace, debug, info, warn, error, fatal or panic", l.Level)
	}
	opts := &slog.HandlerOptions{Level: level}
	if l.Format != "json" {
		return slog.New(slog.NewTextHandler(w, opts)), nil
	}
	names := map[string]string{slog.TimeKey: "@timestamp", slog.MessageKey: "@message"}
	opts.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if name, ok := names[a.Key]; ok && len(groups) == 0 {
			a.Key = name
		}
		if a.Key == slog.LevelKey && len(groups) == 0 {
			a.Value = slog.StringValue(strings.ToLower(a.Value.String()))
		}
		return a
	}
	return slog.New(slog.NewJSONHandler(w, opts)), nil
}
