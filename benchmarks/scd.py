"""A batch of changes merged into a table that keeps all versions (SCD type 2), beside the same batch into one of current rows (type 1).

Both tables hold the same current rows, in files of the same size; the batch updates keys spread over the whole table, a tenth of them
deletes. Each round merges another batch into both, one after the other, in one warm session.
"""

import argparse
import shutil
import sys
import time
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks._harness import BENCH, LOCAL, Measured, Series
from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.apply.scd import POSITION_TYPE, Sequence, SequenceKind, TableStorage
from cdc_ops.core.archive.watermarks import ArchiveWatermark
from cdc_ops.core.operation.log_batch import LogBatchResult
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Manifest
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark import jars
from cdc_ops.lake.spark.session import build_session
from tests.lake_case import Case, schema

COLUMNS: Final = (
    ("id", "bigint"), ("customer_id", "int"), ("status", "string"), ("total", "decimal(12,2)"), ("currency", "string"), ("quantity", "int"),
    ("weight", "double"), ("note", "string"), ("express", "boolean"), ("ordered_on", "date"), ("created_at", "timestamp"),
    ("updated_at", "timestamp"),
)  # fmt: skip
ORDER: Final = Sequence(kind=SequenceKind.POSITION, type=POSITION_TYPE)


def rows(ids: DataFrame, batch: int) -> DataFrame:
    """Returns rows of the given ids, as a batch leaves them."""
    return ids.selectExpr(
        "id",
        "CAST(hash(id) % 200000 AS INT) customer_id",
        f"elt(1 + CAST((id + {batch}) % 5 AS INT), 'new', 'paid', 'shipped', 'delivered', 'returned') status",
        f"CAST(5 + (abs(hash(id)) % 50000 + {batch}) / 100 AS DECIMAL(12, 2)) total",
        "elt(1 + CAST(id % 3 AS INT), 'EUR', 'USD', 'GBP') currency",
        f"CAST(id % 100 + {batch} AS INT) quantity",
        "CAST(id % 4000 AS DOUBLE) / 8 weight",
        f"concat('parcel ', id, ', ring twice, leave at the door: ', hash(id, {batch})) note",
        "id % 10 = 0 express",
        "date_add(DATE'2026-01-01', CAST(id % 200 AS INT)) ordered_on",
        "timestamp_seconds(1767225600 + id) created_at",
        f"timestamp_seconds(1767225600 + id + {batch} * 3600) updated_at",
    )


class Table:
    """One table of the measurement."""

    def __init__(self, spark: SparkSession, scd_type: int) -> None:
        self.spark, self.number = spark, 0
        root = BENCH / f"scd{scd_type}"
        shutil.rmtree(root, ignore_errors=True)
        self.case = Case(root=str(root))
        self.stored = TableStorage(scd_type=scd_type, sequence=ORDER, tombstones=f"{root}/tombstones")
        self.series = Series(name=f"type {scd_type}")

    def operation(self, mode: ApplyMode) -> Operation:
        self.number += 1
        return self.case.operation(self.number, mode, schema=schema(*COLUMNS), stored_as=self.stored)

    def fill(self, count: int, files: int) -> None:
        """Writes the current rows."""
        operation = self.operation(ApplyMode.APPEND)
        apply(operation, Batch(rows=rows(self.spark.range(0, count, 1, files), 0), plan=plan_merge(operation, None), read_rows=count))

    def merge(self, batch: DataFrame, count: int) -> float:
        """Merges a batch and returns the seconds that it took."""
        operation = self.operation(ApplyMode.MERGE)
        reading = LogBatchResult.of(watermark=ArchiveWatermark(), deletes=1)
        manifest = Manifest.of(operation_id=operation.operation_id, attempt="a", rows=count, bytes=0, schema_fingerprint="", log=reading)
        started = time.monotonic()
        apply(operation, Batch(rows=batch, plan=replace(plan_merge(operation, manifest), prune=()), read_rows=count))
        return time.monotonic() - started


def main() -> int:
    """Measures and prints the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    spark = build_session("scd", jars=jars.jar_list(LOCAL / "jars"), extra_conf={"spark.driver.memory": "6g"})
    tables = [Table(spark, kind) for kind in (1, 2)]
    for table in tables:
        table.fill(chosen.rows, 8)
    step = chosen.rows // chosen.changes
    staged = str(BENCH / "scd-batch")
    for number in range(1, chosen.rounds + 2):
        ids = spark.range(0, chosen.changes, 1, 4).selectExpr(f"(id * {step} + {number}) % {chosen.rows} AS id")
        told = {DELETE_MARK: F.expr("abs(hash(id)) % 10 = 3"), SEQUENCE: F.expr(f"array({number}L, id)")}
        changed = rows(ids, number).withColumns(told)
        changed.write.mode("overwrite").parquet(staged)
        for table in tables:
            taken = table.merge(spark.read.parquet(staged), chosen.changes)
            if number > 1:  # the first compiles
                table.series.add(Measured(seconds=taken, cpu_seconds=0.0, peak_bytes=0, output=""))
    for table in tables:
        print(table.series.line())
    print(f"type 2 : type 1 = {tables[1].series.median / tables[0].series.median:.2f}  (limit 2)")
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
