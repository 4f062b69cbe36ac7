"""The current rows of a table for readers: without old versions and deleted rows. Reads only."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc_ops.core.apply.metadata_columns import DEFAULT_COLUMNS, END
from cdc_ops.core.text import quoted
from cdc_ops.errors import RequestError
from cdc_ops.lake.log.change_feed_log import newest_record
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.log.head import OWNER_TABLE
from cdc_ops.lake.sql_text import path_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRows:
    """The rows and columns of a table that its source has.

    Args:
        table: Path or URI of the Delta table.
        columns: The columns of the source.
        where: Condition of the rows, as Spark SQL; "" = all.
    """

    table: str
    columns: tuple[str, ...]
    where: str

    @property
    def query(self) -> str:
        """The SELECT of these rows."""
        names = ", ".join(map(quoted, self.columns))
        return f"SELECT {names} FROM {path_name(self.table)}" + (f" WHERE {self.where}" if self.where else "")


def find_current(table: str) -> CurrentRows:
    """Returns which rows and columns of a table its source has, from its log: without Spark.

    Of a table that keeps versions these are the rows that have not ended, of one with soft deletes those that are not marked.

    Args:
        table: Path or URI of the Delta table.

    Raises:
        RequestError: there is no Delta table of a pipeline.
    """
    log = DeltaLog(table)
    version = log.newest()
    state = None if version is None else log.state(version)
    if version is None or state is None or not state.property(OWNER_TABLE):
        raise RequestError(
            f"No Delta table of a pipeline exists at {table}.",
            data="Nothing was read.",
            next="Use the path of a table: its 'path' in the pipeline file, or its folder below 'root' of the target.",
        )
    record = newest_record(log, version)
    own, marker = (record.columns.own, record.columns.deleted_column.lower()) if record else (DEFAULT_COLUMNS, "")
    stored = {name.lower(): name for name, _ in state.columns()}
    conditions = [f"{quoted(END)} IS NULL"] if END.lower() in stored else []
    conditions += [f"NOT COALESCE({quoted(stored[marker])}, FALSE)"] if marker in stored else []
    columns = tuple(name for lower, name in stored.items() if lower != marker and not own.is_own(name))
    return CurrentRows(table=table, columns=columns, where=" AND ".join(conditions))


def current(spark: "SparkSession", table: str) -> "DataFrame":
    """Returns the rows of a table as its source has them, or had them when it was last read, in the columns of the source.

    Args:
        spark: A session with Delta.
        table: Path or URI of the Delta table.

    Raises:
        RequestError: there is no Delta table of a pipeline.
    """
    found = find_current(table)
    rows = spark.read.format("delta").load(table)
    return (rows.where(found.where) if found.where else rows).select(*map(quoted, found.columns))


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
