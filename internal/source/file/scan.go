// Package file is the source of rules from the file system: a file or a folder,
// watched for changes.
//
// It owns which files count, when a change is complete, and what must be
// watched to notice it: edits in place, renames into place and away, link swaps
// as Kubernetes makes them, folders that appear later. It must not know what
// the files mean; it hands over texts.
package file

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirhq/weir/pkg/descriptors"
)

// Layout says which files hold rules.
type Layout struct {
	// Path is a file, or a folder that is read with its subfolders.
	Path string
	// Prefix, where not empty, is what a file's relative path, with dots for
	// slashes, must begin with (RUNTIME_APPDIRECTORY and a dot).
	Prefix string
	// AnyName reads files of any name in a folder, not only *.yaml and *.yml.
	AnyName bool
	// SkipDot skips files and folders whose name begins with a dot. Those that
	// begin with two are Kubernetes' own copies and always skipped.
	SkipDot bool
	// MayBeMissing takes a missing path for an empty folder.
	MayBeMissing bool
}

// scan is what one look at the file system found.
type scan struct {
	files  []descriptors.Source
	digest [sha256.Size]byte
	// watch are the folders in which a change would show.
	watch []string
}

// Read gives the files as they are now, in order of their names.
func (l Layout) Read() ([]descriptors.Source, error) {
	s, err := l.scan()
	return s.files, err
}

func (l Layout) scan() (scan, error) {
	s := scan{watch: []string{filepath.Dir(filepath.Clean(l.Path))}}
	info, err := os.Stat(l.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && l.MayBeMissing:
		err = nil
	case err != nil:
		return s, fmt.Errorf("rules: %w", err)
	case info.IsDir():
		err = l.folder(&s)
	default:
		err = s.add(l.Path, filepath.Base(l.Path))
	}
	if err != nil {
		return s, err
	}
	slices.SortFunc(s.files, func(a, b descriptors.Source) int { return strings.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, f := range s.files {
		fmt.Fprintf(h, "%q %d\n", f.Name, len(f.Data))
		h.Write(f.Data)
	}
	h.Sum(s.digest[:0])
	slices.Sort(s.watch)
	s.watch = slices.Compact(s.watch)
	return s, nil
}

func (l Layout) folder(s *scan) error {
	root, err := filepath.EvalSymlinks(l.Path)
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	// The link itself may be swapped: its folder is watched already.
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed while we looked: the next look settles it
		}
		if err != nil {
			return fmt.Errorf("rules: %w", err)
		}
		if path != root && l.skips(d.Name()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			s.watchTarget(path)
			return nil
		}
		if d.IsDir() {
			s.watch = append(s.watch, path)
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return fmt.Errorf("rules: %w", err)
		}
		if name = filepath.ToSlash(name); !l.counts(name) {
			return nil
		}
		if target, err := os.Stat(path); err == nil && !target.Mode().IsRegular() {
			return nil // a linked folder, a socket
		}
		return s.add(path, name)
	})
}

func (l Layout) skips(name string) bool {
	return strings.HasPrefix(name, "..") || l.SkipDot && strings.HasPrefix(name, ".")
}

func (l Layout) counts(name string) bool {
	if l.Prefix != "" && !strings.HasPrefix(strings.ReplaceAll(name, "/", "."), l.Prefix) {
		return false
	}
	ext := filepath.Ext(name)
	return l.AnyName || ext == ".yaml" || ext == ".yml"
}

func (s *scan) add(path, name string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed, or a link whose target is being swapped
	}
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	s.watchTarget(path)
	s.files = append(s.files, descriptors.Source{Name: name, Data: data})
	return nil
}

// watchTarget watches the folders of what a path links to.
func (s *scan) watchTarget(path string) {
	if target, err := filepath.EvalSymlinks(path); err == nil && target != path {
		s.watch = append(s.watch, filepath.Dir(target))
	}
}
