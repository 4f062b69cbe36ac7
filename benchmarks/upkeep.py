"""What 200 small batches make of a table, with upkeep and without: files, a full scan beside a freshly written table, bytes of upkeep.

    python -m benchmarks.upkeep batches --keys random        (as often as it takes: it goes on where it stopped)
    python -m benchmarks.upkeep scan --keys random recent --plot .local/upkeep.svg

Batches of 1,000 rows, of which 100 are new, come every quarter of an hour by a clock that is made up. `random`: the updated rows lie
anywhere. `recent`: they are among the newest, and the head moves on with each batch. Tables are written by the code that applies
operations, and maintained by the code that decides and does upkeep, with the settings of a table that sets none. They are equal at the end.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks import _plot
from benchmarks._harness import BENCH, LOCAL, cpu_of, report
from benchmarks._large_table import NEW, ROWS_OF_A_FILE, SCHEMA, SPARK_SCHEMA, LargeTable, rows_of
from cdc_ops.core import json_codec
from cdc_ops.core.maintenance import MaintenancePolicy, TableStats, carry_over, choose_files, plan_maintenance
from cdc_ops.core.operation.job import MaintenanceTask
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.core.operation.results import KeyRange, Manifest
from cdc_ops.lake.log.data_files import partitioning, read_files
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark import jars
from cdc_ops.lake.spark.session import build_session
from cdc_ops.lake.table.create import table_stats
from cdc_ops.lake.table.maintenance import maintain
from tests.lake_case import TABLE, Case

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
EVERY = timedelta(minutes=15)
KEYS = ("random", "recent")
HOME = BENCH / "upkeep"
POLICY = MaintenancePolicy()
_PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableTypeWidening": "true"}
"""Of a table that cdc-ops makes."""


@dataclass(slots=True)
class State:
    """How far a table is and what that has cost; it is kept beside the table, so that a measurement can be made in parts.

    `batch_bytes` are those of the files that batches added, `vector_bytes` those of their deletion vectors; `points` are files, bytes of
    batches and bytes of upkeep after each batch; `stats` is the ledger's JSON.
    """

    batches: int = 0
    batch_bytes: int = 0
    vector_bytes: int = 0
    upkeep_bytes: int = 0
    upkeep_seconds: float = 0.0
    batch_seconds: float = 0.0
    stats: str = ""
    points: list[list[int]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One table under batches of one kind, with upkeep or without."""

    table: LargeTable
    keys: str
    upkeep: bool

    @property
    def name(self) -> str:
        return f"{self.keys}, upkeep {'on' if self.upkeep else 'off'}"

    @property
    def case(self) -> Case:
        return Case(root=str(HOME / f"{self.keys}-{'on' if self.upkeep else 'off'}-{self.table.rows}"))

    def state(self) -> State:
        """Returns how far it is; a table that was not begun becomes a copy of the loaded one."""
        notes = Path(self.case.root) / "state.json"
        if notes.exists():
            return State(**json.loads(notes.read_text("utf-8")))
        Path(self.case.path).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "--archive", "--link", self.table.case.path, self.case.path], check=True)
        loaded = table_stats(self.case.path, DeltaLog(self.case.path).newest() or 0)
        return State(stats=json_codec.dumps(carry_over(None, loaded, BEGIN)))

    def run(self, spark: SparkSession, until: int, changed: int, seconds: float) -> None:
        """Applies batches until there are so many, or until the time is over."""
        state, stop = self.state(), time.monotonic() + seconds
        while state.batches < until and time.monotonic() < stop:
            state.batches += 1
            stats = self._batch(spark, state, changed)
            if self.upkeep:
                stats = self._maintain(spark, state, stats)
            state.stats = json_codec.dumps(stats)
            state.points.append([stats.files, state.batch_bytes, state.upkeep_bytes])
            (Path(self.case.root) / "state.json").write_text(json.dumps(asdict(state)), "utf-8")
        print(f"{self.name}: {state.batches} batches, {state.batch_seconds:.0f} s; {state.points[-1]}", flush=True)

    def _ids(self, batch: int, changed: int) -> list[int]:
        new = changed // NEW
        head = self.table.rows + (batch - 1) * new
        known = range(head) if self.keys == "random" else range(head - 5 * changed, head)
        return [*random.Random(batch).sample(known, changed - new), *range(head, head + new)]

    def _batch(self, spark: SparkSession, state: State, changed: int) -> TableStats:
        ids = self._ids(state.batches, changed)
        folder = HOME / "batch"
        rows_of(spark.createDataFrame([(number,) for number in ids], "id bigint"), state.batches).coalesce(2).write.mode(
            "overwrite"
        ).parquet(str(folder))
        operation = self.case.operation(state.batches + 1, schema=SCHEMA)
        rows = spark.read.schema(SPARK_SCHEMA).parquet(str(folder))
        prune = (KeyRange(column="id", low=f"{min(ids)}L", high=f"{max(ids)}L"),)
        manifest = Manifest.of(
            operation_id=operation.operation_id, attempt="a", rows=changed, bytes=0, schema_fingerprint="", key_ranges=prune
        )
        result = apply(operation, Batch(rows=rows, plan=plan_merge(operation, manifest), read_rows=None, latest=rows, manifest=manifest))
        assert result.stats is not None
        assert result.delta_version is not None
        state.batch_seconds += result.seconds
        actions = list(DeltaLog(self.case.path).actions(result.delta_version, "add", "remove"))
        old = {action["path"] for kind, action in actions if kind == "remove"}
        state.batch_bytes += sum(action["size"] for kind, action in actions if kind == "add" and action["path"] not in old)
        vectors = (action.get("deletionVector") for kind, action in actions if kind == "add")
        state.vector_bytes += sum(vector["sizeInBytes"] for vector in vectors if vector)
        return carry_over(json_codec.loads(TableStats, state.stats), result.stats, BEGIN + state.batches * EVERY)

    def _maintain(self, spark: SparkSession, state: State, stats: TableStats) -> TableStats:
        now, path = BEGIN + state.batches * EVERY, self.case.path
        plan = plan_maintenance(POLICY, stats, now)
        if plan.optimize:
            log = DeltaLog(path)
            version = log.newest() or 0
            plan = choose_files(plan, POLICY, read_files(log, version), partitioning(log, version), stats.upkeep.last_upkeep)
        if not plan.due:
            return stats
        stats = maintain(spark, MaintenanceTask(table=TABLE, path=path, plan=plan, stats=stats), now)
        assert stats.upkeep.last_upkeep is not None
        state.upkeep_bytes, state.upkeep_seconds = stats.upkeep.upkeep_bytes, state.upkeep_seconds + stats.upkeep.last_upkeep.seconds
        state.said.append(f"after batch {state.batches}: {'; '.join(plan.reasons)}. {stats.upkeep.last_upkeep.words}")
        print(f"  {self.name}, {state.said[-1]}", flush=True)
        return stats


