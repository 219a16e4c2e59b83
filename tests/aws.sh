#!/bin/sh
# Runs the integration tests that need other services of AWS than DynamoDB (buckets, queues) on moto's server, a simulation of AWS.
#
# Arguments are the tests to run, by default those of redrive. Needs cargo and python3 with venv; tests/tools.sh says where the tools are kept.
set -eu
cd "$(dirname "$0")/.."
. tests/tools.sh

need python3 cargo
aws_tools

log=$(mktemp)
server=""
trap 'kill $server 2>/dev/null || true; rm -f "$log"' EXIT
trap 'exit 130' INT TERM
port=$(free_port)
"$aws_tools/bin/moto_server" -H 127.0.0.1 -p "$port" >"$log" 2>&1 &
server=$!
listening "$port" "$server" "$log" "moto"

[ $# -gt 0 ] || set -- redrive
TABLEKEEPER_AWS=http://127.0.0.1:$port cargo test --locked --test it -- "$@"
