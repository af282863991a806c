package load

import (
	"encoding/binary"
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// verdict is what one answer says.
type verdict struct {
	code     uint64 // overall code: 1 OK, 2 OVER_LIMIT
	statuses int    // one per descriptor
}

const (
	codeOK        = 1
	codeOverLimit = 2

	fieldOverallCode = 1
	fieldStatuses    = 2
	messagePrefix    = 5 // compressed flag and length
)

var errAnswer = errors.New("answer is no uncompressed RateLimitResponse")

// wholeMessage tells whether data is one complete gRPC message.
func wholeMessage(data []byte) bool {
	return len(data) >= messagePrefix && len(data)-messagePrefix == int(binary.BigEndian.Uint32(data[1:]))
}

// parseAnswer reads the outermost fields of a gRPC message that holds a
// RateLimitResponse; the rest is passed over.
func parseAnswer(data []byte) (verdict, error) {
	if !wholeMessage(data) || data[0] != 0 {
		return verdict{}, errAnswer
	}
	var v verdict
	for msg := data[messagePrefix:]; len(msg) > 0; {
		num, typ, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return verdict{}, errAnswer
		}
		msg = msg[n:]
		if num == fieldOverallCode && typ == protowire.VarintType {
			v.code, n = protowire.ConsumeVarint(msg)
		} else {
			n = protowire.ConsumeFieldValue(num, typ, msg)
		}
		if n < 0 {
			return verdict{}, errAnswer
		}
		if num == fieldStatuses && typ == protowire.BytesType {
			v.statuses++
		}
		msg = msg[n:]
	}
	return v, nil
}
