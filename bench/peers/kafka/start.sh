#!/usr/bin/env bash
# Starts one Kafka process, broker and controller in one, on the loopback address, and returns when it is ready.
set -euo pipefail

usage() {
  cat <<'USAGE'
start.sh [option value]...
  --run DIR              pid file, output, generated configuration   ($PEER_HOME/run)
  --store DIR            message store, formatted on first use       (RUN/store)
  --port N               clients                                     (9092)
  --controller-port N    the process's own controller                (9093)
  --heap SIZE            -Xms and -Xmx                               (2g)
  --set KEY=VALUE        one more line for server.properties; may be repeated
  --wait SECONDS         longest time to wait                        (90)
  --foreground yes       become the server instead of waiting for it (no)
Java options: $JAVA_OPTS
USAGE
}

kit=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${PEER_HOME:=.cache/peers/kafka}"
run='' store='' port=9092 controller_port=9093 heap=2g wait=90 foreground=no
extra=()
while (($#)); do
  case $1 in
  --run) run=$2 ;;
  --store) store=$2 ;;
  --port) port=$2 ;;
  --controller-port) controller_port=$2 ;;
  --heap) heap=$2 ;;
  --set) extra+=("$2") ;;
  --wait) wait=$2 ;;
  --foreground) foreground=$2 ;;
  -h | --help) usage && exit ;;
  *) usage >&2 && exit 2 ;;
  esac
  shift 2
done

lib=$(cd "$PEER_HOME/server/lib" && pwd) || { echo "start: run setup.sh first" >&2 && exit 1; }
run=${run:-$PEER_HOME/run}
mkdir -p "$run"
run=$(cd "$run" && pwd)
store=${store:-$run/store}
mkdir -p "$store"
store=$(cd "$store" && pwd)

# A pid file may be stale and its pid reused: only a process that carries this run folder is ours.
if [[ -f $run/kafka.pid ]] && grep -qzF -- "-Dpeer.run=$run" "/proc/$(cat "$run/kafka.pid")/cmdline" 2>/dev/null; then
  echo "start: kafka is running already (pid $(cat "$run/kafka.pid"))" >&2
  exit 1
fi

# All that differs from Kafka's defaults: one node, one replica, and deleted topics that give their disk back at once.
cat >"$run/server.properties" <<CONF
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller_port
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:$controller_port
log.dirs=$store
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.segment.delete.delay.ms=1000
CONF
((${#extra[@]})) && printf '%s\n' "${extra[@]}" >>"$run/server.properties"

if [[ ! -f $store/meta.properties ]]; then
  java -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile="$kit/log4j2.properties" -cp "$lib/*" \
    kafka.tools.StorageTool format --standalone --cluster-id cGVlci1rYWZrYS1sb2FkMQ \
    --config "$run/server.properties" >"$run/format.out" 2>&1 || { cat "$run/format.out" >&2 && exit 1; }
fi

# The JVM options are those of Kafka's own scripts. peer.run marks the process for stop.sh.
# shellcheck disable=SC2206
java=(java -server "-Xms$heap" "-Xmx$heap" -XX:+UseG1GC -XX:MaxGCPauseMillis=20
  -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent -XX:MaxInlineLevel=15
  -Djava.awt.headless=true -Dpeer.run="$run" -Dlog4j2.configurationFile="$kit/log4j2.properties"
  ${JAVA_OPTS:-} -cp "$lib/*" kafka.Kafka "$run/server.properties")

if [[ $foreground == yes ]]; then
  echo $$ >"$run/kafka.pid"
  exec "${java[@]}" >"$run/kafka.out" 2>&1 </dev/null
fi

: >"$run/kafka.out"
nohup "${java[@]}" >"$run/kafka.out" 2>&1 </dev/null &
pid=$!
echo "$pid" >"$run/kafka.pid"
deadline=$((SECONDS + wait))
until grep -q 'Kafka Server started' "$run/kafka.out"; do
  if ! kill -0 "$pid" 2>/dev/null || ((SECONDS >= deadline)); then
    echo "start: kafka is not ready; last lines of its output:" >&2
    tail -n 20 "$run/kafka.out" >&2
    exit 1
  fi
  sleep 0.05
done
echo "kafka pid $pid"
