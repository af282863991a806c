package descriptors

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirhq/weir/pkg/algorithm"
)

// Source is one rule file. Either Data or Node is set; Node serves sources that
// are no text (xDS resources), with positions left zero.
type Source struct {
	Name string // relative path with slashes; orders files of one domain
	Data []byte
	Node *yaml.Node
}

// Options are the server-wide choices that rules are read under.
type Options struct {
	KeyPrefix        string // put before each store key (CACHE_KEY_PREFIX)
	DefaultAlgorithm string // of rules and domains that choose none; "" = fixed_window
	// RefuseMerge makes a second file of a domain an error (an explicit
	// MERGE_DOMAIN_CONFIG=false).
	RefuseMerge bool
	// AllDocuments loads each document of a multi-document file; otherwise only
	// the first one counts, as in the reference's layout.
	AllDocuments bool
	// SkipForeign passes over files that are no rule files, such as an Envoy
	// configuration in the same folder; without any rule file the load fails.
	SkipForeign bool
	// HashSecret keys the hash of rules with hash_value.
	HashSecret []byte
}

// Load reads and checks all files. It reports every problem of every file; the
// snapshot is nil if one of them is an error.
func Load(files []Source, opts Options) (*Snapshot, Diagnostics) {
	l := &loader{opts: opts, snapshot: &Snapshot{
		domains:   map[string]*domain{},
		keyPrefix: prefixEscaper.Replace(opts.KeyPrefix),
		secret:    opts.HashSecret,
	}}
	if opts.DefaultAlgorithm != "" {
		l.snapshot.defaultKind, _ = algorithm.ParseKind(opts.DefaultAlgorithm)
	}
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b Source) int { return cmp.Compare(a.Name, b.Name) })
	sum := sha256.New()
	var documents []*document
	for _, f := range files {
		sum.Write([]byte(f.Name + "\x00" + strconv.Itoa(len(f.Data)) + "\x00"))
		sum.Write(f.Data)
		for _, d := range l.read(f) {
			documents = append(documents, d)
			if f.Node != nil {
				text, _ := yaml.Marshal(f.Node)
				sum.Write(text)
			}
		}
	}
	l.snapshot.hash = hex.EncodeToString(sum.Sum(nil)[:8])
	l.build(documents)
	if l.opts.SkipForeign && len(documents) == 0 && !l.found.HasErrors() {
		l.found = append(l.found, Diagnostic{
			Severity: Error, Code: codeNothing, Message: fmt.Sprintf("no rule file among %d files", len(files)),
			Hint: "a rule file is a *.yaml file that begins with `domain: NAME`",
		})
	}
	l.found.sort()
	if l.found.HasErrors() {
		return nil, l.found
	}
	return l.snapshot, l.found
}

// loader carries one load.
type loader struct {
	opts     Options
	snapshot *Snapshot
	found    Diagnostics
}

// document is one YAML document of a file: one domain's rules, or some of them.
type document struct {
	*reader
	root     *yaml.Node
	domain   string
	defaults *defaults
	together *field // all_or_nothing
	list     *field // descriptors
}

// read parses a file and the top level of its documents.
func (l *loader) read(f Source) []*document {
	r := &reader{file: f.Name}
	defer func() { l.found = append(l.found, r.found...) }()
	roots := []*yaml.Node{f.Node}
	if f.Node == nil {
		roots = l.parse(r, f.Data)
	}
	var out []*document
	for _, root := range roots {
		if l.opts.SkipForeign && foreign(root) {
			r.found = append(r.found, Diagnostic{Severity: Note, Code: codeForeign, Pos: r.pos(root), Message: "not a rule file: skipped"})
			continue
		}
		if d := (&document{reader: &reader{file: f.Name}, root: root}); d.readTop() {
			out = append(out, d)
		} else {
			l.found = append(l.found, d.found...)
		}
	}
	return out
}

// foreign tells a map that has none of a rule file's keys.
func foreign(root *yaml.Node) bool {
	if root.Kind != yaml.MappingNode || len(root.Content) == 0 {
		return false
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if key := root.Content[i].Value; contains(topKeys, key) || didYouMean(key, topKeys[:2]) != "" {
			return false
		}
	}
	return true
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// parse gives the documents of a text that count.
func (l *loader) parse(r *reader, data []byte) []*yaml.Node {
	if len(data) > maxFileBytes {
		r.fail(nil, codeTooBig, "", "split it into several files of the same domain", "file of %d bytes is larger than %d", len(data), maxFileBytes)
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var roots []*yaml.Node
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			if len(roots) == 0 {
				r.fail(&yaml.Node{Line: 1, Column: 1}, codeDomain, "", "begin with `domain: NAME`", "file is empty: it names no domain")
			}
			return roots
		case err != nil && len(roots) > 0 && !l.opts.AllDocuments:
			return roots // what follows the first document does not matter
		case err != nil:
			at := &yaml.Node{Line: 1, Column: 1}
			if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
				at.Line, _ = strconv.Atoi(m[1])
			}
			r.fail(at, codeSyntax, "", "", "no valid YAML: %s", strings.TrimPrefix(yamlLine.ReplaceAllString(err.Error(), ""), "yaml: "))
			return nil
		case len(roots) > 0 && !l.opts.AllDocuments:
			r.warn(&doc, false, codeLaterDocument, "", "put it into a file of its own", "second document of the file is not read")
			return roots
		}
		if len(doc.Content) == 1 {
			roots = append(roots, doc.Content[0])
		}
	}
}

