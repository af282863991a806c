package descriptors

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// ruleKeys are the keys of a descriptor.
var ruleKeys = []string{
	"key", "value", "values", "value_cidr", "value_path", "value_regex", "rate_limit", "rate_limits", "descriptors",
	"shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata",
	"on_error", "consistency", "ip_prefix", "hash_value", "exempt", "enforce_percent", "headers", "refused", "overridable",
}

// builder makes the tree of one domain.
type builder struct {
	*loader
	*document
	domain   *domain
	defaults defaults
}

// fieldsOf are the fields of one descriptor by key; absent ones are zero.
type fieldsOf map[string]field

// place is where a list of descriptors stands.
type place struct {
	path    string
	stats   string // statistics key of the list
	depth   int
	dynamic bool             // a level above shows real values in statistics
	seen    map[string]*node // finds duplicates, also over several files of a domain
}

// level reads a list of descriptors into a level.
func (b *builder) level(to *level, list field, in place) {
	if in.depth > maxDepth {
		b.fail(list.key, codeTooBig, in.path, "", "descriptors are nested more than %d deep", maxDepth)
		return
	}
	for _, n := range b.elements(list, in.path) {
		if b.nodes > maxNodes {
			b.fail(n, codeTooBig, in.path, "", "file expands to more than %d values", maxNodes)
			return
		}
		fields, ok := b.fields(n, in.path)
		if !ok {
			b.fail(n, codeNoMap, in.path, "begin it with `key: NAME`", "a descriptor must be a map")
			continue
		}
		b.descriptor(to, n, fields, in)
	}
}

func (b *builder) descriptor(to *level, at *yaml.Node, fields []field, in place) {
	parent := in.path
	by := fieldsOf{}
	for _, f := range fields {
		by[f.key.Value] = f
	}
	nd := &node{enforcePercent: 100}
	if f, ok := by["key"]; ok {
		nd.key = b.text(f, parent)
	}
	for _, f := range fields {
		if !contains(ruleKeys, f.key.Value) && f.key.Value != "name" {
			b.unknown(f, join(parent, nd.key), ruleKeys)
		}
	}
	if nd.key == "" {
		b.fail(at, codeEmptyKey, parent, "add `key: NAME`, the entry that the descriptor is about", "descriptor has no key")
		return
	}
	insert := b.condition(to, nd, by, parent)
	path := join(parent, nd.label())
	nd.statsKey = in.stats + statsSeparator + nd.label()
	if first := in.seen[nd.identity()]; first != nil {
		b.duplicate(at, path, first)
		return
	}
	in.seen[nd.identity()] = nd
	to.nodes = append(to.nodes, nd)
	b.options(nd, by, path)
	b.rule(nd, at, by, path)
	if insert != nil {
		insert()
	}
	if f, ok := by["descriptors"]; ok && !isNull(f.value) {
		nd.children = newLevel()
		b.level(nd.children, f, place{path, nd.statsKey, in.depth + 1, in.dynamic || nd.valueMetric, map[string]*node{}})
	}
	b.finish(nd, at, path, in)
}

// duplicate reports the commonest mistake: the same rule twice, meant as "also
// per X" or as two windows.
func (b *builder) duplicate(at *yaml.Node, path string, first *node) {
	hint := "for two windows use one descriptor with\n" +
		"        rate_limits:\n" +
		"          - {unit: second, requests_per_unit: 10}\n" +
		"          - {unit: day, requests_per_unit: 5000}\n" +
		"      for \"also per X\" nest one descriptor below the other:\n" +
		"        - key: " + first.key + "\n" +
		"          descriptors:\n" +
		"            - key: X"
	before := first.at
	b.reader.found = append(b.reader.found, Diagnostic{
		Severity: Error, Code: codeDuplicate, Pos: b.pos(at), Path: path, Hint: hint, Related: []Position{before},
		Message: "the same rule is at " + before.String() + " already",
	})
}

// options reads what a descriptor says beside its limits and condition.
func (b *builder) options(nd *node, by fieldsOf, path string) {
	nd.share = b.flag(by, "share_threshold", path)
	if nd.share && (nd.kind == condKeyOnly || nd.kind == condExact) && !strings.Contains(nd.key, "*") {
		b.fail(by["share_threshold"].key, codeShare, path, "put a `*` into the value, or use values, value_cidr, value_path or value_regex",
			"share_threshold needs a value condition that matches several values")
	}
	nd.valueMetric = b.flag(by, "value_to_metric", path)
	nd.hashed = b.flag(by, "hash_value", path)
	if nd.hashed && len(b.opts.HashSecret) == 0 {
		b.fail(by["hash_value"].key, codeHash, path, "set HASH_SECRET_FILE to a file with a random secret", "hash_value needs a secret: without one, values could be guessed from their hashes")
	}
	if f, ok := by["ip_prefix"]; ok {
		nd.mask = b.prefixLengths(f, path)
	}
	if f, ok := by["enforce_percent"]; ok {
		if n, ok := b.number(f, path, 0, 100); ok {
			nd.enforcePercent = int(n)
		}
	}
}

func (b *builder) flag(by fieldsOf, key, path string) bool {
	f, ok := by[key]
	return ok && b.boolean(f, path)
}

