#!/bin/sh
# Runs a command with the services that tests need: a MariaDB and a Redis of
# its own on free ports in a temporary folder, a Chromium, a terraform, and the
# tools that client programs in Java and Python are built with. Missing Debian
# packages are installed when this runs as root; a missing terraform, which
# Debian does not have, is built from its Go module into .cache, once. Ends with
# the command's exit code and stops only what it started.
#
#   scripts/test-services.sh go test ./...
#
# SERVICES picks: "mariadb redis chromium java python terraform" (default), or
# fewer.
set -eu

SERVICES=${SERVICES:-"mariadb redis chromium java python terraform"}
# The oldest that the provider supports, so that it stays supported.
terraform_version=1.5.7

want() { case " $SERVICES " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }

# quietly COMMAND...: what it prints is shown only when it fails, which ends all.
quietly() {
	log=$(mktemp)
	if ! "$@" >"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		exit 2
	fi
	rm -f "$log"
}

missing=""
if want mariadb && ! command -v mariadbd >/dev/null 2>&1; then missing="$missing mariadb-server"; fi
if want redis && ! command -v redis-server >/dev/null 2>&1; then missing="$missing redis-server"; fi
if want chromium && ! command -v chromium >/dev/null 2>&1; then missing="$missing chromium"; fi
if want java && ! command -v mvn >/dev/null 2>&1; then missing="$missing default-jdk-headless maven"; fi
if want python && ! python3 -c 'import venv, ensurepip' >/dev/null 2>&1; then missing="$missing python3-venv"; fi
if [ -n "$missing" ]; then
	if [ "$(id -u)" != 0 ]; then
		echo "test-services: install these packages first:$missing" >&2
		exit 2
	fi
	quietly apt-get -o DPkg::Lock::Timeout=300 update
	# shellcheck disable=SC2086
	quietly env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing
fi

if want terraform && [ -z "${TF_ACC_TERRAFORM_PATH:-}" ]; then
	bin=$(cd "$(dirname "$0")/.." && pwd)/.cache/terraform-$terraform_version
	TF_ACC_TERRAFORM_PATH=$(command -v terraform || echo "$bin/terraform")
	export TF_ACC_TERRAFORM_PATH
	if ! [ -x "$TF_ACC_TERRAFORM_PATH" ]; then
		echo "test-services: no terraform on the PATH: building $terraform_version, once; it takes some minutes" >&2
		quietly env GOBIN="$bin" go install -trimpath "github.com/hashicorp/terraform@v$terraform_version"
	fi
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/sluice-services.XXXXXX")
mariadb_pid="" redis_pid="" command_pid=""

cleanup() {
	trap - EXIT INT TERM HUP
	for pid in $command_pid $mariadb_pid $redis_pid; do kill "$pid" 2>/dev/null || true; done
	for pid in $mariadb_pid $redis_pid; do wait "$pid" 2>/dev/null || true; done
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'cleanup; exit 130' INT
trap 'cleanup; exit 143' TERM HUP

free_port() {
	python3 - 2>/dev/null <<-'PY' || perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen=>1,LocalAddr=>"127.0.0.1")->sockport'
	import socket
	s = socket.socket()
	s.bind(("127.0.0.1", 0))
	print(s.getsockname()[1])
	PY
}

# ready NAME PID LOG COMMAND...: waits until the command succeeds.
ready() {
	name=$1 pid=$2 log=$3
	shift 3
	tries=0
	until "$@" >/dev/null 2>&1; do
		tries=$((tries + 1))
		if [ "$tries" -gt 300 ] || ! kill -0 "$pid" 2>/dev/null; then
			echo "test-services: $name did not start" >&2
			tail -20 "$log" >&2
			exit 2
		fi
		sleep 0.1
	done
}

if want mariadb; then
	user=$(id -un)
	if [ "$user" = root ]; then
		user=mysql
		chown mysql "$dir"
	fi
	chmod 755 "$dir"
	mkdir "$dir/mariadb"
	chown "$user" "$dir/mariadb"
	mariadb-install-db --no-defaults --user="$user" --datadir="$dir/mariadb" --auth-root-authentication-method=normal --skip-test-db >"$dir/install.log" 2>&1 || { cat "$dir/install.log" >&2; exit 2; }
	port=$(free_port)
	mariadbd --no-defaults --user="$user" --datadir="$dir/mariadb" --bind-address=127.0.0.1 --port="$port" \
		--socket="$dir/mariadb/s" --pid-file="$dir/mariadb/pid" --innodb-flush-log-at-trx-commit=0 --sync-binlog=0 \
		--skip-log-bin --innodb-buffer-pool-size=64M --max-connections=300 >"$dir/mariadb.log" 2>&1 &
	mariadb_pid=$!
	ready MariaDB "$mariadb_pid" "$dir/mariadb.log" mariadb --no-defaults --protocol=socket --socket="$dir/mariadb/s" -u root -e 'SELECT 1'
	mariadb --no-defaults --protocol=socket --socket="$dir/mariadb/s" -u root \
		-e "ALTER USER 'root'@'localhost' IDENTIFIED BY 'sluice'; CREATE OR REPLACE USER 'root'@'127.0.0.1' IDENTIFIED BY 'sluice'; GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;"
	SLUICE_TEST_MYSQL="mysql://root:sluice@127.0.0.1:$port/"
	export SLUICE_TEST_MYSQL
fi

if want redis; then
	port=$(free_port)
	redis-server --bind 127.0.0.1 --port "$port" --save '' --appendonly no --dir "$dir" >"$dir/redis.log" 2>&1 &
	redis_pid=$!
	ready Redis "$redis_pid" "$dir/redis.log" redis-cli -h 127.0.0.1 -p "$port" ping
	SLUICE_TEST_REDIS="redis://127.0.0.1:$port"
	export SLUICE_TEST_REDIS
fi

if want chromium; then
	SLUICE_TEST_CHROMIUM=$(command -v chromium)
	export SLUICE_TEST_CHROMIUM
fi

if [ $# = 0 ]; then
	for name in SLUICE_TEST_MYSQL SLUICE_TEST_REDIS SLUICE_TEST_CHROMIUM TF_ACC_TERRAFORM_PATH; do
		eval "value=\${$name:-}"
		[ -z "$value" ] || echo "export $name='$value'"
	done
	echo "# services run until this process ends"
	while :; do
		sleep 3600 &
		command_pid=$!
		wait "$command_pid" || true
	done
fi

"$@" &
command_pid=$!
code=0
wait "$command_pid" || code=$?
command_pid=""
exit "$code"
