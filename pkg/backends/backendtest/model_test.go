package backendtest_test

import (
	"testing"

	"github.com/weirhq/weir/pkg/backends"
	"github.com/weirhq/weir/pkg/backends/backendtest"
)

// TestModel: the model is a store, so it passes the contract as well.
func TestModel(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		Open: func(_ *testing.T, now func() int64) backends.Store { return backendtest.NewModel(now) },
	})
}