def scan(spark: SparkSession, tables: list[Kept], runs: int, plot: Path | None) -> None:
    """Reads all rows of the tables and of freshly written ones, in turns, and prints what each costs.

    A freshly written table has the properties of a table of cdc-ops; the one without them shows what these cost a reader: with deletion
    vectors allowed, Spark plans two jobs more, and with any of them it numbers each row.
    """
    assert spark.sparkContext._gateway is not None
    jvm = int(spark.sparkContext._gateway.jvm.java.lang.ProcessHandle.current().pid())
    paths = {one.name: one.case.path for one in tables}
    for keys in dict.fromkeys(one.keys for one in tables):
        kept = next(one for one in tables if one.keys == keys)
        paths[f"{keys}, freshly written"] = _fresh(spark, kept, "fresh", _PROPERTIES)
        paths[f"{keys}, no properties"] = _fresh(spark, kept, "plain", {})
    walls: dict[str, list[float]] = {name: [] for name in paths}
    cpus: dict[str, list[float]] = {name: [] for name in paths}
    sums = {}
    for number in range(runs + 2):  # the first two are not counted: Java compiles
        for name, path in paths.items():
            started, used = time.monotonic(), cpu_of(jvm)
            sums[name] = _sum(spark, path)
            if number > 1:
                walls[name].append(time.monotonic() - started)
                cpus[name].append(cpu_of(jvm) - used)
    print(f"machine load {os.getloadavg()[0]:.1f}")
    points = []
    for keys in dict.fromkeys(one.keys for one in tables):
        fresh = f"{keys}, freshly written"
        lines = [f"{fresh:<28}{statistics.median(walls[fresh]):6.2f} s  processor {statistics.median(cpus[fresh]):6.2f} s"]
        kept_up = {one.name: one for one in tables if one.keys == keys}
        for name in (f"{keys}, no properties", *kept_up):
            assert sums[name] == sums[fresh], (name, sums)
            ratio = statistics.median(walls[name]) / statistics.median(walls[fresh])
            processor = statistics.median(cpus[name]) / statistics.median(cpus[fresh])
            lines.append(
                f"{name:<28}{statistics.median(walls[name]):6.2f} s  processor {statistics.median(cpus[name]):6.2f} s"
                f"  {ratio:4.2f}x wall  {processor:4.2f}x processor"
            )
        for one in kept_up.values():
            lines += _cost(one)
            points += [_plot.Point(f"{keys}: files", one.name, at, files) for at, (files, _, _) in enumerate(one.state().points, 1)]
        report(f"full scan after {tables[0].state().batches} batches, {keys} keys, equal", tuple(lines))
    if plot:
        plot.write_text(_plot.chart(points, "files of the table, by the batches so far"), "utf-8")


