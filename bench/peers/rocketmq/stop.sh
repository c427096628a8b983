#!/usr/bin/env bash
# Stops what start.sh started, by pid file. stop.sh [--run DIR] [--signal TERM|KILL] [name...], all names by default.
set -euo pipefail
: "${PEER_HOME:=.cache/peers/rocketmq}"
run=$PEER_HOME/run signal=TERM
while (($#)); do
  case $1 in
  --run) run=$2 && shift 2 ;;
  --signal) signal=$2 && shift 2 ;;
  *) break ;;
  esac
done
(($#)) || set -- broker namesrv

for name; do
  file=$run/$name.pid
  [[ -f $file ]] || continue
  pid=$(cat "$file")
  # A pid may have been reused: only a java process with this run folder as its home is ours.
  if grep -qzF -- "-Duser.home=$(cd "$run" && pwd)" "/proc/$pid/cmdline" 2>/dev/null; then
    kill -s "$signal" "$pid"
    for ((i = 0; i < 600; i++)); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.05
    done
    if kill -0 "$pid" 2>/dev/null; then
      echo "stop: $name (pid $pid) did not end within 30 s, killing it" >&2
      kill -s KILL "$pid"
    fi
  fi
  rm -f "$file"
done
