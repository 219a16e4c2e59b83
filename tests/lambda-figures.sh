#!/bin/sh
# Prints what the stream function weighs as it is deployed, and what a start of it costs beside the least function in Rust
# (tests/figures/hello.rs) and one in Python that does the same job (tests/figures/handler.py), all in one run on one database in process, which is a
# release build as they are: it answers in their time.
#
# Fails if the package is too large; times are for people to look at, on a machine that does nothing else. Needs cargo and python3 with venv;
# tests/tools.sh says where boto3 is kept.
set -eu
cd "$(dirname "$0")/.."
. tests/tools.sh

need python3 cargo
boto3=1.44.8
package_bytes_max=8000000
sdk=$cache/boto3-$boto3
environment "$sdk" python "boto3==$boto3"

cargo build --locked --profile lambda --no-default-features --features lambda --bin lambda-stream --example hello
built=${CARGO_TARGET_DIR:-$PWD/target}/lambda

package=$(mktemp -d)
trap 'rm -rf "$package"' EXIT
trap 'exit 130' INT TERM
cp "$built/lambda-stream" "$package/bootstrap"
(cd "$package" && python3 -m zipfile -c bootstrap.zip bootstrap)
bytes=$(wc -c <"$package/bootstrap.zip")
echo "package of lambda-stream: $bytes bytes zipped, $(wc -c <"$package/bootstrap") stripped ($(uname -m))"
if [ "$bytes" -ge "$package_bytes_max" ]; then
    echo "lambda-figures.sh: the package must stay below $package_bytes_max bytes" >&2
    exit 1
fi

python3 --version
TABLEKEEPER_FIGURES_STREAM=$built/lambda-stream TABLEKEEPER_FIGURES_HELLO=$built/examples/hello \
    TABLEKEEPER_FIGURES_PYTHON=$sdk/bin/python cargo test --locked --release --test it lambda::figures -- --nocapture
