"""A first look at tables (`cdc-ops run --limit`): their first rows are read as a run would read them, into a folder of their own.

Nothing of ledger, lake, staging or watermark is touched: neither is opened. The server is asked for the first rows by the primary key and
stops there, so that the size of a table does not matter. Runs in Spark.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.schema.server_types.unsigned_bigints import widened_schema
from cdc_ops.core.text import quoted
from cdc_ops.errors import CdcError, RequestError, TooLargeValueError, UnforeseenJobError
from cdc_ops.lake.merge.apply import duplicate_keys
from cdc_ops.lake.staging.null_counts import observe_marks
from cdc_ops.sources.base import Source
from cdc_ops.steps.query.jdbc_rows import read_source, read_with_null_counts
from cdc_ops.steps.stage.invalid_values import unstorable_value
from cdc_ops.steps.stage.row_errors import translated_row_errors
from cdc_ops.steps.table.columns.wide_columns import too_large_value
from cdc_ops.steps.table.entries import matched_entries
from cdc_ops.steps.table.source_table import SourceTable, read_source_table

SHOWN_ROWS: Final = 5
_LONGEST: Final = 200
_MAPPING: Final = "delta.columnMapping.mode"
_SPECIAL: Final = re.compile(r"[ ,;{}()\n\t=]")
"""What column names in Parquet must not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedColumn:
    """A column: its type at the source, the type in which it is stored, and its values in the first rows as text, None for NULL."""

    name: str
    source_type: str
    stored_as: str
    values: tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedTable:
    """What the first rows of a table showed.

    Args:
        table: The table.
        path: Delta table of the rows that were read.
        rows: How many there are.
        rows_at_source: How many the source has, as its statistics estimate.
        keys, cursor: How a run would match rows and find changes; without cursor it compares the whole table.
        columns: As they would be stored.
        remarks: What a run would refuse or warn of.
    """

    table: str
    path: str
    rows: int
    rows_at_source: int
    keys: tuple[str, ...]
    cursor: tuple[str, ...]
    columns: tuple[TriedColumn, ...]
    remarks: tuple[str, ...] = ()


def read_first_row(spark: SparkSession, pipeline: Pipeline, source: Source) -> str:
    """Reads one row of a pipeline's first table by JDBC, and says of which table and how many came.

    Raises:
        CdcError: there is no table, or it cannot be read.
    """
    configs, wrong = matched_entries(pipeline, source.tables())
    if not configs:
        raise wrong[0][1]
    schema = widened_schema(read_source_table(pipeline, source, configs[0]).schema)
    rows = read_source(spark, source.first_rows(schema, 1), schema).collect()
    return f"started, and read {len(rows)} row{'s' if len(rows) != 1 else ''} of {configs[0].table} by JDBC"


def try_table(spark: SparkSession, pipeline: Pipeline, source: Source, config: TableConfig, limit: int, folder: str) -> TriedTable:
    """Reads the first rows of a table into a Delta table of its own.

    Args:
        spark: Any session.
        pipeline, source, config: The table.
        limit: How many rows are read at most.
        folder: Where the Delta table goes, in folders by schema and name.

    Raises:
        CdcError: what a run would fail with.
    """
    if config.settings.method is Method.LOG:
        raise RequestError(
            f"Table {config.table} is fed from an archive; its rows are not read at the source.",
            data="Nothing was read.",
            next="'cdc-ops check' reads a file of its archive; 'files_per_run' of the archive bounds a first run.",
        )
    source_table = read_source_table(pipeline, source, config)
    path = f"{folder.rstrip('/')}/{config.table.schema}/{config.table.name}"
    while True:
        try:
            return _copied(spark, source, source_table, limit, path)
        except TooLargeValueError as error:  # as a run does, which then reads the same rows again
            source_table = replace(source_table, schema=widened_schema(source_table.schema, (error.column,)))


def _copied(spark: SparkSession, source: Source, source_table: SourceTable, limit: int, path: str) -> TriedTable:
    table = source_table.config.table
    try:
        with translated_row_errors(partial(too_large_value, table), partial(unstorable_value, table)):
            marked = read_with_null_counts(
                spark, source.first_rows(source_table.schema, limit), source_table.schema, source_table.source_keys
            )
            rows, nulled = observe_marks(marked, source_table.schema)
            mapped = {_MAPPING: "name"} if any(_SPECIAL.search(name) for name in source_table.schema.names) else {}
            rows.write.format("delta").options(**mapped).save(path)
            lost = nulled().warning
            return _tried(source_table, spark.read.format("delta").load(path), path, lost)
    except CdcError:
        raise
    except Exception as error:  # the border to Spark: a run would end with the same
        lines = [line for line in str(error).splitlines() if line.strip()]
        what = f"Table {table} failed in Spark with {type(error).__name__}."
        raise UnforeseenJobError(what, why="\n        ".join(lines[:6]), data="Ledger, lake and staging are as they were.") from error


def _tried(source_table: SourceTable, rows: DataFrame, path: str, lost: str) -> TriedTable:
    first = rows.limit(SHOWN_ROWS).select(*(_text(column.name, column.delta_type) for column in source_table.schema.columns)).collect()
    columns = tuple(
        TriedColumn(
            name=column.name,
            source_type=column.source_type,
            stored_as=column.delta_type,
            values=tuple(None if row[index] is None else str(row[index])[:_LONGEST] for row in first),
        )
        for index, column in enumerate(source_table.schema.columns)
    )
    return TriedTable(
        table=str(source_table.config.table),
        path=path,
        rows=rows.count(),
        rows_at_source=source_table.schema.approximate_rows,
        keys=source_table.source_keys,
        cursor=source_table.cursor.column_names,
        columns=columns,
        remarks=(*source_table.warnings, *_key_remarks(source_table, rows), *filter(None, (lost,))),
    )


def _text(name: str, kind: str) -> Column:
    value = F.col(quoted(name))
    return (F.hex(value) if kind == "binary" else value.cast("string")).alias(name)


def _key_remarks(source_table: SourceTable, rows: DataFrame) -> Sequence[str]:
    """Says what is wrong with keys that the source does not vouch for."""
    if not source_table.keys or source_table.keys_are_primary or source_table.reads_changes:
        return ()
    missing = " OR ".join(f"{quoted(key)} IS NULL" for key in source_table.keys)
    nulls, repeated = rows.where(missing).count(), duplicate_keys(rows, source_table.keys, source_table.source_keys)
    names = ", ".join(source_table.source_keys)
    return (
        *((f"{nulls:,} of these rows have NULL in a key column ({names}); a run refuses them",) if nulls else ()),
        *((f"keys that several of these rows have ({names}): {'; '.join(repeated)}; a run refuses them",) if repeated else ()),
    )
