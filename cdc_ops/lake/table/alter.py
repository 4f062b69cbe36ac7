"""Alters a Delta table to the columns of an operation's plan, by separate metadata commits before its statement.

They carry no transaction id and no commit record, change no rows, and each is left out where the table is like that already: a run that
died between two of them, or between them and the statement, goes on where it stopped.
"""

import re
from collections.abc import Mapping
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from cdc_ops.core.events.event_history import EVENT_HISTORY
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.pipeline.table_settings import CHANGE_FEED
from cdc_ops.core.schema.schema_evolution import ChangeKind, SchemaChange
from cdc_ops.core.schema.type_widening import canonical_type, holds
from cdc_ops.core.text import quoted
from cdc_ops.errors import ConfigError
from cdc_ops.lake.log.data_files import partitioning
from cdc_ops.lake.log.delta_log import DeltaLog, LogState
from cdc_ops.lake.sql_text import path_name, text_literal
from cdc_ops.lake.table.columns import column_list, has_statistics, listed_columns

SPECIAL: Final = frozenset(" ,;{}()\n\t=")
"""Characters in column names that need Delta's column mapping."""
INDEXED: Final = "delta.dataSkippingStatsColumns"
MAPPING: Final = "delta.columnMapping.mode"
FILE_RETENTION: Final = "delta.deletedFileRetentionDuration"
LOG_RETENTION: Final = "delta.logRetentionDuration"
_LOG_RETENTION_HOURS: Final = 30 * 24
"""Delta's default; it refuses a log that is kept for less time than removed files are."""
NTZ: Final = "delta.feature.timestampNtz"
MOMENT: Final = "timestamp_ntz"
_WIDENING: Final = "delta.enableTypeWidening"


def alter_table(spark: SparkSession, operation: Operation, state: LogState) -> tuple[tuple[str, str], ...]:
    """Applies the operation's frozen schema changes to a table, except those that it already has.

    Args:
        spark: Any session.
        operation: The frozen operation.
        state: The table's newest metadata.

    Returns:
        Name and type of the columns that the table has then.
    """
    if operation.apply.replaces_schema:
        prepare_replacement(spark, operation, state)
        return state.columns()
    for change in operation.apply.schema_changes:
        statement = _statement(change, {name.lower(): canonical_type(kind) for name, kind in state.columns()})
        if statement is not None:
            enable(spark, operation.target.path, _needed(change, state), state)
            spark.sql(f"ALTER TABLE {path_name(operation.target.path)} {statement}")
            state = _newest(operation.target.path)
    return state.columns()


def record_changes(spark: SparkSession, operation: Operation, state: LogState) -> None:
    """Turns the change feed of a table on and sets its retention, if the operation needs it.

    Its change feed is never switched off.

    Raises:
        ConfigError: the table has a column of a name that the feed needs.
    """
    chosen = dict(operation.target.properties)
    wanted = {CHANGE_FEED: "true"} if chosen.get(CHANGE_FEED, "").lower() == "true" else {}
    if EVENT_HISTORY in chosen:
        wanted[EVENT_HISTORY] = chosen[EVENT_HISTORY]
    wanted |= retention_properties(chosen)
    try:
        enable(spark, operation.target.path, wanted, state)
    except AnalysisException as error:
        raise ConfigError(
            f"The Delta table {operation.target.path} of {operation.table} cannot record a change feed.",
            why=str(error).splitlines()[0],
            data="Nothing was written; the watermark stays.",
            next="Leave 'change_feed' out for this table, or exclude the columns whose names Delta's change feed uses.",
        ) from error


def follow_clustering(spark: SparkSession, operation: Operation, stored: tuple[tuple[str, str], ...]) -> None:
    """Has a table clustered by the columns that the operation names, from its next OPTIMIZE on; a table with partitions stays as it is.

    It is a change of metadata only. A table that is clustered stays so if none are named. Columns that only a replacement of the whole
    table brings are waited for: the operation behind it has the table clustered by them.

    Args:
        spark: Any session.
        operation: The frozen operation.
        stored: Name and type of the table's columns.
    """
    wanted, log = operation.target.cluster_by, DeltaLog(operation.target.path)
    there = {name.lower() for name, _ in stored}
    if not wanted or operation.target.partition_by or any(name.lower() not in there for name in wanted):
        return
    version = log.newest() or 0
    divided = partitioning(log, version)
    if divided.partition_by or divided.cluster_by == wanted:
        return
    state = log.state(version)
    if indexed := listed_columns(state.property(INDEXED)):
        known = {name.lower() for name in indexed}
        more = [name for name in wanted if name.lower() not in known]
        enable(spark, operation.target.path, {INDEXED: column_list([*indexed, *more])} if more else {}, state)
    spark.sql(f"ALTER TABLE {path_name(operation.target.path)} CLUSTER BY ({', '.join(map(quoted, wanted))})")


