#!/usr/bin/env bash
# Stops what start.sh started, by pid file. stop.sh [--run DIR] [--signal TERM|KILL]
set -euo pipefail
: "${PEER_HOME:=.cache/peers/kafka}"
run=$PEER_HOME/run signal=TERM
while (($#)); do
  case $1 in
  --run) run=$2 ;;
  --signal) signal=$2 ;;
  *) echo "stop.sh [--run DIR] [--signal TERM|KILL]" >&2 && exit 2 ;;
  esac
  shift 2
done

file=$run/kafka.pid
[[ -f $file ]] || exit 0
run=$(cd "$run" && pwd)
pid=$(cat "$file")
# A pid may have been reused: only a process that carries this run folder is ours.
if grep -qzF -- "-Dpeer.run=$run" "/proc/$pid/cmdline" 2>/dev/null; then
  kill -s "$signal" "$pid"
  for ((i = 0; i < 600; i++)); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  if kill -0 "$pid" 2>/dev/null; then
    echo "stop: kafka (pid $pid) did not end within 30 s, killing it" >&2
    kill -s KILL "$pid"
  fi
fi
rm -f "$file"
