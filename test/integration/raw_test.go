package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"

	"github.com/weirhq/weir/internal/testutil/weirtest"
)

// raw is a message that is sent as it is.
type raw string

// rawOption sends messages of type raw under protobuf's name.
var rawOption = grpc.ForceCodec(rawCodec{})

type rawCodec struct{}

var _ encoding.Codec = rawCodec{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) {
	if r, ok := v.(raw); ok {
		return []byte(r), nil
	}
	return nil, fmt.Errorf("not raw: %T", v)
}

func (rawCodec) Unmarshal([]byte, any) error { return nil }

// run runs the binary to its end.
func run(t *testing.T, args ...string) (out []byte, code int) {
	t.Helper()
	cmd := exec.Command(weirtest.Binary(t, ""), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GRPC_PORT=0", "PORT=0", "DEBUG_PORT=0"}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out, exit.ExitCode()
	}
	require.NoError(t, err)
	return out, 0
}
