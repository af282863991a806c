#!/usr/bin/env bash
# Does by hand what the Dockerfile does, where there is no container engine: the
# same build, into a folder with the image's layout, started as the image's user
# with nothing it could write to.
set -euo pipefail
cd "$(dirname "$0")/.."
root=dist/image
rm -rf "$root"
mkdir -p "$root/bin"
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$root/bin/weir" ./cmd/server
ln "$root/bin/weir" "$root/bin/ratelimit"
file "$root/bin/weir" 2>/dev/null || true
if ldd "$root/bin/weir" >/dev/null 2>&1; then
  echo "the binary is not static" >&2
  exit 1
fi
stage=$(mktemp -d)
trap 'kill "${pid:-0}" 2>/dev/null || true; rm -rf "$stage"' EXIT
cp -r "$root/bin" "$stage/bin"
cp -r config/examples/quickstart "$stage/rules"
chmod -R a-w,a+rX "$stage"
chmod a+x "$stage" "$stage"/bin/*
as=()
[ "$(id -u)" = 0 ] && as=(setpriv --reuid 65532 --regid 65532 --clear-groups)
env -i GRPC_PORT=28081 PORT=28080 DEBUG_PORT=26070 "${as[@]}" "$stage/bin/ratelimit" --config "$stage/rules" &
pid=$!
for _ in $(seq 50); do
  if env -i PORT=28080 "${as[@]}" "$stage/bin/weir" healthcheck 2>/dev/null; then
    echo "serves as uid $(ps -o uid= -p "$pid" | tr -d ' ') on a read-only folder"
    kill "$pid"
    wait "$pid"
    exit 0
  fi
  sleep 0.1
done
echo "the image's command does not serve" >&2
exit 1
