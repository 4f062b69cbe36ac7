"""Writes the events of a table into its history by an insert-only MERGE, before the commit of the resulting rows. Runs in Spark.

Written before, so that what is in the table is in its history, whenever a process dies. An event that is there already is not inserted
again: a try that is repeated, files that were frozen again, records that were delivered twice change nothing. What something else than an
event has changed in the table since the last batch comes with it, as states (`core.events.event_history`).
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.events.change_feed import key_columns
from cdc_ops.core.events.event_history import Begin, EventHistory, HistoryCheckpoint, parse_checkpoint, render_checkpoint
from cdc_ops.core.operation.operation import Operation, app_id
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.schema.type_widening import canonical_type, holds
from cdc_ops.core.text import quoted
from cdc_ops.errors import ChangesUnavailableError
from cdc_ops.lake.history.rows import MICROS, STRUCTS, Kept, begin_row, column_types, first_states, later_states, placed
from cdc_ops.lake.log.change_feed_log import instant_of
from cdc_ops.lake.log.delta_log import DeltaLog, LogState
from cdc_ops.lake.spark.conf import USER_METADATA
from cdc_ops.lake.spark.session import private_session, shared_view
from cdc_ops.lake.sql_text import path_name
from cdc_ops.lake.table.alter import MAPPING, SPECIAL
from cdc_ops.lake.table.create import translated_conflicts

Field = tuple[str, str]
_IDENTITY: Final = "t.kind = s.kind AND t.identity <=> s.identity AND t.key <=> s.key AND t.table_version <=> s.table_version"


def append_events(spark: SparkSession, operation: Operation, history: EventHistory, events: DataFrame, *, again: bool) -> None:
    """Appends the events of a batch; repeating it changes nothing.

    Args:
        spark: The session of `events`.
        operation: The operation, not committed.
        history: Where.
        events: Rows as `history_rows.event_rows` makes them.
        again: Some of them may have come with an earlier batch.

    Raises:
        LakeConflictError: another process changes the history.
    """
    with translated_conflicts(f"the event history of {operation.table}"):
        fields, version = _follow(spark, operation, history.path), _version(operation.target.path)
        parts = [events, *_states_before(spark, operation, history.path, events, version)]
        rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
        rows = rows.select(*(_aligned(name, fields.get(name, ())) for name in rows.columns))
        conf = {USER_METADATA: render_checkpoint(HistoryCheckpoint(op_seq=operation.op_seq, version=version))}
        with shared_view(rows) as view, private_session(spark, conf) as session:
            where = f"{_IDENTITY} AND ({_may_be_there(operation, events, again=again)})"
            session.sql(f"MERGE INTO {path_name(history.path)} t USING {view} s ON {where} WHEN NOT MATCHED THEN INSERT *").collect()


def read_checkpoint(path: str) -> HistoryCheckpoint | None:
    """Returns up to where everything is in a history, None if it does not tell."""
    log = DeltaLog(path)
    newest = log.newest()
    found = (parse_checkpoint(info.get("userMetadata")) for _, info in log.commits(newest)) if newest is not None else ()
    return next((checkpoint for checkpoint in found if checkpoint is not None), None)


def _may_be_there(operation: Operation, events: DataFrame, *, again: bool) -> str:
    """Returns the condition of what the history may have of a batch's events already, so that files are skipped.

    Nothing but a try that was given up has noted events above the newest one that the table has.
    """
    tried = f"t.op_seq >= {operation.op_seq}"
    if not again:
        return tried
    first, last = events.agg(F.min("event_date"), F.max("event_date")).collect()[0]
    return f"{tried} OR t.event_date BETWEEN DATE'{first}' AND DATE'{last}'" if first is not None else tried


def _states_before(spark: SparkSession, operation: Operation, path: str, events: DataFrame, version: int) -> Iterator[DataFrame]:
    """Yields what the history lacks from before the batch: where it begins, or what was changed without events since the last one."""
    since = read_checkpoint(path)
    if since is not None:
        try:
            states = later_states(spark, Kept.of(operation), since, version)
        except ChangesUnavailableError:
            since = None  # events were not kept for a while, or the last were months ago: it starts again, from the current rows
        else:
            if states is not None:
                yield placed(states, spark.read.format("delta").load(path))
    if since is None:
        begin = _begin(operation, version, events)
        yield begin_row(spark, begin)
        if version >= 0:
            yield first_states(spark, Kept.of(operation), begin)


def _version(path: str) -> int:
    """Returns the newest version of a table, -1 if there is none."""
    version = DeltaLog(path).newest()
    return -1 if version is None else version


def _begin(operation: Operation, version: int, events: DataFrame) -> Begin:
    log = DeltaLog(operation.target.path)
    state = log.state(version) if version >= 0 else LogState()
    newest = max((one.place for one in operation.read.batch.before.newest), default=()) if isinstance(operation.read, ArchiveRead) else ()
    at = instant_of(log.commit_info(version)) if state.transactions.get(app_id(operation.pipeline, operation.table)) is not None else None
    if at is None:  # it begins with the table: at the first event
        first = events.agg(F.date_format(F.min("happened_at"), MICROS)).collect()[0][0]
        at = datetime.fromisoformat(first).replace(tzinfo=UTC) if first else operation.plan.planned_at
    return Begin(op_seq=operation.op_seq, at=at, place=newest, version=version, columns=tuple(name for name, _ in state.columns()))


def _follow(spark: SparkSession, operation: Operation, path: str) -> dict[str, tuple[Field, ...]]:
    """Makes a history, or alters it to the table's columns; returns the fields of its structs."""
    if DeltaLog(path).newest() is None:
        _create(spark, operation, path)
    log = DeltaLog(path)
    state = log.state(log.newest() or 0)
    altered = [line for struct, wanted in _wanted(operation).items() for line in _altered(struct, state.fields(struct), wanted)]
    if altered and any(SPECIAL & set(name) for name in operation.full_schema.names) and state.property(MAPPING) in {"", "none"}:
        altered.insert(0, f"SET TBLPROPERTIES ('{MAPPING}' = 'name')")
    for statement in altered:
        spark.sql(f"ALTER TABLE {path_name(path)} {statement}")
    if altered:
        state = DeltaLog(path).state(DeltaLog(path).newest() or 0)
    return {name: state.fields(name) for name in STRUCTS}


