#!/usr/bin/env python3
"""What a stack of template.yaml costs by the month: the tables of README.md, from counted units and list prices.

    infra/cost.py                          at 1, 100 and 1,000 changes a second
    infra/cost.py --changes 20 --window 60 at other rates, batches collected for a minute
    infra/cost.py --price write_units=0.75 with another price; --prices lists them all

Prices are in US dollars, of us-east-1, on demand, without free tiers, as listed at the end of 2025. They differ by Region and change:
look them up, and give yours.
"""

import argparse
import json
import math
import pathlib

PRICES = {
    "write_units": (0.625, "a million write units of DynamoDB, on demand"),
    "read_units": (0.125, "a million read units of DynamoDB, on demand"),
    "table_storage": (0.25, "a GB of a table for a month"),
    "table_recovery": (0.20, "a GB of point-in-time recovery for a month"),
    "stream_reads": (0.20, "a million reads of a stream by a worker; those of a function cost nothing"),
    "invocations": (0.20, "a million invocations of a function"),
    "function_time": (13.3334, "a million GB-seconds of a function on arm64"),
    "worker_cpu": (0.03238, "a vCPU-hour of Fargate on arm64"),
    "worker_memory": (0.00356, "a GB-hour of Fargate on arm64"),
    "logs": (0.50, "a GB of logs taken in"),
    "alarm_metrics": (0.10, "a metric of an alarm for a month"),
    "own_metrics": (0.30, "a metric of our own for a month"),
    "key": (1.00, "a customer managed key for a month"),
    "key_requests": (3.00, "a million requests to a key"),
}

# Assumed, not measured.
SECONDS = 730 * 3600  # of a month
CHANGES_A_SHARD = 250  # a second; a stream has a shard for each partition of its table, and a partition takes 1,000 write units
ITEMS = 1_000_000
LEDGER_BYTES = 1024  # a row and its key, at most: each is written as one unit
MEMORY_GB = 0.25
MILLISECONDS = {"invocation": 2, "read": 10, "transaction": 25, "change": 0.2}  # of a function with that memory
LOG_BYTES = 3000  # an invocation: our line, that of the metrics, and Lambda's three
KEY_REQUESTS = 200_000  # a table's key is asked for every five minutes by each who uses it
ALARM_METRICS = 9  # of the stream function
OWN_METRICS = 16  # that it writes in each hour of a good day; seldom ones cost the hours in which they come
WORKER = {1: (0.25, 0.5), 100: (0.25, 0.5), 1000: (1.0, 2.0)}  # vCPU and GB up to so many changes a second

UNITS = json.loads((pathlib.Path(__file__).parent / "units.json").read_text())["batches"]


def units(size):
    """Units of 1,000 changes in batches of the given size: those of the nearest smaller size that was counted, which are more."""
    return max((row for row in UNITS if row["changes"] <= size), key=lambda row: row["changes"], default=UNITS[0])


def reckon(changes, window, price):
    shards = max(1, math.ceil(changes / CHANGES_A_SHARD))
    size = min(1000, max(1, changes / shards * window))
    counted = units(size)
    thousands = changes * SECONDS / 1000
    batches = changes / size * SECONDS
    requests = thousands * counted["requests"]
    transactions = thousands * counted["transactions"]
    milliseconds = (
        batches * MILLISECONDS["invocation"]
        # Reads of one batch go out ten at a time.
        + max(batches, (requests - transactions) / 10) * MILLISECONDS["read"]
        + transactions * MILLISECONDS["transaction"]
        + thousands * 1000 * MILLISECONDS["change"]
    )
    gigabytes = ITEMS * LEDGER_BYTES / 1e9
    million = 1e6
    write, read = thousands * counted["write_units"], thousands * counted["read_units"]
    tables = {
        "writes": write / million * price["write_units"],
        "reads": read / million * price["read_units"],
        "state table": gigabytes * (price["table_storage"] + price["table_recovery"]),
    }
    rest = {"key": price["key"] + KEY_REQUESTS / million * price["key_requests"], "alarms": ALARM_METRICS * price["alarm_metrics"]}
    gb_seconds = milliseconds / 1000 * MEMORY_GB
    function = {
        "invocations": batches / million * price["invocations"],
        "function time": gb_seconds / million * price["function_time"],
        "logs": batches * LOG_BYTES / 1e9 * price["logs"],
        "metrics": OWN_METRICS * price["own_metrics"],
    }
    cpu, memory = next((size for most, size in WORKER.items() if changes <= most), max(WORKER.values()))
    worker = {
        "Fargate": SECONDS / 3600 * (cpu * price["worker_cpu"] + memory * price["worker_memory"]),
        # Each shard is read once a second.
        "stream reads": shards * SECONDS / million * price["stream_reads"],
    }
    facts = {
        "shards": shards, "changes a batch": round(size), "batches": batches, "write units": write, "read units": read, "GB-seconds": gb_seconds,
    }
    return facts, tables, function, rest, worker


def table(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--changes", type=float, nargs="+", default=[1, 100, 1000], help="changes a second")
    arguments.add_argument("--window", type=float, default=5, help="BatchWindowSeconds")
    arguments.add_argument("--price", action="append", default=[], metavar="NAME=DOLLARS")
    arguments.add_argument("--prices", action="store_true", help="list the prices")
    given = arguments.parse_args()
    price = {name: dollars for name, (dollars, _) in PRICES.items()}
    for change in given.price:
        name, _, dollars = change.partition("=")
        if name not in price:
            arguments.error(f"no price `{name}`; there are {', '.join(price)}")
        price[name] = float(dollars)
    if given.prices:
        rows = [[f"`{name}`", f"{price[name]:g}", what] for name, (_, what) in PRICES.items()]
        print(table(["price", "dollars", "for"], rows))
        return
    reckoned = [reckon(changes, given.window, price) for changes in given.changes]
    head = ["changes a second"] + [f"{changes:,g}" for changes in given.changes]
    rows = []
    for fact in reckoned[0][0]:
        amounts = [facts[fact] for facts, *_ in reckoned]
        rows.append([fact] + [f"{amount / 1e6:,.1f} million" if amount >= 1e5 else f"{amount:,.0f}" for amount in amounts])
    print(table(head, rows))
    rows = []
    for group in (1, 2, 3):
        for name in reckoned[0][group]:
            rows.append([name] + [f"{of[group][name]:,.2f}" for of in reckoned])
    rows.append(["**with the function**"] + [f"**{sum(sum(of[group].values()) for group in (1, 2, 3)):,.2f}**" for of in reckoned])
    for name in reckoned[0][4]:
        rows.append([f"{name}, in place of the function"] + [f"{of[4][name]:,.2f}" for of in reckoned])
    rows.append(["**with a worker**"] + [f"**{sum(sum(of[group].values()) for group in (1, 3, 4)):,.2f}**" for of in reckoned])
    print()
    print(table(["dollars a month"] + head[1:], rows))


if __name__ == "__main__":
    main()
