#!/bin/sh
# Prints what the stream function weighs as it is deployed, and what a start of it costs beside the least function in Rust
# (tests/figures/hello.rs) and one in Python that does the same job (tests/figures/handler.py), all in one run on one database in process.
#
# Fails if the package is too large; times are for people to look at, on a machine that does nothing else. Needs python3 with venv; boto3 is
# kept in $TABLEKEEPER_CACHE, by default tablekeeper under the user's cache folder, and is fetched only once.
set -eu
cd "$(dirname "$0")/.."

boto3=1.44.8
package_bytes_max=8000000
cache=${TABLEKEEPER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tablekeeper}/boto3-$boto3

for tool in python3 cargo; do
    command -v "$tool" >/dev/null || { echo "lambda-figures.sh: $tool is not installed" >&2; exit 2; }
done
if [ ! -f "$cache/complete" ]; then
    rm -rf "$cache"
    mkdir -p "$(dirname "$cache")"
    python3 -m venv "$cache"
    "$cache/bin/pip" install --quiet --disable-pip-version-check "boto3==$boto3"
    touch "$cache/complete"
fi

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
    TABLEKEEPER_FIGURES_PYTHON=$cache/bin/python cargo test --locked --test it lambda::figures -- --nocapture
