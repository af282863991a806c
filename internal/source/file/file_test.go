package file

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/weirhq/weir/pkg/descriptors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// show writes files as name=text.
func show(files []descriptors.Source) string {
	var parts []string
	for _, f := range files {
		parts = append(parts, f.Name+"="+string(f.Data))
	}
	return strings.Join(parts, " ")
}

func TestLayouts(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"sub/config/a.yaml": "1", "sub/config/deep/b.yaml": "2", "sub/config/README": "3", "sub/config/.hidden/c.yaml": "4",
		"sub/config.yaml": "5", "sub/other/d.yaml": "6", "sub/config/e.yml": "7", "sub/config/.f.yaml": "8", "sub/config/..g.yaml": "9",
	} {
		write(t, filepath.Join(root, name), text)
	}
	for name, tt := range map[string]struct {
		layout Layout
		want   string
	}{
		"a folder by --config": {Layout{Path: root + "/sub/config", SkipDot: true}, "a.yaml=1 deep/b.yaml=2 e.yml=7"},
		"a file by --config":   {Layout{Path: root + "/sub/config/a.yaml", SkipDot: true}, "a.yaml=1"},
		"the app directory, any name, dot files too": {
			Layout{Path: root + "/sub/config", AnyName: true, MayBeMissing: true}, ".f.yaml=8 .hidden/c.yaml=4 README=3 a.yaml=1 deep/b.yaml=2 e.yml=7",
		},
		"the app directory without dot files": {
			Layout{Path: root + "/sub/config", AnyName: true, SkipDot: true}, "README=3 a.yaml=1 deep/b.yaml=2 e.yml=7",
		},
		"the subdirectory, by the app directory's prefix": {
			Layout{Path: root + "/sub", Prefix: "config.", AnyName: true, SkipDot: true}, "config.yaml=5 config/README=3 config/a.yaml=1 config/deep/b.yaml=2 config/e.yml=7",
		},
		"a missing folder that may be missing": {Layout{Path: root + "/nosuch", MayBeMissing: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := tt.layout.Read()
			require.NoError(t, err)
			require.Equal(t, tt.want, show(files))
		})
	}
	_, err := Layout{Path: root + "/nosuch"}.Read()
	require.ErrorContains(t, err, "nosuch")
}

// watched runs a watcher and collects what it hands over.
type watched struct {
	t      *testing.T
	w      *Watcher
	states chan string
}

func watch(t *testing.T, layout Layout) *watched {
	t.Helper()
	return watchWith(t, layout, 100*time.Millisecond)
}

func watchWith(t *testing.T, layout Layout, settle time.Duration) *watched {
	t.Helper()
	w, first, err := NewWatcher(layout, Options{Settle: settle, Poll: time.Hour})
	require.NoError(t, err)
	out := &watched{t: t, w: w, states: make(chan string, 100)}
	out.states <- show(first)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, func(files []descriptors.Source, err error) {
			if err != nil {
				out.states <- "error"
				return
			}
			out.states <- show(files)
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	out.next(show(first))
	return out
}

// next wants the files to be handed over as told, next.
func (w *watched) next(want string) {
	w.t.Helper()
	select {
	case got := <-w.states:
		require.Equal(w.t, want, got)
	case <-time.After(10 * time.Second):
		w.t.Fatalf("nothing was handed over; want %q", want)
	}
}

func TestChangesAreNoticed(t *testing.T) {
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	write(t, path("a.yaml"), "1")
	w := watch(t, Layout{Path: folder, SkipDot: true})

	write(t, path("a.yaml"), "2") // in place
	w.next("a.yaml=2")
	write(t, path(".tmp"), "3")
	require.NoError(t, os.Rename(path(".tmp"), path("a.yaml"))) // by a temporary name
	w.next("a.yaml=3")
	write(t, path("deep/b.yaml"), "4") // a folder that appears later
	w.next("a.yaml=3 deep/b.yaml=4")
	write(t, path("deep/b.yaml"), "5") // and a change in it
	w.next("a.yaml=3 deep/b.yaml=5")
	require.NoError(t, os.Rename(path("deep/b.yaml"), filepath.Join(t.TempDir(), "b.yaml"))) // moved away
	w.next("a.yaml=3")
	require.NoError(t, os.Remove(path("a.yaml")))
	w.next("")
	w.w.Reload() // asked for: handed over without a change
	w.next("")
}

func TestAFileIsNeverTakenHalf(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a.yaml")
	write(t, path, "old")
	w := watchWith(t, Layout{Path: folder}, 600*time.Millisecond)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(t, err)
	for range 16 { // longer in all than files need to settle
		_, err := f.WriteString("x")
		require.NoError(t, err)
		time.Sleep(50 * time.Millisecond)
	}
	require.NoError(t, f.Close())
	w.next("a.yaml=" + strings.Repeat("x", 16))
}

func TestKubernetesSwapsItsLink(t *testing.T) {
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	write(t, path("..2024_1/x.yaml"), "1")
	require.NoError(t, os.Symlink("..2024_1", path("..data")))
	require.NoError(t, os.Symlink("..data/x.yaml", path("x.yaml")))
	w := watch(t, Layout{Path: folder, AnyName: true})
	for i, text := range []string{"2", "3"} {
		next := []string{"..2024_2", "..2024_3"}[i]
		write(t, path(next+"/x.yaml"), text)
		require.NoError(t, os.Symlink(next, path("..data_tmp")))
		require.NoError(t, os.Rename(path("..data_tmp"), path("..data")))
		require.NoError(t, os.RemoveAll(path([]string{"..2024_1", "..2024_2"}[i])))
		w.next("x.yaml=" + text)
	}
}

func TestTheRootIsALinkThatIsSwapped(t *testing.T) {
	parent := t.TempDir()
	path := func(name string) string { return filepath.Join(parent, name) }
	write(t, path("v1/config/a.yaml"), "1")
	write(t, path("v2/config/a.yaml"), "2")
	require.NoError(t, os.Symlink("v1", path("current")))
	w := watch(t, Layout{Path: path("current"), Prefix: "config.", AnyName: true})
	require.NoError(t, os.Symlink("v2", path("new")))
	require.NoError(t, os.Rename(path("new"), path("current")))
	w.next("config/a.yaml=2")
}

func TestAFolderThatComesLater(t *testing.T) {
	parent := t.TempDir()
	w := watch(t, Layout{Path: filepath.Join(parent, "rules"), MayBeMissing: true})
	write(t, filepath.Join(parent, "rules/a.yaml"), "1")
	w.next("a.yaml=1")
}

func TestThePollCatchesWhatNoEventTells(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a.yaml")
	write(t, path, "1")
	w, _, err := NewWatcher(Layout{Path: path}, Options{Settle: 20 * time.Millisecond, Poll: 20 * time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	go write(t, path, "2")
	w.Run(ctx, func(files []descriptors.Source, _ error) {
		if show(files) == "a.yaml=2" {
			cancel()
		}
	})
	require.ErrorIs(t, ctx.Err(), context.Canceled, "the change was not noticed")
}
