package descriptors

import (
	"cmp"
	"regexp"
	"slices"
)

// node is one descriptor of the configuration.
type node struct {
	key, value string // as written; value is empty for other conditions than `value`
	kind       conditionKind
	// condition is the text of the value condition, "" for key only.
	condition string

	share, valueMetric, hashed bool
	mask                       *prefixLengths // ip_prefix
	enforcePercent             int

	at       Position
	rule     *Rule
	statsKey string // base key of the rule, see statsSeparator
	dynamic  bool   // the statistics key depends on the request
	children *level
}

// prefixLengths are the bits that an address keeps in the counter key.
type prefixLengths struct{ v4, v6 int }

// conditionKind orders the value conditions by precedence.
type conditionKind uint8

const (
	condExact conditionKind = iota
	condValues
	condNetwork
	condPath
	condWildcard
	condRegex
	condKeyOnly
)

// label is the node's part of a rule path: key, or key_value.
func (n *node) label() string {
	if n.condition == "" {
		return n.key
	}
	return n.key + "_" + n.condition
}

// identity is what two nodes of one level must not share.
func (n *node) identity() string {
	switch n.kind {
	case condExact, condWildcard, condKeyOnly:
		return n.label()
	default:
		return string('0'+rune(n.kind)) + "\x00" + n.label()
	}
}

// level is one list of descriptors, ordered for matching. exact also holds key
// only nodes: as in the reference, what is compared is the text key_value.
type level struct {
	exact     map[string]*node
	values    map[string]*node
	networks  map[string]*networks
	paths     map[string][]pathNode // most literal segments first
	wildcards []wildcardNode
	regexes   map[string][]regexNode
	nodes     []*node // in order of the file
}

type pathNode struct {
	pathPattern
	node *node
}

type wildcardNode struct {
	wildcard
	node *node
}

type regexNode struct {
	re   *regexp.Regexp
	node *node
}

func newLevel() *level {
	return &level{
		exact: map[string]*node{}, values: map[string]*node{}, networks: map[string]*networks{},
		paths: map[string][]pathNode{}, regexes: map[string][]regexNode{},
	}
}

// addPath keeps the most specific pattern first: most literal segments, then most
// segments, then the order of the file.
func (l *level) addPath(key string, p pathNode) {
	at, _ := slices.BinarySearchFunc(l.paths[key], p, func(have, want pathNode) int {
		if c := cmp.Or(cmp.Compare(want.literal, have.literal), cmp.Compare(len(want.segments), len(have.segments))); c != 0 {
			return c
		}
		return -1
	})
	l.paths[key] = slices.Insert(l.paths[key], at, p)
}

// find gives the node for an entry. joined is scratch space.
func (l *level) find(e Entry, joined *[]byte) *node {
	text := append(append(append((*joined)[:0], e.Key...), '_'), e.Value...)
	*joined = text
	if n := l.exact[string(text)]; n != nil {
		return n
	}
	if len(l.values) > 0 {
		if n := l.values[string(text)]; n != nil {
			return n
		}
	}
	if n := l.findByCondition(e, text); n != nil {
		return n
	}
	return l.exact[e.Key]
}

func (l *level) findByCondition(e Entry, text []byte) *node {
	if nets := l.networks[e.Key]; nets != nil {
		if addr, ok := address(e.Value); ok {
			if n := nets.find(addr); n != nil {
				return n
			}
		}
	}
	if paths := l.paths[e.Key]; paths != nil {
		path := cutQuery(e.Value)
		for i := range paths {
			if paths[i].matches(path) {
				return paths[i].node
			}
		}
	}
	for i := range l.wildcards {
		if l.wildcards[i].matches(text) {
			return l.wildcards[i].node
		}
	}
	for _, r := range l.regexes[e.Key] {
		if r.re.MatchString(e.Value) {
			return r.node
		}
	}
	return nil
}

// walk visits every node below the level in order of the file.
func (l *level) walk(visit func(*node)) {
	if l == nil {
		return
	}
	for _, n := range l.nodes {
		visit(n)
		n.children.walk(visit)
	}
}
