"""The current rows of a table for readers: without old versions and deleted rows. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from cdc_ops.core.apply.metadata_columns import DEFAULT_COLUMNS, END
from cdc_ops.core.text import quoted
from cdc_ops.errors import RequestError, StateError
from cdc_ops.lake.log.change_feed_log import missing_files, newest_record
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.log.head import OWNER_TABLE
from cdc_ops.lake.sql_text import path_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NO_TEXT: Final = ("array", "map", "struct", "binary", "variant")
"""Types of which no text is a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRows:
    """The rows and columns of a table that its source has, or had at a version.

    Args:
        table: Path or URI of the Delta table.
        columns: The columns of the source.
        where: Condition of the rows, as Spark SQL; "" = all.
        version: The Delta version.
        stored: All columns that the table has at that version, with their Spark SQL types.
    """

    table: str
    columns: tuple[str, ...]
    where: str
    version: int
    stored: tuple[tuple[str, str], ...]

    @property
    def query(self) -> str:
        """The SELECT of these rows, of whichever version is the newest."""
        names = ", ".join(map(quoted, self.columns))
        return f"SELECT {names} FROM {path_name(self.table)}" + (f" WHERE {self.where}" if self.where else "")


def find_current(table: str, version: int | None = None) -> CurrentRows:
    """Returns which rows and columns of a table its source has, from its log: without Spark.

    Of a table that keeps versions these are the rows that have not ended, of one with soft deletes those that are not marked.

    Args:
        table: Path or URI of the Delta table.
        version: A Delta version, None for the newest.

    Raises:
        RequestError: there is no Delta table of a pipeline, or it does not have the version, or not any more.
    """
    log = DeltaLog(table)
    newest = log.newest()
    at = newest if version is None or newest is None else _checked_version(log, newest, version)
    state = None if at is None else log.state(at)
    if at is None or state is None or not state.property(OWNER_TABLE):
        raise RequestError(
            f"No Delta table of a pipeline exists at {table}.",
            data="Nothing was read.",
            next="Correct the path: 'path' of the table in the pipeline file, or its folder below 'root' of the target."
            " To load it first: cdc-ops run",
        )
    record = newest_record(log, at)
    own, marker = (record.columns.own, record.columns.deleted_column.lower()) if record else (DEFAULT_COLUMNS, "")
    stored = {name.lower(): name for name, _ in state.columns()}
    conditions = [f"{quoted(END)} IS NULL"] if END.lower() in stored else []
    conditions += [f"NOT COALESCE({quoted(stored[marker])}, FALSE)"] if marker in stored else []
    columns = tuple(name for lower, name in stored.items() if lower != marker and not own.is_own(name))
    return CurrentRows(table=table, columns=columns, where=" AND ".join(conditions), version=at, stored=state.columns())


def _checked_version(log: DeltaLog, newest: int, version: int) -> int:
    """Returns a version whose rows can be read.

    Raises:
        RequestError: the table does not have it yet, or not any more.
    """
    if version > newest:
        why = f"Its newest version is {newest}."
    else:
        try:
            log.state(version)
            gone = missing_files(log.path, [unquote(add["path"]) for add in log.adds(version)]) if version < newest else None
        except StateError:
            why = "Delta has removed the old commits of its log, after 'delta.logRetentionDuration'."
        else:
            if not gone:
                return version
            why = f"VACUUM has removed files of that version, for example {min(gone)}."
    raise RequestError(
        f"The Delta table {log.path} does not have version {version}.",
        why=why,
        data="Nothing was read.",
        next="Choose another version: 'cdc-ops runs --table' shows those that runs have made.",
    )


def current(spark: "SparkSession", table: str) -> "DataFrame":
    """Returns the rows of a table as its source has them, or had them when it was last read, in the columns of the source.

    Args:
        spark: A session with Delta.
        table: Path or URI of the Delta table.

    Raises:
        RequestError: there is no Delta table of a pipeline.
    """
    found = find_current(table)
    return _rows(spark.read.format("delta").load(table), found).select(*map(quoted, found.columns))


def _rows(rows: "DataFrame", found: CurrentRows) -> "DataFrame":
    return rows.where(found.where) if found.where else rows


def find_rows(spark: "SparkSession", found: CurrentRows, columns: Sequence[str], values: Sequence[tuple[str, str]]) -> "DataFrame":
    """Returns the rows of a version in which columns have some values.

    Args:
        spark: A session with Delta.
        found: Table and version.
        columns: The columns to return, as they are stored.
        values: Names of stored columns and their values as text, each as Spark casts it to the column's type.

    Raises:
        RequestError: a text is no value of its column's type.
    """
    from pyspark.sql import functions as F

    rows = _rows(spark.read.format("delta").option("versionAsOf", found.version).load(found.table), found)
    kinds = dict(found.stored)
    for name, text in values:
        value = F.lit(text).try_cast(kinds[name])
        if kinds[name].startswith(_NO_TEXT) or spark.range(1).select(value.isNull()).first() == (True,):
            raise RequestError(
                f"{text!r} is not a value of column {name!r}, which is {kinds[name]}.",
                data="Nothing was read.",
                next="Write numbers with a point, times as 2026-01-31 10:15:00 in UTC, and binary columns not at all.",
            )
        rows = rows.where(F.col(quoted(name)) == value)
    return rows.select(*map(quoted, columns))


def row_texts(rows: "DataFrame") -> list[tuple[str | None, ...]]:
    """Returns the values of rows as text, None for NULL; binary ones in hexadecimal digits."""
    from pyspark.sql import functions as F

    texts = (F.hex(quoted(name)) if kind == "binary" else F.col(quoted(name)).cast("string") for name, kind in rows.dtypes)
    return [tuple(row) for row in rows.select(*texts).collect()]


def json_texts(rows: "DataFrame") -> list[str]:
    """Returns each row as a JSON object, whole and exact."""
    from pyspark.sql import functions as F

    from cdc_ops.lake.spark.expressions import EXACT_JSON

    return [row[0] for row in rows.select(F.to_json(F.struct(*map(quoted, rows.columns)), EXACT_JSON)).collect()]


def view_statement(name: str, table: str) -> str:
    """Returns the statement that makes a view of a table's current rows; it holds until the source has other columns.

    Args:
        name: Of the view: one to three identifiers with dots between them.
        table: Path or URI of the Delta table.

    Raises:
        RequestError: the name is none, or there is no Delta table of a pipeline.
    """
    parts = name.split(".")
    if len(parts) > 3 or not all(part.strip() for part in parts):
        raise RequestError(
            f"{name!r} is not a valid name of a view.",
            data="Nothing was read.",
            next="Name it as view, schema.view or catalog.schema.view.",
        )
    found = find_current(table)
    return f"CREATE OR REPLACE VIEW {'.'.join(map(quoted, parts))} AS\n{found.query}"
