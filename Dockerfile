# scripts/image-steps.sh does the same steps without a container engine.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN mkdir -p /image/bin /image/etc/ssl/certs \
 && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o /image/bin/weir ./cmd/server \
 && ln /image/bin/weir /image/bin/ratelimit \
 && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/

# No shell, no package manager, nothing to write to: run it with a read-only root.
FROM scratch
COPY --from=build /image/ /
USER 65532:65532
# gRPC, HTTP, debug
EXPOSE 8081 8080 6070
ENTRYPOINT ["/bin/weir"]
