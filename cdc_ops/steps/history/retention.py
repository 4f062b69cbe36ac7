"""Maintenance of event histories: small files, and what is older than the retention. Runs in Spark, under the table's lease."""

from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.events.event_history import Begin, EventHistory, HistoryKind, Point, render_checkpoint
from cdc_ops.core.events.format_spec import EventOperation
from cdc_ops.core.operation.log_batch import PRESENT
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.core.text import quoted
from cdc_ops.events.fold.history import RANK
from cdc_ops.events.fold.rules import WHOLE, FoldRules
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.lake.history.read import generations, history_schema, open_history, until
from cdc_ops.lake.history.rows import begin_row
from cdc_ops.lake.history.write import read_checkpoint
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.spark.conf import USER_METADATA
from cdc_ops.lake.spark.session import idempotent_write, private_session, shared_view
from cdc_ops.lake.sql_text import path_name
from cdc_ops.lake.table.create import translated_conflicts
from cdc_ops.steps.history.folded_history import fold_rows

_SLACK: Final = 10
"""States are made for a tenth of the retention at once: making them reads all that is older."""


def maintain_history(spark: SparkSession, history: EventHistory, table: TableName, now: datetime) -> None:
    """Puts small files together, and makes states of the events that are older than the retention.

    Args:
        spark: Any session.
        history: The history of a table that nobody else works on.
        table: Whose, for messages.
        now: The time, UTC.

    Raises:
        LakeConflictError: another process changes the history.
    """
    if DeltaLog(history.path).newest() is None:
        return
    cut = datetime.combine((now - history.retention).date(), time(0), UTC)
    with translated_conflicts(f"the maintenance of the event history of {table}"):
        shorten(spark, history, cut)
        with private_session(spark, {USER_METADATA: _same(history.path)}) as session:
            session.sql(f"OPTIMIZE {path_name(history.path)}").collect()
            session.sql(f"VACUUM {path_name(history.path)}").collect()
    _forget(spark, history, cut)


def shorten(spark: SparkSession, history: EventHistory, cut: datetime) -> bool:
    """Makes states of the rows at a time, and removes the events before it, once enough of them are there.

    The states are there before the events go: a process that dies in between leaves both, which come to the same.

    Args:
        spark: Any session.
        history: The history.
        cut: The time, midnight UTC.

    Returns:
        True if something was removed.
    """
    opened = open_history(spark, history.path)
    begin = opened.begin
    if begin.at > cut - max(history.retention / _SLACK, timedelta(days=1)):
        return False
    before = until(opened, opened.rows, Point(text="", at=cut - timedelta(microseconds=1)))
    schema = history_schema(history.path)
    folded = fold_rows(before, FoldRules(schema=schema, keys=schema.primary_key, order=(), states=True), (history.path,))
    later = Begin(op_seq=begin.op_seq, at=cut, place=begin.place, version=begin.version, columns=begin.columns)
    rows = _states(folded, schema, later).unionByName(begin_row(spark, later), allowMissingColumns=True)
    told = {USER_METADATA: _same(history.path)}
    own = idempotent_write("cdc-ops/shorten", cut.date().toordinal())
    with shared_view(rows) as view, private_session(spark, {**own, **told}) as session:
        session.table(view).write.format("delta").mode("append").save(history.path)
    with private_session(spark, told) as session:
        session.sql(f"DELETE FROM {path_name(history.path)} WHERE event_date < DATE'{cut.date()}'").collect()
    return True


def _states(folded: DataFrame, schema: TableSchema, begin: Begin) -> DataFrame:
    """The last states of all keys; deletes stay once, for changes that come late."""
    gone, every = F.col(DELETE_MARK), F.array(*map(F.lit, schema.names))
    op = F.when(gone, EventOperation.DELETE.value).when(F.col(WHOLE), EventOperation.READ.value).otherwise(EventOperation.UPDATE.value)
    present = F.when(gone, F.array().cast("array<string>")).otherwise(F.coalesce(PRESENT, every))
    key, row = (F.struct(*(F.col(quoted(name)) for name in names)) for names in (schema.primary_key, schema.names))
    return folded.where(~gone | (F.col(RANK) == 0)).select(
        F.lit(begin.at).cast("date").alias("event_date"),
        F.lit(begin.op_seq).cast("bigint").alias("op_seq"),
        F.lit(HistoryKind.STATE.value).alias("kind"),
        op.alias("op"),
        F.col(SEQUENCE).alias("position"),
        F.lit(begin.at).alias("happened_at"),
        F.lit(begin.version).cast("bigint").alias("table_version"),
        key.alias("key"),
        F.when(~gone, row).alias("after"),
        present.alias("present"),
    )


def _forget(spark: SparkSession, history: EventHistory, cut: datetime) -> None:
    """Removes the histories of generations whose successor begins before a time."""
    known = [path for path in generations(history.root) if DeltaLog(path).newest() is not None]
    for path, successor in pairwise(known):
        begun = open_history(spark, successor).begin.at
        if begun < cut:
            filesystem, inner = open_filesystem(path)
            filesystem.rm(inner, recursive=True)


def _same(path: str) -> str:
    """What a commit says that brings nothing new: what the newest one has said."""
    checkpoint = read_checkpoint(path)
    return render_checkpoint(checkpoint) if checkpoint is not None else ""
