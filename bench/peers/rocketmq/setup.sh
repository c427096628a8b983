#!/usr/bin/env bash
# Fetches the server's jars into $PEER_HOME. Running it again does nothing unless the pom has changed. Needs Java and
# Maven. The load generator is a program of this repository: go build ./bench/peers/rocketmq/load.
set -euo pipefail
kit=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${PEER_HOME:=.cache/peers/rocketmq}"
mkdir -p "$PEER_HOME"
home=$(cd "$PEER_HOME" && pwd)

sum=$(sha256sum <"$kit/pom.xml")
if [[ ! -f $home/server/stamp || $(cat "$home/server/stamp") != "$sum" ]]; then
  rm -rf "$home/server"
  mvn -q -B -f "$kit/pom.xml" -Dpeer.home="$home" dependency:copy-dependencies
  printf '%s\n' "$sum" >"$home/server/stamp"
fi
