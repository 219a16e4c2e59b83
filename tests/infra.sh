#!/bin/sh
# Checks what is in infra/: the templates by cfn-lint and checkov, and by deploying them to moto, a simulation of AWS in process
# (tests/infra.py says what is looked at there).
#
# Needs python3 with venv, and cargo; tests/tools.sh says where the tools are kept. checkov has a virtual environment of its own, because it
# wants other versions of the same packages.
set -eu
cd "$(dirname "$0")/.."
. tests/tools.sh

need python3 cargo bash
checkov=3.3.30
checker=$cache/checkov-$checkov
aws_tools
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
    echo "infra.sh: infra/template.yaml is not what the program prints for its model: tablekeeper infra --model quality --out infra/template.yaml" >&2
    exit 1
}

# Whatever cfn-lint has to say, be it for information only, is a failure.
"$aws_tools/bin/cfn-lint" --include-checks I --non-zero-exit-code informational -- infra/*.yaml "$rendered"/*.yaml "$rendered"/*.json
echo "cfn-lint: nothing to say of $(ls infra/*.yaml "$rendered"/*.yaml "$rendered"/*.json | wc -l) templates"

# Offline: it would look for descriptions of its checks in the network.
"$checker/bin/checkov" --directory infra --framework cloudformation dockerfile secrets --skip-download --compact --quiet --output json \
    >"$rendered/checkov.json" || { cat "$rendered/checkov.json"; exit 1; }
"$aws_tools/bin/python" tests/infra.py "$rendered"
