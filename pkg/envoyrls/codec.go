package envoyrls

import (
	"bytes"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that Codec stands on
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Codec is gRPC's protobuf codec, for grpc.ForceServerCodecV2, with one
// difference: a rate limit request that is no valid message (invalid UTF-8, cut
// short) reaches the service, which answers InvalidArgument. grpc-go itself
// would answer Internal, as if the server were at fault.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

type codec struct{ encoding.CodecV2 }

// malformed marks a request that could not be read: field 536870911, the
// largest number there is, with an empty value.
var malformed = []byte{0xfa, 0xff, 0xff, 0xff, 0x0f, 0x00}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	if req, ok := v.(*rls.RateLimitRequest); ok && err != nil {
		proto.Reset(req)
		req.ProtoReflect().SetUnknown(malformed)
		return nil
	}
	return err
}

func isMalformed(req *rls.RateLimitRequest) bool {
	return bytes.Equal(req.ProtoReflect().GetUnknown(), malformed)
}
