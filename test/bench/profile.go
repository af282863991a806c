package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirhq/weir/test/bench/internal/load"
)

const (
	profileSeconds = 3
	profileLead    = time.Second // load that surrounds a profile
)

// profileAll takes a CPU profile of weir under each scenario. It comes after
// the rounds, since profiling costs.
func profileAll(ctx context.Context, entries []*entry, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.target.name, "weir") {
			continue
		}
		name := strings.NewReplacer(" ", "-", ",", "").Replace(e.scenario.name+"-"+e.target.name) + ".pprof"
		if err := e.profile(ctx, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("profile of %s on %s: %w", e.scenario.name, e.target.name, err)
		}
	}
	return nil
}

func (e *entry) profile(ctx context.Context, path string) error {
	l, err := load.Dial(load.Config{
		Addr: e.target.addr, Connections: e.scenario.connections, Timeout: callerTimeout, Shape: e.scenario.shape,
	})
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, stop := context.WithCancel(ctx)
	loaded := make(chan error, 1)
	go func() {
		_, err := l.Closed(ctx, e.scenario.callers, profileSeconds*time.Second+profileLead)
		loaded <- err
	}()
	err = fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", e.target.debug, profileSeconds), path)
	stop()
	if loadErr := <-loaded; err == nil {
		err = loadErr
	}
	return err
}

func fetch(ctx context.Context, url, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", resp.Status)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, resp.Body); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
