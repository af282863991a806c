package descriptors

import (
	"testing"

	"github.com/weirhq/weir/pkg/algorithm"
)

func mustSpec(tb testing.TB) *algorithm.Spec {
	tb.Helper()
	s, err := algorithm.NewSpec(algorithm.Limit{Requests: 1, WindowUS: 60_000_000})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
