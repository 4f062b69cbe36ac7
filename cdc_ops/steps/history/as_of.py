"""The rows of a table at a time of its source, from its event history. Runs in Spark.

Delta's own time travel tells what the lake held at a time: what had been merged by then, as long as VACUUM leaves it. This tells what the
source held: an event counts from when the source made it, whenever it came.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import DEFAULT_COLUMNS
from cdc_ops.core.events.event_history import EVENT_HISTORY, parse_point
from cdc_ops.core.operation.log_batch import PRESENT
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.core.text import quoted
from cdc_ops.errors import HistoryUnavailableError, RequestError
from cdc_ops.events.fold.rules import FoldRules
from cdc_ops.lake.history.read import History, find_history, history_schema, until, with_pending
from cdc_ops.lake.history.rows import Kept
from cdc_ops.lake.log.change_feed_log import newest_record
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.log.head import OWNER_TABLE
from cdc_ops.steps.history.folded_history import fold_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NOTHING: Final = "Nothing was read; the table is as it was."


def as_of(spark: "SparkSession", table: str, at: str | datetime, *, history: str = "", apply_as_deletes: str = "") -> "DataFrame":
    """Returns the rows that the source had at a point, one for each key, from the table's event history.

    Args:
        spark: A session with Delta.
        table: Path or URI of the Delta table.
        at: An aware instant, as the source's clock shows it, or `position:3,154`, a place in the order of events; what happened at it is
            included. Rows that something else than an event brought (a reconcile, a resync) count from when they were committed.
        history: Folder of the history, if the lake was moved; default what the table's property `cdc_ops.event_history` says.
        apply_as_deletes: The table's condition of that name, if it has one: rows that it is true of are gone.

    Returns:
        The columns of the table, without those that cdc-ops adds, as the events of that time had them. A column that came later is NULL.
        A small history is read at once, and so is one that executors cannot fold, because their Python has no cdc-ops.

    Raises:
        RequestError: there is no such table, or `at` is no point.
        HistoryUnavailableError: the table keeps no event history, or it begins later.
        ChangesUnavailableError: rows were changed by something else than events since the last one, and what was changed is gone.
    """
    point = parse_point(at)
    log = DeltaLog(table)
    newest = log.newest()
    if newest is None:
        raise RequestError(f"There is no Delta table at {table}.", data=_NOTHING, next="Load it first: cdc-ops run")
    state = log.state(newest)
    root = history or state.property(EVENT_HISTORY)
    if not root:
        raise HistoryUnavailableError(
            f"{table} keeps no event history.",
            data=_NOTHING,
            next="Set 'event_history: true' for the table, which has to have 'method: log': it begins with the next run.",
        )
    found = find_history(spark, root, point, table)
    record = newest_record(log, newest)
    deleted_column, own = (record.columns.deleted_column, record.columns.own) if record is not None else ("", DEFAULT_COLUMNS)
    kept = replace(_kept(table, found, TableName.parse(state.property(OWNER_TABLE))), deleted_column=deleted_column, sequence=own.sequence)
    rows = with_pending(spark, kept, found, point) if found.newest else found.rows
    names = [name for name, _ in state.columns() if not own.is_own(name) and name != deleted_column]
    folded = fold_rows(until(found, rows, point), FoldRules(schema=kept.schema, keys=kept.keys, order=()), (found.path, table))
    return _rows(folded, kept.schema, names, apply_as_deletes)


def _kept(path: str, history: History, name: TableName) -> Kept:
    """The table as its history has it: with all columns that it ever had."""
    schema, now = history_schema(history.path, name), datetime.now(UTC)
    return Kept(path=path, schema=schema, keys=schema.primary_key, op_seq=history.begin.op_seq, at=now)


def _rows(folded: "DataFrame", schema: TableSchema, names: list[str], apply_as_deletes: str) -> "DataFrame":
    living = folded.where(~F.col(DELETE_MARK))
    told = {column.name.lower(): column.name for column in schema.columns}
    row = F.struct(*(F.col(quoted(name)) for name in schema.names)).alias("row")
    lost = F.raise_error(F.lit(f"An event changes a row of {schema.table} that the event history does not have."))
    known = living.select(PRESENT, row)
    rows = known.select(F.when(F.col(PRESENT).isNull(), F.col("row")).otherwise(lost.cast(known.schema["row"].dataType)).alias("row"))
    rows = rows.select("row.*")
    if apply_as_deletes:
        rows = rows.where(f"NOT COALESCE({apply_as_deletes}, FALSE)")
    return rows.select(*(F.col(quoted(told[name.lower()])).alias(name) for name in names if name.lower() in told))
