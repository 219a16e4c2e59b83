#!/bin/sh
# Runs the integration tests that need other services of AWS than DynamoDB (buckets, queues) on moto's server, a simulation of AWS.
#
# Arguments are the tests to run, by default those of redrive. Needs cargo and python3 with venv. moto is kept in $TABLEKEEPER_CACHE,
# by default tablekeeper under the user's cache folder, and is fetched only once.
set -eu
cd "$(dirname "$0")/.."

moto=5.2.5
# What its server is made of; its own list of that for all of AWS is twice as large.
flask=3.1.3
flask_cors=6.0.5
cache=${TABLEKEEPER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tablekeeper}
tools=$cache/moto-server-$moto

for tool in python3 cargo; do
    command -v "$tool" >/dev/null || { echo "aws.sh: $tool is not installed" >&2; exit 2; }
done
# One that was left half made is made anew.
if [ ! -x "$tools/bin/moto_server" ] || [ ! -f "$tools/complete" ]; then
    rm -rf "$tools"
    mkdir -p "$cache"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check "moto[s3]==$moto" "flask==$flask" "flask-cors==$flask_cors"
    touch "$tools/complete"
fi

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
log=$cache/moto-server-$port.log
"$tools/bin/moto_server" --host 127.0.0.1 --port "$port" >"$log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -f "$log"' EXIT
trap 'exit 130' INT TERM

tries=0
until python3 -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)" 2>/dev/null; do
    tries=$((tries + 1))
    if [ "$tries" -gt 120 ] || ! kill -0 "$server" 2>/dev/null; then
        echo "aws.sh: moto does not start; its log:" >&2
        cat "$log" >&2
        exit 2
    fi
    sleep 0.5
done

[ $# -gt 0 ] || set -- redrive
TABLEKEEPER_AWS=http://127.0.0.1:$port cargo test --locked --test it -- "$@"
