package descriptors

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of one file: far above what anybody writes, low enough that a hostile
// file costs neither the process's memory nor its stack.
const (
	maxFileBytes = 32 << 20
	maxDepth     = 64
	maxNodes     = 4_000_000 // after aliases are followed
)

// reader reads values off YAML nodes and collects what is wrong with them.
type reader struct {
	file  string
	found Diagnostics
	nodes int
}

func (r *reader) pos(n *yaml.Node) Position {
	if n == nil {
		return Position{File: r.file}
	}
	return Position{File: r.file, Line: n.Line, Column: n.Column}
}

func (r *reader) fail(n *yaml.Node, code, path, hint, format string, args ...any) {
	r.found = append(r.found, Diagnostic{
		Severity: Error, Code: code, Pos: r.pos(n), Path: path, Hint: hint, Message: fmt.Sprintf(format, args...),
	})
}

func (r *reader) warn(n *yaml.Node, mistake bool, code, path, hint, format string, args ...any) {
	r.found = append(r.found, Diagnostic{
		Severity: Warning, Mistake: mistake, Code: code, Pos: r.pos(n), Path: path, Hint: hint, Message: fmt.Sprintf(format, args...),
	})
}

// field is one key of a map with its value.
type field struct {
	key   *yaml.Node
	value *yaml.Node
}

// followed resolves aliases.
func followed(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// fields gives the keys of a map, merge keys expanded, the last of repeated
// keys only. ok is false when the node is no map.
func (r *reader) fields(n *yaml.Node, path string) (out []field, ok bool) {
	n = followed(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, false
	}
	r.nodes += len(n.Content)
	index := map[string]int{}
	var merged []field
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := followed(n.Content[i]), followed(n.Content[i+1])
		if k.Kind != yaml.ScalarNode {
			r.fail(k, codeType, path, "", "a key must be a text")
			continue
		}
		if k.Tag == "!!merge" {
			merged = append(merged, r.mergeFields(v, path)...)
			continue
		}
		if at, twice := index[k.Value]; twice {
			r.warn(k, true, codeRepeatedKey, path, "remove one of them", "key %q stands twice in one map; the last one counts", k.Value)
			out[at] = field{k, v}
			continue
		}
		index[k.Value] = len(out)
		out = append(out, field{k, v})
	}
	for _, f := range merged {
		if _, own := index[f.key.Value]; !own {
			index[f.key.Value] = len(out)
			out = append(out, f)
		}
	}
	return out, true
}

func (r *reader) mergeFields(n *yaml.Node, path string) []field {
	if n.Kind == yaml.SequenceNode {
		var out []field
		for _, e := range n.Content {
			f, _ := r.fields(e, path)
			out = append(out, f...)
		}
		return out
	}
	f, ok := r.fields(n, path)
	if !ok {
		r.fail(n, codeType, path, "", "a merge key takes a map")
	}
	return f
}

