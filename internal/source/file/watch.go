package file

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/weirhq/weir/pkg/descriptors"
)

// Defaults of Options.
const (
	// DefaultSettle is longer than an editor or a copy needs between the first
	// and the last write of a file.
	DefaultSettle = 400 * time.Millisecond
	// DefaultPoll catches what the file system does not report: network mounts,
	// files mounted on their own.
	DefaultPoll = 3 * time.Second
)

// Options of a Watcher; the zero value is useful.
type Options struct {
	// Settle is how long the files must stay unchanged before they are handed
	// over, so that a file that is being written is never loaded half. 0 is
	// DefaultSettle.
	Settle time.Duration
	// Poll is how often the files are looked at without any event. 0 is
	// DefaultPoll.
	Poll time.Duration
}

// Watcher hands over the files of a layout each time they have changed.
type Watcher struct {
	layout  Layout
	opts    Options
	applied [sha256.Size]byte
	reload  chan struct{}
}

// NewWatcher makes a watcher and reads the files for the first time. The error
// is that of reading; the watcher can be run all the same.
func NewWatcher(layout Layout, opts Options) (*Watcher, []descriptors.Source, error) {
	if opts.Settle <= 0 {
		opts.Settle = DefaultSettle
	}
	if opts.Poll <= 0 {
		opts.Poll = DefaultPoll
	}
	w := &Watcher{layout: layout, opts: opts, reload: make(chan struct{}, 1)}
	s, err := layout.scan()
	if err == nil {
		w.applied = s.digest
	}
	return w, s.files, err
}

// Reload has the files handed over now, changed or not. It does not wait.
func (w *Watcher) Reload() {
	select {
	case w.reload <- struct{}{}:
	default: // one is waiting already
	}
}

// Run watches until the context ends. apply is called with the files after each
// change, or with the error that reading met; one call at a time.
func (w *Watcher) Run(ctx context.Context, apply func([]descriptors.Source, error)) {
	// Without events (the system's limit is reached) the poll alone notices.
	events, closeEvents := openEvents()
	defer closeEvents()
	run := &run{Watcher: w, events: events, apply: apply}
	poll := time.NewTicker(w.opts.Poll)
	defer poll.Stop()
	settle := time.NewTimer(w.opts.Settle)
	defer settle.Stop()
	run.look(settle)
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.reload:
			run.handOver()
		case <-run.changes():
			run.look(settle)
		case _, open := <-run.eventErrors(): // an overflow: events were lost
			if open {
				run.look(settle)
			}
		case <-poll.C:
			run.look(settle)
		case <-settle.C:
			run.settled(settle)
		}
	}
}

func openEvents() (*fsnotify.Watcher, func()) {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, func() {}
	}
	return events, func() { _ = events.Close() }
}

// run is the state of one Run.
type run struct {
	*Watcher
	events  *fsnotify.Watcher
	apply   func([]descriptors.Source, error)
	seen    [sha256.Size]byte // what the last look found
	failing string            // the reading error that was reported last
}

func (r *run) changes() chan fsnotify.Event {
	if r.events == nil {
		return nil
	}
	return r.events.Events
}

func (r *run) eventErrors() chan error {
	if r.events == nil {
		return nil
	}
	return r.events.Errors
}

// look notes what is there now; a change begins a new time of settling.
func (r *run) look(settle *time.Timer) {
	s, err := r.layout.scan()
	r.watchFolders(s.watch)
	if err != nil {
		r.fail(err)
		return
	}
	if s.digest != r.seen {
		r.seen = s.digest
		settle.Reset(r.opts.Settle)
	}
}

// settled hands over what has stayed the same since the last look.
func (r *run) settled(settle *time.Timer) {
	s, err := r.layout.scan()
	switch {
	case err != nil:
		r.fail(err)
	case s.digest != r.seen:
		r.seen = s.digest
		settle.Reset(r.opts.Settle)
	case s.digest != r.applied || r.failing != "":
		r.take(s)
	}
}

func (r *run) handOver() {
	s, err := r.layout.scan()
	if err != nil {
		r.failing = "" // asked for: report it again
		r.fail(err)
		return
	}
	r.seen = s.digest
	r.take(s)
}

func (r *run) take(s scan) {
	r.applied, r.failing = s.digest, ""
	r.apply(s.files, nil)
}

func (r *run) fail(err error) {
	if err.Error() != r.failing {
		r.failing = err.Error()
		r.apply(nil, err)
	}
}

// watchFolders brings the watched folders to the wanted ones.
func (r *run) watchFolders(want []string) {
	if r.events == nil {
		return
	}
	have := r.events.WatchList()
	for _, folder := range want {
		if !slices.Contains(have, folder) {
			_ = r.events.Add(folder) // missing yet: the poll finds it later
		}
	}
	for _, folder := range have {
		if !slices.Contains(want, folder) {
			_ = r.events.Remove(folder)
		}
	}
}
