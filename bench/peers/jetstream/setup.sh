#!/usr/bin/env bash
# Builds a NATS server and its load generator, a Go module of their own, into $PEER_HOME. Needs Go.
set -euo pipefail
kit=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${PEER_HOME:=.cache/peers/jetstream}"
mkdir -p "$PEER_HOME"
home=$(cd "$PEER_HOME" && pwd)
(cd "$kit" && go build -trimpath -o "$home/" ./server ./load)
