package descriptors

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// maxRegexBytes bounds an expression; RE2 matches in linear time, but a long
// expression still costs its length per byte of the value.
const maxRegexBytes = 1 << 10

// wildcard is a text split at its stars: each star stands for any bytes.
type wildcard struct {
	pieces []string
	least  int // bytes of all pieces
}

func newWildcard(text string) wildcard {
	w := wildcard{pieces: strings.Split(text, "*")}
	for _, p := range w.pieces {
		w.least += len(p)
	}
	return w
}

func (w *wildcard) matches(s []byte) bool {
	first, last := w.pieces[0], w.pieces[len(w.pieces)-1]
	if len(s) < w.least || string(s[:len(first)]) != first || string(s[len(s)-len(last):]) != last {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, p := range w.pieces[1 : len(w.pieces)-1] {
		i := indexOf(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return true
}

func indexOf(s []byte, p string) int {
	for i := 0; i+len(p) <= len(s); i++ {
		if string(s[i:i+len(p)]) == p {
			return i
		}
	}
	return -1
}

// pathPattern is a value_path split into segments.
type pathPattern struct {
	segments []string // "{}" stands for any one segment
	rest     bool     // ends with *: any further segments
	literal  int
}

func newPathPattern(text string) (p pathPattern, err error) {
	if !strings.HasPrefix(text, "/") {
		return p, fmt.Errorf("path %q does not begin with /", text)
	}
	if strings.ContainsAny(text, "?#") {
		return p, fmt.Errorf("path %q holds a query or fragment, which is cut off requests", text)
	}
	p.segments = strings.Split(text[1:], "/")
	if last := len(p.segments) - 1; p.segments[last] == "*" {
		p.segments, p.rest = p.segments[:last], true
	}
	for i, s := range p.segments {
		switch {
		case strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") && len(s) > 2 && !strings.ContainsAny(s[1:len(s)-1], "{}"):
			p.segments[i] = "{}"
		case strings.ContainsAny(s, "{}*"):
			return p, fmt.Errorf("segment %q of path %q is neither plain text nor {name}, and * may only be the last segment", s, text)
		default:
			p.literal++
		}
	}
	return p, nil
}

func (p *pathPattern) matches(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	path = path[1:]
	for i, want := range p.segments {
		segment, after, more := strings.Cut(path, "/")
		if want == "{}" && segment == "" || want != "{}" && segment != want {
			return false
		}
		if i == len(p.segments)-1 {
			return more && p.rest || !more && !p.rest
		}
		if !more {
			return false
		}
		path = after
	}
	return p.rest // the pattern /*
}

// cutQuery gives a path without its query and fragment.
func cutQuery(path string) string {
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		return path[:i]
	}
	return path
}

// address reads an IP address as Envoy's actions write it: plain, or with a
// prefix length that covers it whole; an IPv4 address mapped into IPv6 is the
// IPv4 address.
func address(text string) (netip.Addr, bool) {
	host, bits, masked := strings.Cut(text, "/")
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, false
	}
	if masked && bits != "32" && bits != "128" || masked && bits == "32" && !addr.Is4() {
		return netip.Addr{}, false
	}
	return addr.WithZone("").Unmap(), true
}

// networks finds the longest prefix that holds an address: one look-up for each
// length in use.
type networks struct {
	lengths []int // descending
	nodes   map[netip.Prefix]*node
}

func newNetworks() *networks { return &networks{nodes: map[netip.Prefix]*node{}} }

// network reads a CIDR or a single address.
func network(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.WithZone("").Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q is no network", text)
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// add reports false when the network is there already.
func (n *networks) add(p netip.Prefix, to *node) bool {
	if n.nodes[p] != nil {
		return false
	}
	n.nodes[p] = to
	if !slices.Contains(n.lengths, p.Bits()) {
		n.lengths = append(n.lengths, p.Bits())
		slices.SortFunc(n.lengths, func(a, b int) int { return cmp.Compare(b, a) })
	}
	return true
}

func (n *networks) find(addr netip.Addr) *node {
	for _, bits := range n.lengths {
		if bits > addr.BitLen() {
			continue
		}
		p, err := addr.Prefix(bits)
		if err != nil {
			continue
		}
		if found := n.nodes[p]; found != nil {
			return found
		}
	}
	return nil
}

func newRegex(text string) (*regexp.Regexp, error) {
	if len(text) > maxRegexBytes {
		return nil, fmt.Errorf("expression of %d bytes is longer than %d", len(text), maxRegexBytes)
	}
	re, err := regexp.Compile(`^(?:` + text + `)$`)
	if err != nil {
		return nil, fmt.Errorf("expression %q cannot be read: %w", text, err)
	}
	return re, nil
}
