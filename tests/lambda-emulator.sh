#!/bin/sh
# Runs the Lambda function under cargo-lambda's emulated Runtime API: tests/it/lambda.rs plays the event source mapping.
#
# Needs python3 with venv. cargo-lambda is kept in $TABLEKEEPER_CACHE, by default tablekeeper under the user's cache folder, and is
# fetched only once.
set -eu
cd "$(dirname "$0")/.."

version=1.9.2
cache=${TABLEKEEPER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tablekeeper}/cargo-lambda-$version

for tool in python3 cargo; do
    command -v "$tool" >/dev/null || { echo "lambda-emulator.sh: $tool is not installed" >&2; exit 2; }
done
if [ ! -x "$cache/bin/cargo-lambda" ]; then
    mkdir -p "$(dirname "$cache")"
    python3 -m venv "$cache"
    "$cache/bin/pip" install --quiet "cargo-lambda==$version"
fi

cargo build --no-default-features --features lambda --bin lambda-stream
binary=${CARGO_TARGET_DIR:-$PWD/target}/debug/lambda-stream

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
log=$cache/emulator.log
"$cache/bin/cargo-lambda" lambda watch --only-lambda-apis --invoke-address 127.0.0.1 --invoke-port "$port" >"$log" 2>&1 &
emulator=$!
trap 'kill "$emulator" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM

tries=0
until python3 -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)" 2>/dev/null; do
    tries=$((tries + 1))
    if [ "$tries" -gt 60 ] || ! kill -0 "$emulator" 2>/dev/null; then
        echo "lambda-emulator.sh: the emulator does not start; its log, $log:" >&2
        cat "$log" >&2
        exit 2
    fi
    sleep 0.5
done

TABLEKEEPER_LAMBDA_EMULATOR=127.0.0.1:$port TABLEKEEPER_LAMBDA_BINARY=$binary cargo test --test it lambda::
