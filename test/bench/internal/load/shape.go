package load

import (
	"fmt"
	"math/rand/v2"
)

// Distribution is how the keys of requests are drawn.
type Distribution string

// The distributions. Zipf has exponent 1.1, so that the first of 10,000 keys
// gets about a seventh of the traffic.
const (
	OneKey  Distribution = "one"
	Uniform Distribution = "uniform"
	Zipf    Distribution = "zipf"
)

const (
	zipfExponent = 1.1
	maxKeys      = 100_000_000 // eight digits
	maxPerAnswer = 1000        // descriptors of a request
)

// Shape is what the requests of a run look like. A descriptor is
// (key, client) or, with routes, (route, client).
type Shape struct {
	Domain      string
	Descriptors int          // descriptors in each request, 1 to 1000
	Keys        int          // different clients, 1 to 100,000,000
	Keyed       Distribution // how they are drawn
	AllowKey    string       // entry key of requests that are meant to pass
	DenyKey     string       // entry key of those meant to be refused
	Denied      float64      // their share, 0 to 1
	Routes      int          // more than 0: a first entry with this many values; AllowKey is then the second entry
}

func (s Shape) validate() error {
	switch {
	case s.Descriptors < 1 || s.Descriptors > maxPerAnswer:
		return fmt.Errorf("%d descriptors: want 1 to %d", s.Descriptors, maxPerAnswer)
	case s.Keys < 1 || s.Keys > maxKeys || s.Routes < 0 || s.Routes > maxKeys:
		return fmt.Errorf("%d keys, %d routes: want at most %d", s.Keys, s.Routes, maxKeys)
	case s.Denied < 0 || s.Denied > 1:
		return fmt.Errorf("denied share %v: want 0 to 1", s.Denied)
	case s.Keyed != OneKey && s.Keyed != Uniform && s.Keyed != Zipf:
		return fmt.Errorf("distribution %q: want one, uniform or zipf", s.Keyed)
	}
	return nil
}

// drawer gives key numbers, 0 to keys-1.
type drawer func() int

func (s Shape) drawer(seed uint64) drawer {
	rng := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	switch s.Keyed {
	case Uniform:
		return func() int { return rng.IntN(s.Keys) }
	case Zipf:
		zipf := rand.NewZipf(rng, zipfExponent, 1, uint64(s.Keys-1))
		return func() int { return int(zipf.Uint64()) }
	default:
		return func() int { return 0 }
	}
}
