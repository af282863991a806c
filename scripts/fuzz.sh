#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each.
set -euo pipefail
time=${1:-60s}
go list ./... | while read -r pkg; do
  for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
    echo "$pkg $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 5s "$pkg"
  done
done