var topKeys = []string{"domain", "descriptors", "defaults", "all_or_nothing"}

// readTop reads the keys beside descriptors.
func (d *document) readTop() bool {
	fields, ok := d.fields(d.root, "")
	switch {
	case isNull(d.root):
		d.fail(&yaml.Node{Line: 1, Column: 1}, codeDomain, "", "begin with `domain: NAME`", "file is empty: it names no domain")
		return false
	case !ok:
		d.fail(d.root, codeNoMap, "", "a rule file is a map with the keys domain and descriptors", "the file is no map")
		return false
	}
	var named *yaml.Node
	for _, f := range fields {
		switch f.key.Value {
		case "domain":
			d.domain, named = d.text(f, ""), f.value
		case "descriptors":
			d.list = &f
		case "defaults":
			d.defaults = d.readDefaults(f)
		case "all_or_nothing":
			d.together = &f
		case "name":
			// accepted and ignored, as by the reference
		default:
			d.unknown(f, "", topKeys)
		}
	}
	if d.domain == "" {
		if named == nil {
			named = d.root
		}
		d.fail(named, codeDomain, "", "add `domain: NAME` at the top", "domain must not be empty")
		return false
	}
	return true
}

// referenceKeys are the keys that the reference accepts anywhere, and ignores
// where they do not belong.
var referenceKeys = []string{
	"domain", "key", "value", "descriptors", "rate_limit", "unit", "requests_per_unit", "unlimited", "shadow_mode",
	"quota_mode", "name", "replaces", "detailed_metric", "value_to_metric", "share_threshold", "metadata",
}

// unknown reports a key that does not belong where it stands.
func (r *reader) unknown(f field, path string, here []string) {
	key := f.key.Value
	if slices.Contains(referenceKeys, key) {
		r.warn(f.key, true, codeMisplaced, path, placeOf(key), "key %q does nothing here", key)
		return
	}
	hint := placeOf(key)
	if hint == "" {
		hint = didYouMean(key, append(slices.Clone(here), "name"))
	}
	r.fail(f.key, codeUnknownKey, path, hint, "unknown key %q", key)
}

// placeOf says where a known key belongs.
func placeOf(key string) string {
	switch {
	case slices.Contains(limitKeys, key) && key != "name":
		return "`" + key + "` belongs into `rate_limit`"
	case slices.Contains(ruleKeys, key):
		return "`" + key + "` belongs into an element of `descriptors`"
	case slices.Contains(topKeys, key):
		return "`" + key + "` belongs at the top of the file"
	default:
		return ""
	}
}

// build makes the domains of all documents.
func (l *loader) build(documents []*document) {
	byDomain := map[string][]*document{}
	for _, d := range documents {
		if len(byDomain[d.domain]) == 0 {
			l.snapshot.names = append(l.snapshot.names, d.domain)
		} else if l.opts.RefuseMerge {
			d.fail(d.root, codeSecondFile, "", "unset MERGE_DOMAIN_CONFIG or set it to true", "domain %q is in %s already", d.domain, byDomain[d.domain][0].file)
		}
		byDomain[d.domain] = append(byDomain[d.domain], d)
	}
	slices.Sort(l.snapshot.names)
	for name, docs := range byDomain {
		l.buildDomain(name, docs)
	}
	for _, d := range documents {
		l.found = append(l.found, d.found...)
	}
}

func (l *loader) buildDomain(name string, docs []*document) {
	d := &domain{name: name, root: newLevel()}
	l.snapshot.domains[name] = d
	var defaultsOf, togetherOf *document
	var std defaults
	for _, doc := range docs {
		if doc.defaults != nil {
			if defaultsOf != nil && !std.equal(doc.defaults) {
				doc.fail(doc.defaults.node, codeDefaults, "", "keep `defaults` in one of the files", "`defaults` of domain %q differ from those in %s", name, defaultsOf.file)
			}
			defaultsOf, std = doc, *doc.defaults
		}
		if doc.together != nil {
			together := doc.boolean(*doc.together, "")
			if togetherOf != nil && together != d.allOrNothing {
				doc.fail(doc.together.key, codeDefaults, "", "keep `all_or_nothing` in one of the files", "`all_or_nothing` of domain %q differs from that in %s", name, togetherOf.file)
			}
			togetherOf, d.allOrNothing = doc, together
		}
	}
	b := &builder{loader: l, domain: d, defaults: std}
	top := place{stats: name, seen: map[string]*node{}}
	for _, doc := range docs {
		if doc.list != nil {
			b.document = doc
			b.level(d.root, *doc.list, top)
		}
	}
}
