"""Operations on one small table, for the tests of cdc_ops.lake."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow

from cdc_ops.core.apply.apply_spec import ApplyMode, Landing
from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType, CursorValue
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.results import OperationResult
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from tests.commits import commits
from tests.lake_rows import table_rows
from tests.operations import operation_with, with_fields
from tests.stores import place

PIPELINE = "shop"
TABLE = TableName(schema="shop", name="orders")
CURSOR = Cursor(columns=(CursorColumn(name="updated_at", type=CursorType.TIMESTAMP, precision=6),))
SCHEMA_DDL = (("id", "bigint"), ("name", "string"), ("amount", "decimal(10,2)"), ("updated_at", "timestamp"))


def schema(*columns: tuple[str, str], keys: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema(
        table=TABLE,
        columns=tuple(Column(name=n, source_type=kind, delta_type=kind, nullable=True, expression=n) for n, kind in columns),
        primary_key=keys,
    )


SCHEMA = schema(*SCHEMA_DDL)


def watermark(number: int) -> CursorValue:
    return CursorValue(parts=(f"2026-01-01 00:00:{number:02d}.000000",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Operations of one table below one folder."""

    root: str

    @property
    def path(self) -> str:
        return f"{place(self.root)}/lake/orders"

    def operation(self, op_seq: int, mode: ApplyMode = ApplyMode.MERGE, **changes: Any) -> Operation:
        operation_id = changes.pop("operation_id", f"operation-{op_seq}")
        operation = operation_with(
            pipeline=PIPELINE,
            table=TABLE,
            op_seq=op_seq,
            operation_id=operation_id,
            run_id="run",
            kind=OperationKind.SNAPSHOT_CHUNK if mode is ApplyMode.APPEND else OperationKind.INCREMENT,
            generation=1,
            planned_at=datetime(2026, 1, 1, tzinfo=UTC),
            path=self.path,
            staging=f"{place(self.root)}/staging/{op_seq}-{operation_id}",
            schema=SCHEMA,
            keys=("id",),
            cursor=CURSOR,
            slices=("1 = 1",),
            mode=mode,
            landing=Landing.STAGED,
            watermark_after=watermark(op_seq),
        )
        return with_fields(operation, **changes)


def history(spark: SparkSession, path: str) -> list[SparkRow]:
    """Returns the newest commits, newest first: version, operation, userMetadata, operationMetrics."""
    statement = f"DESCRIBE HISTORY delta.`{path}`"
    return spark.sql(statement).select("version", "operation", "userMetadata", "operationMetrics").collect()


Row = tuple[int, str]


class Lake:
    """A table that operations are applied to."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.case = Case(root=str(folder))
        self.path = self.case.path

    def frame(self, rows: list[Row]) -> DataFrame:
        columns = "id", "name", "CAST(1.5 AS decimal(10, 2)) amount", "timestamp'2026-01-01 00:00:00' updated_at"
        return self.spark.createDataFrame(rows, "id bigint, name string").selectExpr(*columns)

    def apply(self, operation: Operation, rows: list[Row]) -> OperationResult:
        return apply(operation, Batch(rows=self.frame(rows), plan=plan_merge(operation, None), read_rows=len(rows)))

    def load(self, rows: list[Row]) -> OperationResult:
        return self.apply(self.case.operation(1, ApplyMode.APPEND), rows)

    def rows(self) -> list[Row]:
        return sorted(table_rows(self.spark, self.path, "id, name"))

    def versions(self) -> list[tuple[int, str]]:
        """Version and operation of the commits, newest first."""
        return [(commit["version"], commit["operation"]) for commit in reversed(commits(self.path))]
