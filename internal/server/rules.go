package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/internal/metrics"
	"github.com/weirhq/weir/internal/refstats"
	"github.com/weirhq/weir/internal/settings"
	"github.com/weirhq/weir/internal/source/file"
	"github.com/weirhq/weir/pkg/descriptors"
)

// rules holds the configuration in force and renews it.
type rules struct {
	current  atomic.Pointer[descriptors.Snapshot]
	last     atomic.Pointer[loadResult]
	opts     descriptors.Options
	replicas int // EXPECTED_REPLICAS
	watcher  *file.Watcher
	log      *slog.Logger
	metrics  *metrics.Metrics
	refstats *refstats.Stats // may be nil
}

// loadResult is the newest load, successful or not.
type loadResult struct {
	at  time.Time
	err error
}

func (r *rules) snapshot() *descriptors.Snapshot { return r.current.Load() }

// openRules loads the rules for the first time.
func openRules(s settings.Settings, log *slog.Logger, m *metrics.Metrics, ref *refstats.Stats) (*rules, error) {
	r := &rules{log: log, metrics: m, refstats: ref, replicas: s.Rules.DefaultReplicas, opts: descriptors.Options{
		KeyPrefix:        s.Store.KeyPrefix,
		DefaultAlgorithm: s.Rules.DefaultAlg,
		RefuseMerge:      s.Rules.MergeDomains != nil && !*s.Rules.MergeDomains,
		AllDocuments:     s.Rules.Config != "",
		SkipForeign:      s.Rules.Config != "",
	}}
	if path := s.Rules.HashSecretFile; path != "" {
		secret, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("HASH_SECRET_FILE: %w", err)
		}
		r.opts.HashSecret = bytes.TrimSpace(secret)
	}
	layout := Layout(s.Rules)
	watcher, files, err := file.NewWatcher(layout, file.Options{})
	r.watcher = watcher
	if s.Rules.Config != "" {
		// Rules that were named must be there and right: the caller prints why not.
		if err != nil {
			return nil, err
		}
		if _, problems := descriptors.Load(files, r.opts); problems.HasErrors() {
			return nil, problems.Err()
		}
	}
	if err != nil {
		r.failed(err)
	} else {
		_ = r.load(files) // reported there; served without rules until they are right
	}
	return r, nil
}

// Layout is where the settings say that rule files are.
func Layout(s settings.Rules) file.Layout {
	if s.Config != "" {
		return file.Layout{Path: s.Config, SkipDot: true}
	}
	root := filepath.Join(s.RuntimeRoot, s.RuntimeSub)
	if s.WatchRoot {
		return file.Layout{Path: root, Prefix: s.RuntimeApp + ".", AnyName: true, SkipDot: s.IgnoreDotFiles, MayBeMissing: true}
	}
	return file.Layout{Path: filepath.Join(root, s.RuntimeApp), AnyName: true, SkipDot: s.IgnoreDotFiles, MayBeMissing: true}
}

// run renews the rules until the context ends.
func (r *rules) run(ctx context.Context) {
	r.watcher.Run(ctx, func(files []descriptors.Source, err error) {
		if err != nil {
			r.failed(err)
			return
		}
		_ = r.load(files) // reported there; the last good rules stay in force
	})
}

func (r *rules) reload() { r.watcher.Reload() }

// load puts the files in force, or reports what is wrong with them.
func (r *rules) load(files []descriptors.Source) error {
	snapshot, problems := descriptors.Load(files, r.opts)
	for _, p := range problems {
		level := map[descriptors.Severity]slog.Level{descriptors.Note: slog.LevelInfo, descriptors.Warning: slog.LevelWarn, descriptors.Error: slog.LevelError}[p.Severity]
		r.log.Log(context.Background(), level, "rules: "+p.Message, place(&p)...)
	}
	if snapshot == nil {
		err := problems.Err()
		r.failed(err)
		return err
	}
	now := time.Now()
	r.current.Store(snapshot)
	r.last.Store(&loadResult{at: now})
	r.metrics.Loaded(snapshot, now)
	if r.refstats != nil {
		r.refstats.Loaded(true)
	}
	r.warnOfLocal(snapshot)
	r.log.Info("rules are in force", "files", len(files), "domains", len(snapshot.Domains()), "rules", len(snapshot.Rules()), "hash", snapshot.Hash())
	return nil
}

// warnOfLocal tells that N replicas will give N times a limit while the store is
// gone, unless they know how many they are.
func (r *rules) warnOfLocal(s *descriptors.Snapshot) {
	if r.replicas > 0 {
		return
	}
	for _, rule := range s.Rules() {
		if rule.OnError == descriptors.OnErrorLocal {
			r.log.Warn("on_error local gives each replica the whole limit: EXPECTED_REPLICAS is not set", "rule", rule.Path, "domain", rule.Domain)
			return
		}
	}
}

// place are the attributes of a problem that are known.
func place(p *descriptors.Diagnostic) []any {
	attrs := []any{"code", p.Code, "file", p.Pos.File}
	if p.Pos.Line > 0 {
		attrs = append(attrs, "line", p.Pos.Line, "column", p.Pos.Column)
	}
	if p.Path != "" {
		attrs = append(attrs, "rule", p.Path)
	}
	if p.Hint != "" {
		attrs = append(attrs, "hint", p.Hint)
	}
	return attrs
}

func (r *rules) failed(err error) {
	r.last.Store(&loadResult{at: time.Now(), err: err})
	r.metrics.LoadFailed()
	if r.refstats != nil {
		r.refstats.Loaded(false)
	}
	message := "rules could not be loaded; nothing is limited until they can"
	if r.current.Load() != nil {
		message = "rules could not be loaded; the last good ones stay in force"
	}
	r.log.Error(message, "error", err)
}

// status are the lines of /stats about the rules.
func (r *rules) status() []string {
	lines := []string{"config: none"}
	if s := r.current.Load(); s != nil {
		lines = []string{fmt.Sprintf("config: hash %s, %d domains, %d rules", s.Hash(), len(s.Domains()), len(s.Rules()))}
	}
	if last := r.last.Load(); last != nil {
		result := "ok"
		if last.err != nil {
			result = last.err.Error()
		}
		lines = append(lines, fmt.Sprintf("last load: %s ago: %s", time.Since(last.at).Round(time.Second), result))
	}
	return lines
}
