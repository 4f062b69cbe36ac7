"""A batch of changed rows into a large table, by each way: statement only, warm, the copies compared at the end.

    python -m benchmarks.changes --rows 3000000 24000000 --changed 1000 --keys random recent
    python -m benchmarks.changes --rows 24000000 --shares 0.01 0.1 1 10 --keys random recent clustered --plot .local/changes.svg

`documented` is the MERGE of Delta's documentation, `chosen` what cdc-ops does with such a batch, `spark` what it does if tasks are not to
replace rows (`spark.cdc_ops.replaceByTasks`), `merged` what it does then with a batch that has to be merged. With `--deletes` every tenth
row of a batch is deleted. Each way has its own copy of the table. The regret of `chosen` is its time over the best way's.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks import _plot
from benchmarks._harness import LOCAL, ROOT, cpu_of_family, report
from benchmarks._large_table import KEYS, SCHEMA, SPARK_SCHEMA, LargeTable, bytes_below, staged
from benchmarks.peers import peer_python
from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.core.operation.results import KeyRange, Manifest
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark import jars
from cdc_ops.lake.spark.conf import REPLACE_BY_TASKS
from cdc_ops.lake.spark.session import build_session
from tests.lake_case import Case

OURS = ("chosen", "spark", "merged")


@dataclass(slots=True)
class Way:
    """Runs of one way with one kind of batch."""

    name: str
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    written: list[float] = field(default_factory=list)

    @property
    def wall(self) -> float:
        return statistics.median(self.seconds)

    @property
    def processor(self) -> float:
        return statistics.median(self.cpu)

    def line(self, beside: "Way") -> str:
        """Returns the figures, with the ratios to another way."""
        ratio = f"{self.wall / beside.wall:5.2f}x wall {self.processor / beside.processor:5.2f}x processor"
        spread = f"{min(self.seconds):.2f} .. {max(self.seconds):.2f}, n={len(self.seconds)}"
        return (
            f"{self.name:<11}{self.wall:8.2f} s ({spread})  processor {self.processor:7.2f} s"
            f"  {ratio}  {statistics.median(self.written):9.1f} bytes a byte"
        )


class DeltaRs:
    """delta-rs in a process of its own, which lives on."""

    def __init__(self) -> None:
        script = str(ROOT / "benchmarks" / "_delta_rs.py")
        self._process = subprocess.Popen([str(peer_python("connectorx")), script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def merge(self, case: Case, batch: Path) -> tuple[float, float]:
        """Returns seconds and processor seconds."""
        assert self._process.stdin
        assert self._process.stdout
        print(case.path, batch, "id", file=self._process.stdin, flush=True)
        wall, cpu = self._process.stdout.readline().split()
        return float(wall), float(cpu)

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


class Measurement:
    """One warm session, and the ways."""

    def __init__(self, spark: SparkSession, ways: list[str], *, deletes: bool) -> None:
        self.spark = spark
        self._deletes = deletes
        self.ways = ways
        self._copies: dict[str, Case] = {}
        self._delta_rs = DeltaRs() if "delta-rs" in ways else None
        assert spark.sparkContext._gateway is not None
        self._jvm = int(spark.sparkContext._gateway.jvm.java.lang.ProcessHandle.current().pid())

    def cell(self, table: LargeTable, keys: str, changed: int, runs: int) -> dict[str, Way]:
        """Measures each way with the same batches, one after the other, into a copy of its own; the copies are equal at the end.

        The first batch is not counted: with it Spark learns the table, as a server does once.
        """
        found = {name: Way(name=name) for name in self.ways}
        self._copies = {name: table.copy(name, plain=name == "delta-rs") for name in self.ways}
        for seed in range(1, runs + 2):
            ids = table.ids(keys, changed, seed)
            batch = staged(self.spark, ids, seed)
            self._run(seed, batch, (min(ids), max(ids)), found)
        sums = {name: self._sum(case) for name, case in self._copies.items()}
        assert len(set(sums.values())) == 1, sums
        return found

    def _run(self, seed: int, batch: Path, span: tuple[int, int], found: dict[str, Way]) -> None:
        for name, way in found.items():
            case = self._copies[name]
            before, (wall, cpu) = bytes_below(Path(case.path), "*"), self._timed(name, seed, batch, span)
            print(f"  batch {seed}, {name}: {wall:.2f} s, processor {cpu:.2f} s, load {os.getloadavg()[0]:.1f}", flush=True)
            if seed > 1:
                way.seconds.append(wall)
                way.cpu.append(cpu)
                way.written.append((bytes_below(Path(case.path), "*") - before) / bytes_below(batch))

    def _timed(self, name: str, seed: int, batch: Path, span: tuple[int, int]) -> tuple[float, float]:
        case = self._copies[name]
        if name == "delta-rs":
            assert self._delta_rs
            return self._delta_rs.merge(case, batch)
        started, used, own = time.monotonic(), cpu_of_family(self._jvm), time.process_time()
        if name in OURS:
            self._ours(name, seed, batch, span)
        else:
            self._documented(case, batch)
        return time.monotonic() - started, cpu_of_family(self._jvm) - used + time.process_time() - own

    def _documented(self, case: Case, batch: Path) -> None:
        self._rows(batch).createOrReplaceTempView("updates")
        deletes = f"WHEN MATCHED AND s.{DELETE_MARK} THEN DELETE" if self._deletes else ""
        living = f"AND NOT s.{DELETE_MARK}" if self._deletes else ""
        self.spark.sql(
            f"MERGE INTO delta.`{case.path}` t USING updates s ON t.id = s.id {deletes}"
            f" WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED {living} THEN INSERT *"
        ).collect()

    def _rows(self, batch: Path) -> DataFrame:
        rows = self.spark.read.schema(SPARK_SCHEMA).parquet(str(batch))
        return rows.withColumn(DELETE_MARK, F.expr("id % 10 = 0")) if self._deletes else rows

    def _ours(self, name: str, seed: int, batch: Path, span: tuple[int, int]) -> None:
        operation = self._copies[name].operation(seed + 1, schema=SCHEMA)
        rows = self._rows(batch)
        prune = (KeyRange(column="id", low=f"{span[0]}L", high=f"{span[1]}L"),)
        count = sum(pq.read_metadata(file).num_rows for file in batch.glob("*.parquet"))
        landed = {"rows": count, "bytes": bytes_below(batch), "key_ranges": prune}
        manifest = Manifest.of(operation_id=operation.operation_id, attempt="a", schema_fingerprint="", **landed)
        latest = None if name == "merged" else rows
        self.spark.conf.set(REPLACE_BY_TASKS, str(name == "chosen").lower())
        plan = replace(plan_merge(operation, manifest), deleted_flag=DELETE_MARK if self._deletes else "")
        apply(operation, Batch(rows=rows, plan=plan, read_rows=count, latest=latest, manifest=manifest))

    def _sum(self, case: Case) -> tuple[int, int]:
        """Returns how many rows a table has, and a sum over them all."""
        frame = self.spark.read.format("delta").load(case.path)
        content = F.sum(F.xxhash64(*frame.columns).cast("decimal(38,0)"))
        count, total = frame.agg(F.count(F.lit(1)), content).collect()[0]
        return int(count), int(total)

    def close(self) -> None:
        if self._delta_rs:
            self._delta_rs.close()


def main() -> int:
    """Measures the cells and prints each way beside the documented MERGE, and the regret of the chosen way."""
    options = _options()
    settings = {"spark.driver.memory": "8g", "spark.sql.session.timeZone": "UTC"}
    spark = build_session("changes", jars=jars.jar_list(LOCAL / "jars"), extra_conf=settings)
    spark.sparkContext.setLogLevel("ERROR")
    measurement, points = Measurement(spark, options.ways, deletes=options.deletes), list[_plot.Point]()
    tables = [LargeTable(rows=rows) for rows in options.rows]
    for table in tables:
        table.load(spark)
    if not options.cold:
        measurement.cell(min(tables, key=lambda one: one.rows), "random", 1_000, 3)  # Java compiles
    for table in tables:
        sizes = [*(options.changed or ()), *(max(10, round(table.rows * share / 100)) for share in options.shares)]
        for keys in options.keys:
            for changed in sizes:
                found = measurement.cell(table, keys, changed, options.runs)
                points += [_plot.Point(f"{keys}, {table.rows:,} rows", name, changed, way.wall) for name, way in found.items()]
                _tell(table, keys, changed, found)
    if options.plot:
        options.plot.write_text(_plot.chart(points, "seconds of a batch, by its rows"), "utf-8")
    measurement.close()
    spark.stop()
    return 0


def _tell(table: LargeTable, keys: str, changed: int, found: dict[str, Way]) -> None:
    first = found.get("documented") or next(iter(found.values()))
    best = min(way.wall for way in found.values())
    regret = f"regret of chosen {found['chosen'].wall / best:.2f}" if "chosen" in found else ""
    report(f"{changed:,} {keys} keys into {table.rows:,} rows, equal", (*(way.line(first) for way in found.values()), regret))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = ("documented", *OURS, "delta-rs")
    parser.add_argument("--rows", type=int, nargs="+", default=[3_000_000])
    parser.add_argument("--changed", type=int, nargs="+", help="rows of a batch")
    parser.add_argument("--shares", type=float, nargs="+", default=[], help="batches of so many percent of the table's rows")
    parser.add_argument("--keys", choices=KEYS, nargs="+", default=list(KEYS))
    parser.add_argument("--ways", choices=ways, nargs="+", default=list(ways))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--deletes", action="store_true", help="every tenth row is deleted; not for delta-rs")
    parser.add_argument("--cold", action="store_true", help="do not let Java compile before")
    parser.add_argument("--plot", type=Path, help="an SVG file")
    options = parser.parse_args()
    if not options.changed and not options.shares:
        options.changed = [1_000]
    return options


if __name__ == "__main__":
    sys.exit(main())