def _cost(one: Kept) -> list[str]:
    state = one.state()
    batch, upkeep = state.batch_bytes, state.upkeep_bytes
    return [
        f"    {one.name}: {state.points[-1][0]} files; batches wrote {batch / 1e6:.1f} MB of rows and {state.vector_bytes / 1e6:.1f} MB of"
        f" deletion vectors in {state.batch_seconds:.0f} s; upkeep {upkeep / 1e6:.1f} MB in {state.upkeep_seconds:.0f} s,"
        f" {upkeep / batch:.2f} bytes a byte of the batches' rows",
    ]


def _fresh(spark: SparkSession, kept: Kept, name: str, properties: dict[str, str]) -> str:
    """Returns a table of the same rows with these table properties, written at once."""
    path, state = HOME / f"{kept.keys}-{name}-{kept.table.rows}", kept.state().batches
    done = path.with_suffix(f".{state}")
    if not done.exists():
        rows = spark.read.format("delta").load(kept.case.path)
        files = -(-kept.table.rows // ROWS_OF_A_FILE)
        rows.repartitionByRange(files, "id").sortWithinPartitions("id").write.format("delta").options(**properties).mode("overwrite").save(
            str(path)
        )
        done.touch()
    return str(path)


def _sum(spark: SparkSession, path: str) -> tuple[int, int]:
    """Returns how many rows a table has and a sum over all columns of them all: every byte is read and decoded."""
    frame = spark.read.format("delta").load(path)
    content = F.sum(F.xxhash64(*frame.columns).cast("decimal(38,0)"))
    count, total = frame.agg(F.count(F.lit(1)), content).collect()[0]
    return int(count), int(total)


def main() -> int:
    """Applies batches, or measures scans."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("batches", "scan"))
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--changed", type=int, default=1_000, help="rows of a batch")
    parser.add_argument("--until", type=int, default=200, help="batches")
    parser.add_argument("--keys", choices=KEYS, nargs="+", default=list(KEYS))
    parser.add_argument("--upkeep", choices=("on", "off"), nargs="+", default=["on", "off"])
    parser.add_argument("--seconds", type=float, default=3600, help="begin no batch of a table later than this")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--plot", type=Path, help="an SVG file")
    options = parser.parse_args()
    settings = {"spark.driver.memory": "4g", "spark.sql.session.timeZone": "UTC"}
    spark = build_session("upkeep", jars=jars.jar_list(LOCAL / "jars"), extra_conf=settings)
    spark.sparkContext.setLogLevel("ERROR")
    table = LargeTable(rows=options.rows)
    table.load(spark)
    tables = [Kept(table=table, keys=keys, upkeep=upkeep == "on") for keys in options.keys for upkeep in options.upkeep]
    if options.what == "scan":
        scan(spark, tables, options.runs, options.plot)
    else:
        for one in tables:
            one.run(spark, options.until, options.changed, options.seconds / len(tables))
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
