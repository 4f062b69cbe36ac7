"""Archived Debezium events into a Delta table's rows, beside Spark counting the same JSON files.

Files of JSON lines, named as Kafka Connect's sink names them, of one partition; without schemas; five events a key: an insert, updates, and
at the end of every tenth key a delete. Four things are timed, each in a process of its own:

    count   Spark counts the files: `spark.read.json(files).count()`
    bare    a job as one writes it by hand: the values by their types, the last event of each key, written as Delta; nothing is checked
    states  what `bare` does, with lines counted and numbered, and each value read exactly or its record refused: tasks read the files, fold
            what they hold and write the table's files
    run     a whole run of a pipeline: listing, proof of completeness, events landed and folded, MERGE, ledger
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks._harness import BENCH, LOCAL, ROOT, Measured, Series, report, run
from benchmarks._pipeline_run import run_described
from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.operation.log_batch import LOG_COLUMNS, PRESENT
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.schema.server_types.mysql_types import mysql_mapping
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.events.fold import FoldRules
from cdc_ops.events.registry import spec_of
from cdc_ops.events.scan.request import FileTask, ScannedArchive, TableTask
from cdc_ops.lake.data_files.commit import commit_files
from cdc_ops.lake.spark import jars
from cdc_ops.lake.spark.session import build_session
from cdc_ops.lake.table.create import ensure_table
from cdc_ops.steps.log.land_folds import FoldTask, LandedBucket, fold_buckets
from cdc_ops.steps.log.scanned_files import ScannedTable, buckets_of, scan_tables
from tests.lake_case import Case

PARTS: Final = {
    "count": "spark.read.json(files).count()",
    "bare": "by hand, nothing checked",
    "states": "files -> last states in Delta",
    "run": "whole run of a pipeline",
}
CHECK: Final = "check"
"""What looks at the table of `states`, unmeasured."""
PER_KEY: Final = 5
FILE_BYTES: Final = 75_000_000
EVENT_BYTES: Final = 830
DECLARED: Final = {
    "id": "bigint unsigned",
    "customer_id": "int",
    "status": "varchar(12)",
    "total": "decimal(12,2)",
    "currency": "char(3)",
    "quantity": "smallint",
    "weight": "double",
    "note": "varchar(80)",
    "express": "tinyint",
    "ordered_on": "date",
    "created_at": "datetime",
    "updated_at": "datetime(6)",
}
CHOSEN: Final = FormatOptions(
    name="debezium-mysql",
    settings={
        "skipped.operations": "none",
        "event.converting.failure.handling.mode": "fail",
        "enable.time.adjuster": "false",
        "converter.replace.null.with.default": "false",
        "decimal.handling.mode": "string",
        "schemas.enable": "false",
        "time.precision.mode": "adaptive_time_microseconds",
        "binary.handling.mode": "bytes",
    },
    accept_losses=("schemas.enable=false",),
)
# A row as event `v` of key `k` leaves it.
_ROW: Final = """named_struct(
  'id', k, 'customer_id', hash(k) % 200000,
  'status', elt(CAST(1 + (k + {v}) % 5 AS INT), 'new', 'paid', 'shipped', 'delivered', 'returned'),
  'total', CAST(CAST(5 + (hash(k) % 50000 + {v}) / 100 AS DECIMAL(12, 2)) AS STRING),
  'currency', elt(CAST(1 + k % 3 AS INT), 'EUR', 'USD', 'GBP'),
  'quantity', k % 100 + {v}, 'weight', (k % 4000) / 8,
  'note', if(k % 4 = 0, NULL, concat('parcel ', k, ', ring twice, leave at the Tür: ', hash(k, {v}))), 'express', CAST(k % 10 = 0 AS INT),
  'ordered_on', 20454 + k % 200, 'created_at', 1767225600000 + k * 1000, 'updated_at', 1767225600000000 + k * 4000001 + {v} * 7000003)"""
_EVENTS: Final = """
SELECT to_json(named_struct(
  'before', if(op = 'c', NULL, {before}), 'after', if(op = 'd', NULL, {after}),
  'source', named_struct('version', '3.6.1.Final', 'connector', 'mysql', 'name', 'shop', 'ts_ms', 1767225600000 + n, 'snapshot', 'false',
    'db', 'shop', 'sequence', CAST(NULL AS STRING), 'table', 'orders', 'server_id', 1, 'gtid', CAST(NULL AS STRING),
    'file', concat('mysql-bin.', lpad(CAST(1 + n DIV 1000000 AS STRING), 6, '0')), 'pos', 4 + n % 1000000 * 400, 'row', 0, 'thread', 42),
  'op', op, 'ts_ms', 1767225600100 + n, 'transaction', CAST(NULL AS STRING)), map('ignoreNullFields', 'false')) AS value