func isNull(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

// text reads a scalar by its source text, whatever its type, as the reference
// does: 010 and true are texts here. null is empty.
func (r *reader) text(f field, path string) string {
	switch {
	case isNull(f.value):
		return ""
	case f.value.Kind != yaml.ScalarNode:
		r.fail(f.value, codeType, path, "", "%s must be a text", f.key.Value)
		return ""
	default:
		return f.value.Value
	}
}

// boolean reads a YAML 1.1 boolean, in which yes and on are true.
func (r *reader) boolean(f field, path string) bool {
	if isNull(f.value) {
		return false
	}
	if f.value.Kind == yaml.ScalarNode && f.value.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0 {
		switch strings.ToLower(f.value.Value) {
		case "true", "yes", "on", "y":
			return true
		case "false", "no", "off", "n":
			return false
		}
	}
	r.fail(f.value, codeType, path, "write true or false", "%s must be true or false, not %q", f.key.Value, f.value.Value)
	return false
}

// number reads an integer from least to most, in the notations of YAML 1.1
// (010 is octal). ok is false where a problem was reported.
func (r *reader) number(f field, path string, least, most int64) (n int64, ok bool) {
	if isNull(f.value) {
		return 0, true
	}
	quoted := f.value.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
	if f.value.Kind != yaml.ScalarNode || quoted {
		r.fail(f.value, codeType, path, "write a plain number", "%s must be a whole number", f.key.Value)
		return 0, false
	}
	plain := strings.ReplaceAll(f.value.Value, "_", "")
	n, err := strconv.ParseInt(strings.TrimPrefix(plain, "+"), 0, 64)
	if err != nil {
		if x, ferr := strconv.ParseFloat(plain, 64); ferr == nil && (x > float64(most) || x < float64(least)) && x == math.Trunc(x) {
			r.fail(f.value, codeNumber, path, "", "%s %s is not between %d and %d", f.key.Value, f.value.Value, least, most)
			return 0, false
		}
		r.fail(f.value, codeType, path, "write a whole number", "%s must be a whole number, not %q", f.key.Value, f.value.Value)
		return 0, false
	}
	if n < least || n > most {
		r.fail(f.value, codeNumber, path, "", "%s %d is not between %d and %d", f.key.Value, n, least, most)
		return 0, false
	}
	return n, true
}

// elements gives the elements of a list; null is an empty one.
func (r *reader) elements(f field, path string) []*yaml.Node {
	if isNull(f.value) {
		return nil
	}
	if f.value.Kind != yaml.SequenceNode {
		r.fail(f.value, codeType, path, "begin each element with `- `", "%s must be a list", f.key.Value)
		return nil
	}
	r.nodes += len(f.value.Content)
	out := make([]*yaml.Node, len(f.value.Content))
	for i, n := range f.value.Content {
		out[i] = followed(n)
	}
	return out
}

// texts reads a list of texts; a single text is a list of one.
func (r *reader) texts(f field, path string) []string {
	if !isNull(f.value) && f.value.Kind == yaml.ScalarNode {
		return []string{f.value.Value}
	}
	var out []string
	for _, n := range r.elements(f, path) {
		if n.Kind != yaml.ScalarNode {
			r.fail(n, codeType, path, "", "%s takes a list of texts", f.key.Value)
			continue
		}
		out = append(out, n.Value)
	}
	return out
}

// choice reads one of the words.
func (r *reader) choice(f field, path string, words ...string) string {
	word := r.text(f, path)
	if word != "" && !slices.Contains(words, word) {
		r.fail(f.value, codeChoice, path, didYouMean(word, words), "%s %q is none of %s", f.key.Value, word, strings.Join(words, ", "))
		return ""
	}
	return word
}

// value turns a node into plain data for metadata: maps with text keys, lists,
// texts, float64, bool, nil.
func (r *reader) value(n *yaml.Node, path string, depth int) any {
	n = followed(n)
	r.nodes++
	if depth > maxDepth || r.nodes > maxNodes {
		return nil
	}
	switch {
	case isNull(n):
		return nil
	case n.Kind == yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, e := range n.Content {
			list[i] = r.value(e, path, depth+1)
		}
		return list
	case n.Kind == yaml.MappingNode:
		fields, _ := r.fields(n, path)
		m := make(map[string]any, len(fields))
		for _, f := range fields {
			m[strings.ToValidUTF8(f.key.Value, "\ufffd")] = r.value(f.value, path, depth+1)
		}
		return m
	default:
		return scalar(n)
	}
}

func scalar(n *yaml.Node) any {
	var b bool
	var x float64
	switch {
	case n.Tag == "!!bool" && n.Decode(&b) == nil:
		return b
	case (n.Tag == "!!int" || n.Tag == "!!float") && n.Decode(&x) == nil && !math.IsNaN(x) && !math.IsInf(x, 0):
		return x
	default:
		return strings.ToValidUTF8(n.Value, "\ufffd")
	}
}

// didYouMean suggests the nearest of the words, if one is near.
func didYouMean(word string, words []string) string {
	best, distance := "", 1+len(word)/3
	for _, w := range words {
		if d := editDistance(strings.ToLower(word), w); d <= distance && d < len(w) {
			best, distance = w, d-1
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean `" + best + "`?"
}

// editDistance is Levenshtein's, on bytes; words are keys and short.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		previous := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := previous
			if a[i] != b[j] {
				change++
			}
			previous = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
