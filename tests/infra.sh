#!/bin/sh
# Checks what is in infra/: the templates by cfn-lint and checkov, and by deploying them to moto, a simulation of AWS in process
# (tests/infra.py says what is looked at there).
#
# Needs python3 with venv, and cargo. The tools are kept in $TABLEKEEPER_CACHE, by default tablekeeper under the user's cache folder, and
# are fetched only once. They get a virtual environment each, because they want different versions of the same packages.
set -eu
cd "$(dirname "$0")/.."

cfn_lint=1.58.0
moto=5.2.5
checkov=3.3.30
cache=${TABLEKEEPER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tablekeeper}
tools=$cache/cfn-lint-$cfn_lint-moto-$moto
checker=$cache/checkov-$checkov

for tool in python3 cargo bash; do
    command -v "$tool" >/dev/null || { echo "infra.sh: $tool is not installed" >&2; exit 2; }
done

# environment FOLDER PROGRAM PACKAGE...: a virtual environment with these packages; one that was left half made is made anew.
environment() {
    folder=$1 program=$2
    shift 2
    [ -x "$folder/bin/$program" ] && [ -f "$folder/complete" ] && return
    rm -rf "$folder"
    mkdir -p "$cache"
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
    touch "$folder/complete"
}
environment "$tools" cfn-lint "cfn-lint==$cfn_lint" "moto[cloudformation]==$moto"
environment "$checker" checkov "checkov==$checkov"

cargo build --locked --quiet --bin tablekeeper
tablekeeper=${CARGO_TARGET_DIR:-$PWD/target}/debug/tablekeeper

rendered=$(mktemp -d)
trap 'rm -rf "$rendered"' EXIT
trap 'exit 130' INT TERM
for model in quality inspection skills; do
    "$tablekeeper" infra --model "$model" >"$rendered/$model.yaml"
    "$tablekeeper" infra --model "$model" --format json >"$rendered/$model.json"
done
cmp infra/template.yaml "$rendered/quality.yaml" || {
    echo "infra.sh: infra/template.yaml is not what the program prints for its model: tablekeeper infra --model quality > infra/template.yaml" >&2
    exit 1
}

# Whatever cfn-lint has to say, be it for information only, is a failure.
"$tools/bin/cfn-lint" --include-checks I --non-zero-exit-code informational -- infra/*.yaml "$rendered"/*.yaml "$rendered"/*.json
echo "cfn-lint: nothing to say of $(ls infra/*.yaml "$rendered"/*.yaml "$rendered"/*.json | wc -l) templates"

# Offline: it would look for descriptions of its checks in the network.
"$checker/bin/checkov" --directory infra --framework cloudformation dockerfile secrets --skip-download --compact --quiet --output json \
    >"$rendered/checkov.json" || { cat "$rendered/checkov.json"; exit 1; }
"$tools/bin/python" tests/infra.py "$rendered"
