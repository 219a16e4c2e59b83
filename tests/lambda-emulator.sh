#!/bin/sh
# Runs the Lambda functions under cargo-lambda's emulated Runtime API: tests/it/lambda.rs plays the event source mapping, tests/it/schedule.rs
# the clock. SNS, SQS and S3 are moto's, a simulation of AWS.
#
# Needs python3 with venv; tests/tools.sh says where the tools are kept.
set -eu
cd "$(dirname "$0")/.."
. tests/tools.sh

need python3 cargo
cargo_lambda=1.9.2
emulators=$cache/cargo-lambda-$cargo_lambda
environment "$emulators" cargo-lambda "cargo-lambda==$cargo_lambda"
aws_tools

cargo build --no-default-features --features lambda --bin lambda-stream
# With the default features, which the tests are built with, too: nothing is compiled twice.
cargo build --features schedule --bin lambda-schedule
built=${CARGO_TARGET_DIR:-$PWD/target}/debug

logs=$(mktemp -d)
emulator="" aws=""
trap 'kill $emulator $aws 2>/dev/null || true; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM
emulator_port=$(free_port)
"$emulators/bin/cargo-lambda" lambda watch --only-lambda-apis --concurrency 2 --invoke-address 127.0.0.1 --invoke-port "$emulator_port" \
    >"$logs/emulator" 2>&1 &
emulator=$!
listening "$emulator_port" "$emulator" "$logs/emulator" "the emulator"
aws_port=$(free_port)
"$aws_tools/bin/moto_server" -H 127.0.0.1 -p "$aws_port" >"$logs/aws" 2>&1 &
aws=$!
listening "$aws_port" "$aws" "$logs/aws" "moto"

TABLEKEEPER_LAMBDA_EMULATOR=127.0.0.1:$emulator_port TABLEKEEPER_LAMBDA_BINARY=$built/lambda-stream \
    TABLEKEEPER_SCHEDULE_BINARY=$built/lambda-schedule TABLEKEEPER_AWS=http://127.0.0.1:$aws_port cargo test --test it -- lambda:: schedule::
