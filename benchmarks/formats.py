"""Archived events of other tools than Debezium for MySQL into the last state of each key, beside Spark counting the same files.

Files of JSON lines with 12 columns, five events a key, for each format, read in one warm process.
Processor time is that of the whole process and of Spark's Python workers.
"""

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from benchmarks._harness import BENCH, report
from benchmarks.events import PER_KEY, landed, paths, scanned, schema, session
from cdc_ops.core.events.format_spec import FormatOptions

SETTINGS: Final = {
    "maxwell": FormatOptions(
        name="maxwell",
        settings={"output_binlog_position": "true", "output_xoffset": "true", "ignore_producer_error": "false"},
        accept_losses=("truncate=dropped", "fractions=cut"),
        time_zone="UTC",
    ),
    "canal": FormatOptions(name="canal", time_zone="UTC"),
}


def row_of(key: int, version: int) -> dict[str, Any]:
    """Returns a row of the table, with values as the server prints them."""
    return {
        "id": key,
        "customer_id": key * 31 % 200_000,
        "status": ("new", "paid", "shipped", "delivered", "returned")[(key + version) % 5],
        "total": f"{5 + (key * 17 + version) % 50_000}.{key % 100:02}",
        "currency": ("EUR", "USD", "GBP")[key % 3],
        "quantity": key % 100 + version,
        "weight": key % 4000 / 8,
        "note": None if key % 4 == 0 else f"parcel {key}, ring twice, leave at the Tür: {key * 13 + version}",
        "express": int(key % 10 == 0),
        "ordered_on": f"2026-{1 + key % 12:02}-{1 + key % 28:02}",
        "created_at": f"2026-01-{1 + key % 28:02} {key % 24:02}:{key % 60:02}:00",
        "updated_at": f"2026-01-{1 + key % 28:02} {key % 24:02}:{key % 60:02}:{version:02}.{key % 1_000_000:06}",
    }


def of_maxwell(number: int, kind: str, row: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Returns an event as Maxwell writes it."""
    head = {"database": "shop", "table": "orders", "type": kind, "ts": 1767225600 + number // 1000, "xid": number, "xoffset": 0}
    image = {"data": {**row, "total": float(row["total"])}}
    return {**head, "position": f"mysql-bin.000001:{4 + number * 400}", **image, **({"old": old} if old else {})}


def of_canal(number: int, kind: str, row: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Returns a message as Canal writes it."""
    data, former = ({name: None if value is None else str(value) for name, value in one.items()} for one in (row, old))
    head = {"id": number, "database": "shop", "table": "orders", "pkNames": ["id"], "isDdl": False, "type": kind.upper()}
    moment = 1767225600000 + number
    return {**head, "es": moment, "ts": moment + 100, "sql": "", "data": [data], "old": [former] if old else None, "gtid": ""}


WRITERS: Final[dict[str, Callable[[int, str, dict[str, Any], dict[str, Any]], dict[str, Any]]]] = {"maxwell": of_maxwell, "canal": of_canal}


def ensure_files(folder: Path, name: str, events: int) -> None:
    """Writes two files of a format, unless they are there."""
    if folder.exists():
        return
    work, keys = folder.with_suffix(".work"), events // PER_KEY
    shutil.rmtree(work, ignore_errors=True)
    (work / "partition=0").mkdir(parents=True)
    for half in range(2):
        first, last = events * half // 2, events * (half + 1) // 2
        with (work / "partition=0" / f"orders+0+{first:010}.json").open("w", encoding="utf-8") as file:
            for number in range(first, last):
                version, key = divmod(number, keys)
                kind = "insert" if version == 0 else "delete" if version == PER_KEY - 1 and key % 10 == 0 else "update"
                old = {"status": row_of(key, version - 1)["status"]} if kind == "update" else {}
                file.write(json.dumps(WRITERS[name](number, kind, row_of(key, version), old), ensure_ascii=False) + "\n")
    work.rename(folder)


def count(spark: SparkSession, folder: Path, name: str) -> None:
    """Counts the records."""
    spark.read.json(paths(folder)).count()


def last_states(spark: SparkSession, folder: Path, name: str) -> None:
    """Writes the last state of each key."""
    place = folder.with_suffix(".states")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    landed(spark, scanned(spark, folder, SETTINGS[name]), str(place))


def measured(spark: SparkSession, work: Callable[[SparkSession, Path, str], None], folder: Path, name: str) -> tuple[float, float]:
    """Returns the seconds, and those of the processor, that something takes."""
    before, begun = _processor(), time.monotonic()
    work(spark, folder, name)
    return time.monotonic() - begun, _processor() - before


def _processor() -> float:
    """Returns the processor time of this process and of all that it has begun, in seconds."""
    total, mine = 0.0, {os.getpid()}
    ticks = os.sysconf("SC_CLK_TCK")
    parents = {int(path.name): (path / "stat").read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*")}
    while more := {pid for pid, fields in parents.items() if int(fields[1]) in mine and pid not in mine}:
        mine |= more
    for pid in mine:
        total += sum(int(value) for value in parents[pid][11:15]) / ticks
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--memory", default="3g", help="heap of Spark's driver")
    parser.add_argument("--only", nargs="*", choices=SETTINGS, default=[*SETTINGS], help="which formats are measured")
    options = parser.parse_args()
    BENCH.mkdir(parents=True, exist_ok=True)
    assert schema().primary_key == ("id",)
    spark, lines = session(options.memory), []
    for name in options.only:
        folder = BENCH / f"{name}_{options.events}"
        ensure_files(folder, name, options.events)
        found = {}
        for title, task in (("count", count), ("last states", last_states)):
            found[title] = min(measured(spark, task, folder, name) for _ in range(options.rounds))
        for title, (seconds, processor) in found.items():
            lines.append(f"{name}, {title}: {seconds:.1f} s, {options.events / seconds:,.0f} events/s; processor {processor:.1f} s")
    spark.stop()
    report(f"{options.events:,} events of {options.events // PER_KEY:,} keys, files -> last states", lines)


if __name__ == "__main__":
    main()
