#!/usr/bin/env bash
# Starts a name server and a broker on the loopback address, and returns when they are ready.
set -euo pipefail

usage() {
  cat <<'USAGE'
start.sh [option value]...
  --run DIR             pid files, logs, generated configuration      ($PEER_HOME/run)
  --store DIR           message store                                 (RUN/store)
  --namesrv-port N      (9876)
  --broker-port N       N−2 (fast port) and N+1 (replication) are used too (10911)
  --flush async|sync    flushDiskType                                 (async)
  --commitlog BYTES     size of one commit log file                   (1073741824)
  --acl off|on          authentication and authorization of 5.x       (off)
  --access-key K --secret-key S   first user when --acl is on         (peeradmin, peersecret)
  --heap SIZE           broker: -Xms and -Xmx                         (2g)
  --namesrv-heap SIZE   (512m)
  --set KEY=VALUE       one more line for broker.conf; may be repeated
  --only broker         leave the name server as it is
  --wait SECONDS        for each process                              (90)
Java options for all: $JAVA_OPTS
USAGE
}

: "${PEER_HOME:=.cache/peers/rocketmq}"
run='' store='' namesrv_port=9876 broker_port=10911 flush=async commitlog=1073741824
acl=off access_key=peeradmin secret_key=peersecret heap=2g namesrv_heap=512m only='' wait=90
extra=()
while (($#)); do
  case $1 in
  --run) run=$2 ;;
  --store) store=$2 ;;
  --namesrv-port) namesrv_port=$2 ;;
  --broker-port) broker_port=$2 ;;
  --flush) flush=$2 ;;
  --commitlog) commitlog=$2 ;;
  --acl) acl=$2 ;;
  --access-key) access_key=$2 ;;
  --secret-key) secret_key=$2 ;;
  --heap) heap=$2 ;;
  --namesrv-heap) namesrv_heap=$2 ;;
  --set) extra+=("$2") ;;
  --only) only=$2 ;;
  --wait) wait=$2 ;;
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

alive() { [[ -f $run/$1.pid ]] && kill -0 "$(cat "$run/$1.pid")" 2>/dev/null; }

# launch NAME READY-TEXT JVM-OPTIONS... -- MAIN-CLASS ARGS...: the process's home is RUN, where its logs go. All jars
# lie in one folder, so each process is told which of their logging configurations is its own.
launch() {
  local name=$1 ready=$2 jvm=()
  shift 2
  while [[ $1 != -- ]]; do jvm+=("$1") && shift; done
  shift
  alive "$name" && { echo "start: $name is running already (pid $(cat "$run/$name.pid"))" >&2 && exit 1; }
  : >"$run/$name.out"
  # shellcheck disable=SC2086
  ROCKETMQ_HOME=$run nohup java "${jvm[@]}" -XX:+UseG1GC -Duser.home="$run" \
    -Drmq.logback.configurationFile="rmq.$name.logback.xml" ${JAVA_OPTS:-} \
    -cp "$run/conf:$lib/*" "$@" >"$run/$name.out" 2>&1 </dev/null &
  echo $! >"$run/$name.pid"
  local deadline=$((SECONDS + wait))
  until grep -q "$ready" "$run/$name.out"; do
    if ! alive "$name" || ((SECONDS >= deadline)); then
      echo "start: $name is not ready; last lines of its output:" >&2
      tail -n 20 "$run/$name.out" >&2
      exit 1
    fi
    sleep 0.05
  done
  echo "$name pid $(cat "$run/$name.pid")"
}

mkdir -p "$run/conf"
cat >"$run/conf/namesrv.conf" <<CONF
listenPort=$namesrv_port
bindAddress=127.0.0.1
CONF

cat >"$run/conf/broker.conf" <<CONF
brokerClusterName=PeerCluster
brokerName=peer
brokerId=0
brokerRole=ASYNC_MASTER
brokerIP1=127.0.0.1
bindAddress=127.0.0.1
listenPort=$broker_port
haListenPort=$((broker_port + 1))
namesrvAddr=127.0.0.1:$namesrv_port
storePathRootDir=$store
storePathCommitLog=$store/commitlog
flushDiskType=${flush^^}_FLUSH
mappedFileSizeCommitLog=$commitlog
autoCreateTopicEnable=true
autoCreateSubscriptionGroup=true
CONF
((${#extra[@]})) && printf '%s\n' "${extra[@]}" >>"$run/conf/broker.conf"

if [[ $acl == on ]]; then
  auth=org.apache.rocketmq.auth
  cat >>"$run/conf/broker.conf" <<CONF
authenticationEnabled=true
authenticationProvider=$auth.authentication.provider.DefaultAuthenticationProvider
authenticationMetadataProvider=$auth.authentication.provider.LocalAuthenticationMetadataProvider
initAuthenticationUser={"username":"$access_key","password":"$secret_key"}
innerClientAuthenticationCredentials={"accessKey":"$access_key","secretKey":"$secret_key"}
authorizationEnabled=true
authorizationProvider=$auth.authorization.provider.DefaultAuthorizationProvider
authorizationMetadataProvider=$auth.authorization.provider.LocalAuthorizationMetadataProvider
CONF
fi

if [[ $only != broker ]]; then
  launch namesrv 'Name Server boot success' "-Xms$namesrv_heap" "-Xmx$namesrv_heap" \
    -- org.apache.rocketmq.namesrv.NamesrvStartup -c "$run/conf/namesrv.conf"
fi
launch broker 'boot success' "-Xms$heap" "-Xmx$heap" -XX:MaxDirectMemorySize=2g -XX:-OmitStackTraceInFastThrow \
  -- org.apache.rocketmq.broker.BrokerStartup -c "$run/conf/broker.conf"
