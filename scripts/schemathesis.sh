#!/bin/sh
# Holds a running standalone against openapi.yaml with schemathesis: a fresh data
# folder on free ports, the owner of a fresh tenant, hostile requests for a
# bounded time. Fails on an answer that the contract does not know and on every
# answer of 5xx. Its environment lies in .cache/schemathesis; the tool is pinned.
#
#   scripts/schemathesis.sh [more options of schemathesis run]
#
# SCHEMATHESIS_SECONDS bounds the run (default 120), SEED repeats one.
set -eu

cd "$(dirname "$0")/.."
version=4.32.5
seconds=${SCHEMATHESIS_SECONDS:-120}
venv=.cache/schemathesis-$version

if ! [ -x "$venv/bin/schemathesis" ]; then
	echo "schemathesis: installing $version, once" >&2
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet "schemathesis==$version"
fi
[ -x bin/sluice ] || { echo "schemathesis: build first: make build" >&2; exit 2; }

dir=$(mktemp -d "${TMPDIR:-/tmp}/sluice-schemathesis.XXXXXX")
server=""
stop() {
	[ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

bin/sluice standalone --data "$dir/data" --ready-file "$dir/ready" --http 127.0.0.1:0 --admin 127.0.0.1:0 \
	--namesrv 127.0.0.1:0 --broker 127.0.0.1:0 --grpc 127.0.0.1:0 >"$dir/log" 2>&1 &
server=$!
waited=0
until [ -s "$dir/ready" ]; do
	kill -0 "$server" 2>/dev/null && [ "$waited" -lt 600 ] || { cat "$dir/log" >&2; exit 2; }
	waited=$((waited + 1))
	sleep 0.1
done

# The account that a person makes: sign up, read the mail, enter the code.
python3 - "$dir" >"$dir/account" <<'PYTHON'
import base64, glob, json, re, sys, time, urllib.request
dir = sys.argv[1]
ready = json.load(open(dir + "/ready"))
base = "http://" + (ready.get("http") or ready["HTTP"])
def post(path, body, **headers):
    request = urllib.request.Request(base + path, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    return json.load(urllib.request.urlopen(request))
mail = "schemathesis@example.com"
post("/v1/auth/sign-up", {"email": mail, "password": "a password of some length", "tenant_name": "Schemathesis"})
for _ in range(300):
    texts = [open(f).read() for f in glob.glob(dir + "/data/mail/*.eml")]
    codes = [m.group(1) for m in (re.search(r"\b(\d{6})\b", t) for t in texts) if m]
    if codes:
        break
    time.sleep(0.1)
verified = post("/v1/auth/verify", {"email": mail, "code": codes[0]})
token = "Bearer " + verified["access_token"]
key = post("/v1/api-keys", {"name": "schemathesis", "control_role": "admin", "scopes": [{"namespace_id": verified["namespace_id"], "permissions": ["PUB", "SUB"]}]},
    Authorization=token)
print(base)
print(token)
print("Basic " + base64.b64encode((key["id"] + ":" + key["secret"]).encode()).decode())
PYTHON
{ read -r base; read -r token; read -r key; } <"$dir/account"

# call AUTHORIZATION OPTIONS...: what ends the caller's session is left out, and
# what does not end.
call() {
	authorization=$1
	shift
	timeout --signal=INT "$((seconds + 30))" "$venv/bin/schemathesis" run controlplane/api/openapi.yaml --url "$base" \
		--header "Authorization: $authorization" --max-time "$((seconds / 2))" --rate-limit 80/s --continue-on-failure ${SEED:+--seed "$SEED"} \
		--checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
		--exclude-operation-id signOut --exclude-operation-id endSession \
		--exclude-operation-id endOtherSessions --exclude-operation-id leaveTenant --exclude-operation-id tailMessages "$@"
}

code=0
echo "schemathesis: what belongs to a tenant, by a key" >&2
call "$key" --exclude-tag auth --exclude-tag account "$@" || code=$?
echo "schemathesis: sign-in and accounts, by a person" >&2
call "$token" --include-tag auth --include-tag account "$@" || code=$?
if [ "$code" -ne 0 ]; then
	grep -E 'level=(ERROR|WARN)' "$dir/log" | tail -20 >&2 || true
fi
exit "$code"