FROM (SELECT *, CASE WHEN v = 0 THEN 'c' WHEN v = {last} AND k % 10 = 0 THEN 'd' ELSE 'u' END AS op
      FROM (SELECT id AS n, id DIV {keys} AS v, (id * 7919) % {keys} AS k FROM range(0, {events}, 1, {files})))"""


def schema() -> TableSchema:
    """Returns the table of the events."""
    columns = []
    for name, declared in DECLARED.items():
        mapping = mysql_mapping(declared)
        assert mapping is not None
        columns.append(Column(name=name, source_type=declared, delta_type=mapping.delta_type, nullable=name == "note", expression=name))
    return TableSchema(table=TableName(schema="shop", name="orders"), columns=tuple(columns), primary_key=("id",))


def session(memory: str) -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = {"spark.master": "local[2]", "spark.driver.memory": memory}
    return build_session("cdc-ops events", jars=jars.jar_list(LOCAL / "jars"), extra_conf=conf)


def ensure_files(folder: Path, events: int) -> None:
    """Writes the files, unless they are there."""
    if folder.exists():
        return
    print(f"writing {events:,} events ...", flush=True)
    spark, files = session("2g"), max(2, events * EVENT_BYTES // FILE_BYTES)
    images = {"before": _ROW.format(v="(v - 1)"), "after": _ROW.format(v="v")}
    rows = _EVENTS.format(**images, last=PER_KEY - 1, keys=events // PER_KEY, events=events, files=files)
    work = folder.with_suffix(".work")
    spark.sql(rows).write.mode("overwrite").text(str(work))
    (work / "partition=0").mkdir()
    offset = 0
    for number, part in enumerate(sorted(work.glob("part-*"))):
        part.rename(work / "partition=0" / f"orders+0+{offset:010}.json")
        offset = events * (number + 1) // files
    for rest in (*work.glob("_*"), *work.glob(".*")):
        rest.unlink()
    work.rename(folder)
    spark.stop()


def file_tasks(folder: Path) -> list[FileTask]:
    found = []
    for path in sorted(folder.glob("partition=0/*.json")):
        start = int(path.stem.rpartition("+")[2])
        found.append(FileTask(path=f"partition=0/{path.name}", size=path.stat().st_size, partition=0, start_offset=start))
    return found


def paths(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.glob("partition=0/*.json"))]


def count_json(spark: SparkSession, folder: Path) -> int:
    return spark.read.json(paths(folder)).count()


def scanned(spark: SparkSession, folder: Path, chosen: FormatOptions = CHOSEN) -> ScannedTable:
    """Reads the files by tasks, and checks that none is missing."""
    files, table, place = file_tasks(folder), schema(), folder.with_suffix(".changes")
    shutil.rmtree(place, ignore_errors=True)
    task = TableTask(
        archive=ScannedArchive(url=str(folder), options=(), format=chosen),
        schema=table,
        keys=table.primary_key,
        changes=str(place / "changes"),
        feed=str(place / "feed"),
        buckets=buckets_of(sum(file.size for file in files)),
    )
    [found] = scan_tables(spark, (task,), [files])
    for file, following in pairwise(files):
        assert (file.start_offset or 0) + found.facts[file.path].lines == following.start_offset, file
    assert not any(facts.found.bad for facts in found.facts.values())
    return found


def operation_of(folder: Path) -> Operation:
    """Returns the operation whose table is filled."""
    return Case(root=str(folder.with_suffix(".lake"))).operation(1, ApplyMode.APPEND, schema=schema().extended(LOG_COLUMNS))


def landed(spark: SparkSession, found: ScannedTable, place: str) -> list[LandedBucket]:
    """Has tasks fold what was read, and write it."""
    rules = FoldRules(schema=schema(), keys=schema().primary_key, order=spec_of(found.task.archive.format).order)
    task = FoldTask(rules=rules, changes=found.task.changes, folder=place, codec="snappy")
    return fold_buckets(spark, task, [part for facts in found.facts.values() for part in facts.found.changes])


def states(spark: SparkSession, folder: Path, events: int) -> None:
    """Has tasks write the last states as data files of a table, and commits them; `check_states` looks at them."""
    shutil.rmtree(folder.with_suffix(".lake"), ignore_errors=True)
    found, operation = scanned(spark, folder), operation_of(folder)
    ensure_table(spark, operation)
    answers = landed(spark, found, operation.target.path)
    assert not any(answer.tied for answer in answers), answers
    assert commit_files(spark, operation, [answer.file for answer in answers if answer.file], "{}") is not None


def check_states(spark: SparkSession, folder: Path, events: int) -> None:
    """Checks what was written: in a process of its own, which is not measured."""
    table, keys = spark.read.format("delta").load(operation_of(folder).target.path), events // PER_KEY
    seen = tuple(table.agg(F.count("*"), F.count_if(DELETE_MARK), F.count(PRESENT), F.count_distinct("id")).collect()[0])
    assert seen == (keys, (keys + 9) // 10, 0, keys), seen


_BARE: Final = """op string, before struct<id: bigint>,
  after struct<id: bigint, customer_id: int, status: string, total: string, currency: string, quantity: smallint, weight: double,
    note: string, express: tinyint, ordered_on: int, created_at: bigint, updated_at: bigint>,
  source struct<db: string, table: string, file: string, pos: bigint, row: bigint>"""
_BARE_ROW: Final = """named_struct('customer_id', after.customer_id, 'status', after.status, 'total', CAST(after.total AS DECIMAL(12,2)),
  'currency', after.currency, 'quantity', after.quantity, 'weight', after.weight, 'note', after.note, 'express', after.express,
  'ordered_on', date_from_unix_date(after.ordered_on), 'created_at', CAST(timestamp_millis(after.created_at) AS TIMESTAMP_NTZ),
  'updated_at', CAST(timestamp_micros(after.updated_at) AS TIMESTAMP_NTZ))"""


def bare(spark: SparkSession, folder: Path, events: int) -> None:
    """Writes the last states with as little as Spark can do it with, and checks how many there are."""
    lake = folder.with_suffix(".bare")
    shutil.rmtree(lake, ignore_errors=True)
    read = spark.read.schema(_BARE).json(paths(folder)).where("source.db = 'shop' AND source.table = 'orders'")
    key = F.coalesce("after.id", "before.id").alias("id")
    place = F.struct(F.regexp_extract("source.file", r"(\d+)$", 1).cast("bigint").alias("file_no"), "source.pos", "source.row")
    changes = read.select(key, place.alias("position"), F.struct("op", F.expr(_BARE_ROW).alias("row")).alias("event"))
    latest = changes.groupBy("id").agg(F.max_by("event", "position").alias("event"), F.max("position").alias("position"))
    latest.select("id", "event.row.*", "event.op", "position").write.format("delta").save(str(lake))
    assert spark.read.format("delta").load(str(lake)).count() == events // PER_KEY


def whole_run(spark: SparkSession, folder: Path, events: int) -> None:
    """Feeds a table from the files as `cdc-ops run` does, from the pipeline file to the ledger, and checks how many rows it has."""
    place = folder.with_suffix(".run")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    columns = {name: f"{kind}{' primary key' if name == 'id' else ''}" for name, kind in DECLARED.items()}
    described = {
        "pipeline": "bench_events",
        "source": {"kind": "none", "dialect": "mysql", "tables": {"shop.orders": columns}},
        "target": {"root": f"{place}/lake", "staging": f"{place}/staging"},
        "archive": {
            "url": str(folder),
            "format": CHOSEN.name,
            "settings": dict(CHOSEN.settings),
            "accept_losses": [*CHOSEN.accept_losses],
            "min_file_age": "0s",
        },
        "defaults": {"method": "log"},
        "tables": {"shop.orders": None},
    }
    run_described(spark, place, described)
    deletes = (events // PER_KEY + 9) // 10
    assert spark.read.format("delta").load(f"{place}/lake/shop/orders").count() == events // PER_KEY - deletes


def work(part: str, folder: Path, events: int, memory: str) -> None:
    """What a process does: prints the seconds without Spark's start."""
    spark = session(memory)
    spark.range(10).count()
    begun = time.monotonic()
    if part == "count":
        assert count_json(spark, folder) == events
    else:
        parts: dict[str, Callable[[SparkSession, Path, int], None]] = {
            "bare": bare,
            "states": states,
            CHECK: check_states,
            "run": whole_run,
        }
        parts[part](spark, folder, events)
    print(f"{time.monotonic() - begun:.2f}")