def _create(spark: SparkSession, operation: Operation, path: str) -> None:
    columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in column_types(operation.full_schema, operation.apply.keys).items())
    settings = {
        "delta.enableTypeWidening": "true",
        "delta.feature.timestampNtz": "supported",  # a column may become one later; Delta does not add the feature by itself then
        "delta.dataSkippingStatsColumns": "op_seq,happened_at,kind",
        **({MAPPING: "name"} if any(SPECIAL & set(name) for name in operation.full_schema.names) else {}),
    }
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in settings.items())
    spark.sql(f"CREATE TABLE IF NOT EXISTS {path_name(path)} ({columns}) USING delta PARTITIONED BY (event_date) TBLPROPERTIES ({listed})")


def _wanted(operation: Operation) -> dict[str, list[Field]]:
    row = [(column.name, column.delta_type) for column in operation.full_schema.columns]
    key = [(column.name, column.delta_type) for column in key_columns(operation.full_schema, operation.apply.keys)]
    return {"key": key, "previous_key": key, "before": row, "after": row}


def _altered(struct: str, stored: Iterable[Field], wanted: Iterable[Field]) -> Iterator[str]:
    have = {name.lower(): kind for name, kind in stored}
    for name, kind in wanted:
        known = have.get(name.lower())
        if known is None:
            yield f"ADD COLUMNS ({struct}.{quoted(name)} {kind})"
        elif not holds(canonical_type(known), canonical_type(kind)):
            yield f"ALTER COLUMN {struct}.{quoted(name)} TYPE {kind}"


def _aligned(name: str, fields: tuple[Field, ...]) -> Column:
    """A struct with the fields of the history in their order; others are as they are."""
    if name not in STRUCTS:
        return F.col(name)
    values = (F.col(name)[field].cast(kind).alias(field) for field, kind in fields)
    return F.when(F.col(name).isNotNull(), F.struct(*values)).alias(name)
