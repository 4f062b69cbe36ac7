"""Lands the rows of one window as Parquet in the staging area; the manifest is written last. Runs in Spark.

What the manifest says of the rows comes from the footers of the files that are there, not from a second pass and not from counters of the
job: a task that ran twice counts once.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.operation.merging.merge_plan import spark_literal
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import KeyRange, Manifest
from cdc_ops.core.schema.server_types.unsigned_bigints import is_wide
from cdc_ops.core.schema.type_widening import canonical_type
from cdc_ops.core.schema.value_policies import NullifiedValues
from cdc_ops.core.text import quoted
from cdc_ops.errors import LandedRowsLostError
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.lake.spark.local_rows import no_rows
from cdc_ops.lake.spark.session import pinned
from cdc_ops.lake.staging.manifests import find_damage, landed_files, write_manifest
from cdc_ops.lake.staging.null_counts import count_marks, is_mark
from cdc_ops.lake.staging.shared_folder import write_seen

_RANGED: Final = ("tinyint", "smallint", "int", "bigint", "decimal", "date", "timestamp", "timestamp_ntz", "string")
_LONGEST_TEXT: Final = 64
"""A longer text makes the statement longer than it makes the scan shorter; Delta keeps 32 characters of it anyway."""


def land(
    spark: SparkSession,
    df: DataFrame,
    operation: Operation,
    attempt: str,
    check: Callable[[], None] = lambda: None,
    finish: Callable[[Manifest], Manifest] = lambda manifest: manifest,
) -> Manifest:
    """Writes a window's rows to the operation's staging folder, and then the manifest.

    Args:
        spark: The session of `df`.
        df: The rows, in the columns and types of the lake, with the marks of `lake.staging.null_counts` if values can be lost.
        operation: Whose rows.
        attempt: Folder name of this try; unique, so that a killed try's files are never taken for this one's.
        check: Called when all rows are written and not yet declared landed; what it raises leaves them undeclared.
        finish: Puts into the manifest what else is to be said of the rows; it may refuse them like `check`.
    """
    write_seen(df, landing_folder(operation, attempt))
    return declare_landed(spark, operation, attempt, check, finish)


def landing_folder(operation: Operation, attempt: str) -> str:
    """Returns where the rows of a try are landed."""
    return f"{operation.target.staging.rstrip('/')}/{attempt}"


def declare_landed(
    spark: SparkSession, operation: Operation, attempt: str, check: Callable[[], None], finish: Callable[[Manifest], Manifest]
) -> Manifest:
    """Writes the manifest of a try whose files are all there; see `land`."""
    check()
    folder = landing_folder(operation, attempt)
    files = landed_files(operation.target.staging, attempt)
    footers = _Footers(operation)
    lost = False
    filesystem, _ = open_filesystem(operation.target.staging)
    for file in files:
        with filesystem.open(file.path, "rb") as stream:
            metadata = pq.ParquetFile(stream).metadata
        footers.add(metadata)
        lost = lost or _has_marks(metadata)
    manifest = Manifest.of(
        operation_id=operation.operation_id,
        attempt=attempt,
        rows=footers.rows,
        bytes=sum(file.bytes for file in files),
        files=len(files),
        schema_fingerprint=operation.source.schema.fingerprint,
        key_ranges=footers.key_ranges() if footers.rows else (),
        null_keys=footers.null_keys() if footers.complete else _count_null_keys(spark, folder, operation.apply.keys),
        nulled=count_marks(spark.read.parquet(folder), operation.source.schema) if lost else NullifiedValues(),
        wide=tuple(column.name for column in operation.read_schema.columns if is_wide(column)),
    )
    manifest = finish(manifest)
    write_manifest(operation.target.staging, manifest)
    return manifest


def read_landed(spark: SparkSession, operation: Operation, manifest: Manifest) -> DataFrame:
    """Returns the landed rows: all of them, or none. Of an archive, the feed of events that landed with them has to be there too.

    Columns that were landed as BIGINT may have become wider since; Spark reads them in the type that they have now.

    Raises:
        LandedRowsLostError: files of the manifest are not there, or are not the ones that were written.
    """
    damage = find_damage(operation.target.staging, manifest)
    if not damage and manifest.schema_fingerprint != operation.source.schema.fingerprint:
        damage = "their columns differ from the plan"
    if damage:
        raise _lost(operation, damage)
    if not manifest.landed.files:  # a store has no folder without files
        return no_rows(spark, {column.name: column.delta_type for column in operation.read_schema.columns})
    columns = ", ".join(f"{quoted(column.name)} {column.delta_type}" for column in operation.read_schema.columns)
    rows = pinned(spark.read.schema(columns).parquet(landing_folder(operation, manifest.attempt)))
    listed = len(rows.inputFiles())  # Spark lists them itself: what vanishes after that fails the read, and is not left out of it
    if listed != manifest.landed.files:
        raise _lost(operation, f"only {listed:,} of {manifest.landed.files:,} files exist")
    return rows


def _lost(operation: Operation, damage: str) -> LandedRowsLostError:
    return LandedRowsLostError(
        f"The landed rows of operation {operation.op_seq} of {operation.table} are not complete: {damage}.",
        why=f"Files below {operation.target.staging} were removed or replaced.",
        data="Nothing was written to the table; the watermark stays.",
        next="Nothing to do: the next try reads the same window again.",
    )


class _Footers:
    """Sums up what the footers say of the key columns."""

    def __init__(self, operation: Operation) -> None:
        self._types = {
            key: canonical_type(column.delta_type) for key in operation.apply.keys if (column := operation.source.schema.column(key))
        }
        self._ranges: dict[str, tuple[Any, ...] | None] = {}
        self._nulls = dict.fromkeys(self._types, 0)
        self.rows = 0
        self.complete = True

    def add(self, footer: pq.FileMetaData) -> None:
        """Takes one file into account."""
        self.rows += footer.num_rows
        positions = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
        for group in range(footer.num_row_groups):
            for key in self._types:
                self._add_chunk(key, footer.row_group(group).column(positions[key]))

    def null_keys(self) -> int:
        """Returns the NULLs in key columns; a row with NULL in two of them counts twice."""
        return sum(self._nulls.values())

    def key_ranges(self) -> tuple[KeyRange, ...]:
        """Returns the ranges of those keys that files can be skipped by."""
        found = []
        for key, kind in self._types.items():
            low, high = (_text(value, kind) for value in self._ranges.get(key) or (None, None))
            if low is not None and high is not None:
                found.append(KeyRange(column=key, low=spark_literal(kind, low), high=spark_literal(kind, high)))
        return tuple(found)

    def _add_chunk(self, key: str, chunk: pq.ColumnChunkMetaData) -> None:
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:  # the writer leaves them out where values are long
            self.complete = False
            self._ranges[key] = None
            return
        self._nulls[key] += statistics.null_count
        if statistics.null_count == chunk.num_values:
            return
        known = self._ranges.get(key, ())
        if known is None or not statistics.has_min_max:
            self._ranges[key] = None
            return
        values = (*known, statistics.min, statistics.max)
        self._ranges[key] = (min(values), max(values))


def _text(value: Any, kind: str) -> str | None:
    """Returns a value of the footer as the text of a literal, None where files are not skipped by such a value."""
    if not kind.startswith(_RANGED):
        return None
    match value:
        case str():
            return value if len(value) <= _LONGEST_TEXT else None
        case datetime():
            naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            return naive.isoformat(sep=" ") + ("Z" if kind == "timestamp" else "")
        case date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case int() if not isinstance(value, bool):
            return str(value)
        case _:
            return None


def _has_marks(footer: pq.FileMetaData) -> bool:
    """True unless the footer says that no row of the file lost a value."""
    groups = (footer.row_group(group) for group in range(footer.num_row_groups))
    chunks = (group.column(index) for group in groups for index in range(group.num_columns))
    marks = (chunk for chunk in chunks if is_mark(chunk.path_in_schema))
    return any(m.statistics is None or not m.statistics.has_null_count or m.statistics.null_count < m.num_values for m in marks)


def _count_null_keys(spark: SparkSession, folder: str, keys: tuple[str, ...]) -> int:
    missing = reduce(or_, (F.col(quoted(key)).isNull() for key in keys))
    return spark.read.parquet(folder).where(missing).count()
