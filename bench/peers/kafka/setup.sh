#!/usr/bin/env bash
# Fetches the server's jars and builds the load generator, a Go module of its own, into $PEER_HOME. The jars are fetched
# again only when the pom has changed. Needs Java, Maven and Go.
set -euo pipefail
kit=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${PEER_HOME:=.cache/peers/kafka}"
mkdir -p "$PEER_HOME"
home=$(cd "$PEER_HOME" && pwd)

sum=$(sha256sum <"$kit/pom.xml")
if [[ ! -f $home/server/stamp || $(cat "$home/server/stamp") != "$sum" ]]; then
  rm -rf "$home/server"
  mvn -q -B -f "$kit/pom.xml" -Dpeer.home="$home" dependency:copy-dependencies
  printf '%s\n' "$sum" >"$home/server/stamp"
fi
(cd "$kit/load" && go build -trimpath -o "$home/load" .)
