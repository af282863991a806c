package memory_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/backendtest"
	"github.com/weirhq/weir/pkg/backends/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		Open: func(_ *testing.T, now func() int64) backends.Store {
			return memory.New(memory.Options{NowUS: now})
		},
	})
}
