package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// floorServer is what any RateLimitService on stock grpc-go costs at least: it
// decodes the request and answers OK, a status per descriptor.
type floorServer struct {
	rlsv3.UnimplementedRateLimitServiceServer
}

func (floorServer) ShouldRateLimit(_ context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	statuses := make([]*rlsv3.RateLimitResponse_DescriptorStatus, len(req.GetDescriptors()))
	for i := range statuses {
		statuses[i] = &rlsv3.RateLimitResponse_DescriptorStatus{Code: rlsv3.RateLimitResponse_OK}
	}
	return &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK, Statuses: statuses}, nil
}

func runFloor(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench floor", flag.ContinueOnError)
	flags.SetOutput(out)
	listen := flags.String("listen", "127.0.0.1:8081", "address to serve gRPC on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "serving on", listener.Addr())
	return serveFloor(ctx, listener)
}

// serveFloor serves until the context ends.
func serveFloor(ctx context.Context, listener net.Listener) error {
	server := grpc.NewServer()
	rlsv3.RegisterRateLimitServiceServer(server, floorServer{})
	stopped := context.AfterFunc(ctx, server.Stop)
	defer stopped()
	return server.Serve(listener)
}