def retention_properties(chosen: Mapping[str, str]) -> dict[str, str]:
    """Returns for how long removed files and the log are kept, as far as it is chosen: Delta wants the log to be kept as long as files."""
    kept = {name: chosen[name] for name in (FILE_RETENTION, LOG_RETENTION) if name in chosen}
    if _hours(kept.get(FILE_RETENTION, "")) > _LOG_RETENTION_HOURS:
        kept.setdefault(LOG_RETENTION, kept[FILE_RETENTION])
    return kept


def _hours(interval: str) -> int:
    match = re.fullmatch(r"interval (\d+) (hour|day|week)s?", interval.strip().lower())
    return int(match[1]) * {"hour": 1, "day": 24, "week": 168}[match[2]] if match else 0


def _newest(path: str) -> LogState:
    log = DeltaLog(path)
    return log.state(log.newest() or 0)


def _statement(change: SchemaChange, stored: dict[str, str]) -> str | None:
    """Returns the rest of the ALTER TABLE that a change needs; None if the table, whose lower-case columns are given, has it already."""
    column = change.column.lower()
    match change.kind:
        case ChangeKind.ADDED if column not in stored:
            return f"ADD COLUMNS ({quoted(change.column)} {change.after})"
        case ChangeKind.RENAMED if column not in stored and change.before.lower() in stored:
            return f"RENAME COLUMN {quoted(change.before)} TO {quoted(change.column)}"
        case ChangeKind.WIDENED if column in stored and not holds(stored[column], change.after):
            return f"ALTER COLUMN {quoted(change.column)} TYPE {change.after}"
        case _:
            return None


def _needed(change: SchemaChange, state: LogState) -> dict[str, str]:
    needed = {}
    if change.kind is ChangeKind.RENAMED or (change.kind is ChangeKind.ADDED and SPECIAL & set(change.column)):
        needed[MAPPING] = mode if (mode := state.property(MAPPING)) not in {"", "none"} else "name"
    if change.kind is ChangeKind.WIDENED and not state.property(_WIDENING):
        needed[_WIDENING] = "true"
    return needed | (_feature(state) if change.after == MOMENT else {})


def _feature(state: LogState) -> dict[str, str]:
    """The table feature of TIMESTAMP_NTZ, which Delta does not add by itself to a table that is there."""
    return {} if any(canonical_type(kind) == MOMENT for _, kind in state.columns()) else {NTZ: "supported"}


def prepare_replacement(spark: SparkSession, operation: Operation, state: LogState) -> None:
    """Takes columns that the new generation lacks out of those that have statistics: Delta refuses to replace the schema otherwise.

    Names and types that need a feature of Delta's get it.
    """
    if any(canonical_type(column.delta_type) == MOMENT for column in operation.source.schema.columns):
        enable(spark, operation.target.path, _feature(state), state)
    if any(SPECIAL & set(column.name) for column in operation.source.schema.columns) and state.property(MAPPING) in {"", "none"}:
        enable(spark, operation.target.path, {MAPPING: "name"}, state)
    indexed = listed_columns(state.property(INDEXED))
    kept = {column.name.lower() for column in operation.source.schema.columns if has_statistics(column.delta_type)}
    kept -= {name.lower() for name in operation.target.partition_by}
    if all(name.lower() in kept for name in indexed):
        return
    left = column_list(name for name in indexed if name.lower() in kept)
    change = f"SET TBLPROPERTIES ('{INDEXED}' = {text_literal(left)})" if left else f"UNSET TBLPROPERTIES ('{INDEXED}')"
    spark.sql(f"ALTER TABLE {path_name(operation.target.path)} {change}")


def enable(spark: SparkSession, path: str, wanted: dict[str, str], state: LogState) -> None:
    """Sets those of some properties that a table does not have yet."""
    missing = {name: value for name, value in wanted.items() if state.property(name) != value}
    if missing:
        listed = ", ".join(f"{text_literal(name)} = {text_literal(value)}" for name, value in sorted(missing.items()))
        spark.sql(f"ALTER TABLE {path_name(path)} SET TBLPROPERTIES ({listed})")
