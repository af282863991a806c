package descriptors

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"
)

// Keys are PREFIX w1{domain|key=value|key=value}suffix. The part in braces is
// the hash tag of a Redis Cluster, so that all limits of one descriptor share a
// slot. Every byte that has a meaning here is escaped inside domain, keys and
// values, so that different descriptors never share a key; marked values (a
// condition shared by all its values, a hash) begin with a byte that a literal
// value never begins with.
const (
	keyVersion = "w1"
	markShared = '~' // followed by the condition's text
	markHash   = '#' // SHA-256 of a long value
	markSecret = '$' // keyed hash of a hash_value
	markMasked = '@' // network that an address was cut to

	maxPlainBytes = 256
)

// prefixEscaper keeps a prefix readable, but for what would make a hash tag.
var prefixEscaper = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

const hexDigits = "0123456789ABCDEF"

// appendEscaped appends text so that none of its bytes can be taken for one of
// the key's own.
func appendEscaped(dst []byte, text string) []byte {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '%' || c == '{' || c == '}' || c == '|' || c == '=' || c == markShared || c == markHash || c == markSecret || c == markMasked || c < ' ' || c == 0x7f:
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// appendPart appends a domain, key or value, long ones as a hash.
func appendPart(dst []byte, text string) []byte {
	if len(text) <= maxPlainBytes {
		return appendEscaped(dst, text)
	}
	sum := sha256.Sum256([]byte(text))
	return hex.AppendEncode(append(dst, markHash), sum[:])
}

func appendShared(dst []byte, condition string) []byte {
	return appendPart(append(dst, markShared), condition)
}

func appendSecret(dst []byte, secret []byte, value string) []byte {
	return hex.AppendEncode(append(dst, markSecret), keyed(secret, value))
}

// keyed is the hash that stands for a value which must not be stored: the first
// 16 bytes of HMAC-SHA-256.
func keyed(secret []byte, value string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(value))
	return mac.Sum(nil)[:16]
}

// appendMasked appends an address cut to its network; what is no address is
// used as it is.
func appendMasked(dst []byte, mask *prefixLengths, value string) []byte {
	addr, ok := address(value)
	if !ok {
		return appendPart(dst, value)
	}
	bits := mask.v6
	if addr.Is4() {
		bits = mask.v4
	}
	if bits >= addr.BitLen() {
		return addr.AppendTo(dst)
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return appendPart(dst, value)
	}
	return p.AppendTo(append(dst, markMasked))
}

// appendValue appends what stands for the value of an entry in the counter key.
// n is nil for entries of an override that met no node.
func appendValue(dst []byte, n *node, value string, secret []byte) []byte {
	switch {
	case n == nil:
		return appendPart(dst, value)
	case n.share:
		return appendShared(dst, n.condition)
	case n.hashed:
		return appendSecret(dst, secret, value)
	case n.mask != nil:
		return appendMasked(dst, n.mask, value)
	case n.kind == condPath:
		return appendPart(dst, cutQuery(value))
	case n.kind == condNetwork:
		return appendAddress(dst, value)
	default:
		return appendPart(dst, value)
	}
}

// appendAddress appends an address in its one spelling.
func appendAddress(dst []byte, value string) []byte {
	var addr netip.Addr
	addr, ok := address(value)
	if !ok {
		return appendPart(dst, value)
	}
	return addr.AppendTo(dst)
}
