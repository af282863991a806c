package web

import (
	"io"
	"net/http"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weirhq/weir/pkg/envoyrls"
)

const maxBody = 4 << 20

// jsonHandler is the rate limit call in proto3 JSON: 200 and 429 carry the
// response, 400 is a malformed request, 503 a store or configuration that is
// not there.
func jsonHandler(service *envoyrls.Service) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
			return
		}
		req := &rls.RateLimitRequest{}
		if err := protojson.Unmarshal(body, req); err != nil || len(body) == 0 {
			http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
			return
		}
		resp, err := service.ShouldRateLimit(r.Context(), req)
		if err != nil {
			httpError(w, err)
			return
		}
		text, err := protojson.Marshal(resp)
		if err != nil {
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if resp.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = w.Write(text)
	}
}

// httpError answers an error with its reason: messages of ours name no keys and
// no addresses.
func httpError(w http.ResponseWriter, err error) {
	s := status.Convert(err)
	switch s.Code() {
	case codes.InvalidArgument:
		http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
	case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded:
		http.Error(w, s.Message(), http.StatusServiceUnavailable)
	default:
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
	}
}