def _process(part: str, options: argparse.Namespace) -> Measured:
    same = ["--events", str(options.events), "--memory", options.memory, "--part", part]
    return run([sys.executable, "-m", "benchmarks.events", *same], {**os.environ, "PYTHONPATH": str(ROOT)}, BENCH)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--memory", default="3g", help="heap of Spark's driver")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=[*PARTS], help="what is measured; the count is always")
    parser.add_argument("--part", choices=[*PARTS, CHECK], help="what a process is to do")
    options = parser.parse_args()
    folder = BENCH / f"events_{options.events}"
    if options.part:
        work(options.part, folder, options.events, options.memory)
        return
    BENCH.mkdir(parents=True, exist_ok=True)
    ensure_files(folder, options.events)
    series = {name: Series(title) for name, title in PARTS.items() if name in ("count", *options.only)}
    inner: dict[str, list[float]] = {name: [] for name in series}
    for _ in range(options.rounds):
        for name, one in series.items():
            measured = _process(name, options)
            if name == "states":
                _process(CHECK, options)
            one.add(measured)
            inner[name].append(float(measured.output.split()[-1]))
    size = sum(file.size for file in file_tasks(folder))
    best = {name: min(seconds) for name, seconds in inner.items()}
    lines = [
        f"{name}: {seconds:.1f} s, {seconds / best['count']:.2f} times the count, {options.events / seconds:,.0f} events/s,"
        f" {size / 1e6 / seconds:,.0f} MB/s (best, without Spark's start);"
        f" processor {series[name].processor / series['count'].processor:.2f} times the count's"
        for name, seconds in best.items()
    ]
    title = f"{options.events:,} events of {options.events // PER_KEY:,} keys, {size / 1e6:,.0f} MB in {len(file_tasks(folder))} files"
    report(title, (*(one.line() for one in series.values()), *lines))


if __name__ == "__main__":
    main()