func (b *builder) prefixLengths(f field, path string) *prefixLengths {
	out := &prefixLengths{v4: 32, v6: 128}
	fields, ok := b.fields(f.value, path)
	if !ok {
		b.fail(f.value, codeType, path, "write {v4: 32, v6: 64}", "ip_prefix must be a map")
		return out
	}
	for _, g := range fields {
		switch g.key.Value {
		case "v4":
			if n, ok := b.number(g, path, 0, 32); ok {
				out.v4 = int(n)
			}
		case "v6":
			if n, ok := b.number(g, path, 0, 128); ok {
				out.v6 = int(n)
			}
		default:
			b.unknown(g, path, []string{"v4", "v6"})
		}
	}
	return out
}

// condition reads the value condition. insert puts the node into the level once
// it is known to be no duplicate; nil where the condition could not be read.
func (b *builder) condition(to *level, nd *node, by fieldsOf, parent string) (insert func()) {
	var chosen []string
	for _, key := range []string{"value", "values", "value_cidr", "value_path", "value_regex"} {
		if f, ok := by[key]; ok && !isNull(f.value) && (key != "value" || f.value.Value != "") {
			chosen = append(chosen, key)
		}
	}
	path := join(parent, nd.key)
	nd.at = b.pos(by["key"].key)
	if len(chosen) > 1 {
		b.fail(by[chosen[1]].key, codeConditions, path, "use one of them, or two descriptors", "%s and %s stand in one descriptor", chosen[0], chosen[1])
		return nil
	}
	if len(chosen) == 0 {
		nd.kind = condKeyOnly
		if strings.Contains(nd.key, "*") {
			return b.insertWildcard(to, nd, nd.key)
		}
		return func() { to.exact[nd.key] = nd }
	}
	f := by[chosen[0]]
	switch chosen[0] {
	case "value":
		nd.value = b.text(f, path)
		nd.condition = nd.value
		if joined := nd.key + "_" + nd.value; strings.Contains(joined, "*") {
			return b.insertWildcard(to, nd, joined)
		}
		return func() { to.exact[nd.label()] = nd }
	case "values":
		return b.insertValues(to, nd, f, path)
	case "value_cidr":
		return b.insertNetworks(to, nd, f, path)
	case "value_path":
		return b.insertPath(to, nd, f, path)
	default:
		return b.insertRegex(to, nd, f, path)
	}
}

func (b *builder) insertWildcard(to *level, nd *node, text string) func() {
	nd.kind = condWildcard
	return func() { to.wildcards = append(to.wildcards, wildcardNode{newWildcard(text), nd}) }
}

func (b *builder) insertValues(to *level, nd *node, f field, path string) func() {
	nd.kind = condValues
	values := b.texts(f, path)
	nd.condition = strings.Join(values, ",")
	if len(values) == 0 {
		b.fail(f.key, codeCondition, path, "", "values lists nothing")
		return nil
	}
	return func() {
		for _, v := range values {
			joined := nd.key + "_" + v
			if to.values[joined] != nil {
				b.tie(f, path, v)
				continue
			}
			to.values[joined] = nd
		}
	}
}

func (b *builder) insertNetworks(to *level, nd *node, f field, path string) func() {
	nd.kind = condNetwork
	texts := b.texts(f, path)
	nd.condition = strings.Join(texts, ",")
	if len(texts) == 0 {
		b.fail(f.key, codeCondition, path, "", "value_cidr lists nothing")
	}
	return func() {
		if to.networks[nd.key] == nil {
			to.networks[nd.key] = newNetworks()
		}
		for _, text := range texts {
			p, err := network(text)
			if err != nil {
				b.fail(f.value, codeCondition, path, "write networks as 10.0.0.0/8 or 2001:db8::/32", "%s", err)
				continue
			}
			if !to.networks[nd.key].add(p, nd) {
				b.tie(f, path, text)
			}
		}
	}
}

func (b *builder) insertPath(to *level, nd *node, f field, path string) func() {
	nd.kind = condPath
	nd.condition = b.text(f, path)
	p, err := newPathPattern(nd.condition)
	if err != nil {
		b.fail(f.value, codeCondition, path, "write paths as /users/{id} or /files/*", "%s", err)
		return nil
	}
	return func() {
		for _, other := range to.paths[nd.key] {
			if other.literal == p.literal && other.rest == p.rest && equalTexts(other.segments, p.segments) {
				b.tie(f, path, nd.condition)
			}
		}
		to.addPath(nd.key, pathNode{p, nd})
	}
}

func (b *builder) insertRegex(to *level, nd *node, f field, path string) func() {
	nd.kind = condRegex
	nd.condition = b.text(f, path)
	re, err := newRegex(nd.condition)
	if err != nil {
		b.fail(f.value, codeCondition, path, "expressions are RE2 and must match the whole value", "%s", err)
		return nil
	}
	return func() { to.regexes[nd.key] = append(to.regexes[nd.key], regexNode{re, nd}) }
}

func (b *builder) tie(f field, path, what string) {
	b.warn(f.key, true, codeTie, path, "remove it here or there", "%q is matched by an earlier rule of this level, which counts", what)
}

// finish draws what follows from the whole descriptor.
func (b *builder) finish(nd *node, at *yaml.Node, path string, in place) {
	if nd.rule == nil && nd.children == nil { // an allow-list entry: matched, without a limit
		nd.rule = &Rule{Domain: b.domain.name, Path: path, Pos: b.pos(at), EnforcePercent: nd.enforcePercent}
	}
	if nd.rule == nil {
		return
	}
	nd.rule.id = nd.rule.Domain + "|" + path
	nd.dynamic = nd.rule.DetailedMetric || nd.valueMetric || in.dynamic
}

func join(parent, label string) string {
	if parent == "" {
		return label
	}
	return parent + "." + label
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

func equalTexts(a, b []string) bool {
	return strings.Join(a, "/") == strings.Join(b, "/")
}
