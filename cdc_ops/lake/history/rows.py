"""Rows of an event history (`core.events.event_history`): events of a batch, states of rows that no event made. Runs in Spark.

event_date     date           the day of `happened_at`, UTC; the table is partitioned by it
op_seq         bigint         number of the operation that brought it
kind           string         begin, state, change, ddl
op             string         r c u d t
position       array<bigint>  place in the order of events; of a state the place of the last event that is in it, NULL = before all
identity       array<bigint>  of an event the same however often it is delivered
happened_at    timestamp      when the source made it, or where no record tells, when it was read; of a state when it was committed
source_time    timestamp      when the source made it, as the event says
table_version  bigint         of a state: Delta version of the table that it was made by
key, previous_key, before, after    structs, as in the canonical feed
present        array<string>  columns of `after` that it speaks of; of a begin the columns that the table had
nulled         array<string>  columns whose value no stored type holds and for which NULL stands
snapshot, transaction, ddl, file, line    as in the canonical feed
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from cdc_ops.core.apply.metadata_columns import END, SEQUENCE, START, TOUCHED
from cdc_ops.core.change_range import Bound, BoundKind
from cdc_ops.core.events.change_feed import key_columns, struct_type
from cdc_ops.core.events.event_history import Begin, HistoryCheckpoint, HistoryKind
from cdc_ops.core.events.format_spec import EventOperation, FormatSpec, RecordKind
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.protocol.commit_json import parse_record
from cdc_ops.core.schema.tables import Column as TableColumn
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.core.text import quoted
from cdc_ops.errors import ChangesUnavailableError
from cdc_ops.lake.log.change_feed_log import find_range
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.read.change_feed import raw_feed
from cdc_ops.lake.table.live_rows import is_marked

MICROS: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
"""How instants are collected: as text, which no zone of a driver bends."""
STRUCTS: Final = ("key", "previous_key", "before", "after")
_TYPES: Final = {
    "event_date": "date",
    "op_seq": "bigint",
    "kind": "string",
    "op": "string",
    "position": "array<bigint>",
    "identity": "array<bigint>",
    "happened_at": "timestamp",
    "source_time": "timestamp",
    "table_version": "bigint",
    "key": "",
    "previous_key": "",
    "before": "",
    "after": "",
    "present": "array<string>",
    "nulled": "array<string>",
    "snapshot": "boolean",
    "transaction": "string",
    "ddl": "string",
    "file": "string",
    "line": "bigint",
}
_LOW: Final = 10**18
FROM_EVENTS: Final = (OperationKind.INCREMENT, OperationKind.REPLAY)
"""Operations whose commits bring nothing that is not an event of the history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The table whose history it is, as an operation finds it.

    Args:
        path: The Delta table.
        schema: What is read of a row: its columns, without those that cdc-ops adds, and those that are not stored.
        keys: Its keys.
        op_seq: Number of the operation.
        at: When the operation was planned, UTC.
        deleted_column: Column that marks deleted rows, "" if there is none.
        sequence: Column of a table of type 1 that keeps the place of a row's last event.
    """

    path: str
    schema: TableSchema
    keys: tuple[str, ...]
    op_seq: int
    at: datetime
    deleted_column: str = ""
    sequence: str = SEQUENCE

    @classmethod
    def of(cls, operation: Operation) -> "Kept":
        """The table of an operation."""
        return cls(
            path=operation.target.path,
            schema=operation.full_schema,
            keys=operation.apply.keys,
            op_seq=operation.op_seq,
            at=operation.plan.planned_at,
            deleted_column=operation.apply.deleted_column,
            sequence=operation.apply.stored_as.own.sequence,
        )


def column_types(schema: TableSchema, keys: Iterable[str]) -> dict[str, str]:
    """Returns name and type of the columns of a history."""
    row, key = struct_type(schema.columns), struct_type(key_columns(schema, keys))
    own = {"key": key, "previous_key": key, "before": row, "after": row}
    return {name: kind or own[name] for name, kind in _TYPES.items()}


def event_rows(feed: DataFrame, place: Column, identity: Column, table: Kept) -> DataFrame:
    """Returns the changes and statements of a landed feed; delivered twice, they are one.

    Args:
        feed: The feed, with all that `column_types` names.
        place: The numbers of its positions, most significant first.
        identity: What tells an event of a key from others.
        table: The table, as the operation that read it finds it.
    """
    told = F.col("kind").isin(RecordKind.CHANGE.value, RecordKind.DDL.value) & F.col("position").isNotNull()
    happened = F.coalesce(F.col("source_time"), F.lit(table.at))
    columns = {
        "event_date": F.to_date(happened),
        "op_seq": F.lit(table.op_seq),
        "position": place,
        "identity": identity,
        "happened_at": happened,
        "table_version": F.lit(None),
    }
    kinds = column_types(table.schema, table.keys)
    rows = feed.where(told).select(*(columns.get(name, F.col(name)).cast(kind).alias(name) for name, kind in kinds.items()))
    return rows.dropDuplicates(["kind", "identity", "key"])


def identity_of(rows: DataFrame, spec: FormatSpec) -> Column:
    """Returns numbers that identify an event of a key: the same for each delivery of the event, different for other events of that key."""
    content = F.xxhash64("op", "previous_key", "after", "present")
    return F.concat(place_of(rows, [field.name for field in spec.order if field.of_delivery]), F.array(content))


def place_of(rows: DataFrame, without: Iterable[str] = ()) -> Column:
    """Returns the fields of `position`, most significant first, as an array of bigint: one type for all formats.

    A decimal with more digits than a bigint becomes two numbers: the leading digits, and the last 18 digits.

    Args:
        rows: Rows with `position`.
        without: Fields of `position` to leave out.
    """
    numbers: list[Column] = []
    for field in rows.select("position.*").schema.fields:
        if field.name in without:
            continue
        number = F.col("position")[field.name]
        if isinstance(field.dataType, DecimalType):
            head = F.call_function("div", number, F.lit(_LOW).cast("decimal(38,0)"))
            numbers += [F.when(number < 0, -1).otherwise(head), F.pmod(number, F.lit(_LOW).cast("decimal(38,0)"))]
        else:
            numbers.append(number)
    return F.array(*(number.cast("bigint") for number in numbers))


def begin_row(spark: SparkSession, begin: Begin) -> DataFrame:
    """Returns the row that says where a history begins; columns that it lacks are NULL."""
    return spark.range(1).select(
        F.to_date(F.lit(begin.at)).alias("event_date"),
        F.lit(begin.op_seq).cast("bigint").alias("op_seq"),
        F.lit(HistoryKind.BEGIN.value).alias("kind"),
        (F.array(*map(F.lit, begin.place)) if begin.place else F.lit(None)).cast("array<bigint>").alias("position"),
        F.lit(begin.at).alias("happened_at"),
        F.lit(begin.version).cast("bigint").alias("table_version"),
        F.array(*map(F.lit, begin.columns)).cast("array<string>").alias("present"),
    )


def first_states(spark: SparkSession, table: Kept, begin: Begin) -> DataFrame:
    """Returns the rows that the table has where its history begins."""
    rows = spark.read.format("delta").option("versionAsOf", begin.version).load(table.path)
    if END in rows.columns:
        rows = rows.where(F.col(END).isNull())
    return _states(rows, table, gone=F.lit(False), version=F.lit(begin.version), at=F.lit(begin.at))


def later_states(spark: SparkSession, table: Kept, since: HistoryCheckpoint, until: int) -> DataFrame | None:
    """Returns what operations changed in a table that bring something else than events, None if there are none.

    What others than cdc-ops change in it is nothing that the source has.

    Args:
        spark: A session.
        table: The table.
        since: Up to where everything is in the history.
        until: Version of the table up to which it is to be.

    Raises:
        ChangesUnavailableError: what they changed was not recorded, or is gone; or there were events since that were not kept.
    """
    versions = _without_events(table, since, until)
    if not versions:
        return None
    ends = (Bound(kind=BoundKind.VERSION, text=str(end), version=end) for end in (versions[0] - 1, versions[-1]))
    feed = raw_feed(spark, table.path, find_range(table.path, *ends)).where(F.col("_commit_version").isin(versions))
    feed = feed.where(F.col("_change_type") != "update_preimage")
    gone = F.col("_change_type") == "delete"
    # A statement that replaces a table deletes and inserts its rows: what was inserted is there.
    last = F.max_by(F.struct(*(F.col(quoted(name)) for name in feed.columns)), F.col("_change_type") != "delete")
    feed = feed.groupBy(*map(quoted, table.keys), "_commit_version").agg(last.alias("last")).select("last.*")
    return _states(feed, table, gone=gone, version=F.col("_commit_version"), at=F.col("_commit_timestamp"))


def placed(states: DataFrame, history: DataFrame) -> DataFrame:
    """Gives states of rows that no event has made the place of the last event of their key, which they come after.

    Args:
        states: What something else than an event has changed.
        history: What came before it.
    """
    events = history.where(F.col("kind") != HistoryKind.BEGIN.value)
    keys = F.explode(F.array_compact(F.array("key", "previous_key"))).alias("__key")
    last = events.select(keys, "position").groupBy("__key").agg(F.max("position").alias("__last"))
    emptied = events.where(F.col("op") == EventOperation.TRUNCATE).agg(F.max("position").alias("__emptied"))
    joined = states.join(last, F.col("key") == F.col("__key"), "left").crossJoin(F.broadcast(emptied))
    place = F.coalesce(F.col("position"), F.greatest("__last", "__emptied"))
    return joined.withColumn("position", place).select(*states.columns)


def _states(rows: DataFrame, table: Kept, *, gone: Column, version: Column, at: Column) -> DataFrame:
    there = {name.lower() for name in rows.columns}
    known = [column for column in table.schema.columns if column.name.lower() in there]
    image = F.struct(*(_value(column, there).alias(column.name) for column in table.schema.columns))
    key = F.struct(*(F.col(quoted(name)).alias(name) for name in table.keys))
    if table.deleted_column.lower() in there:
        gone = gone | is_marked(F.col(quoted(table.deleted_column)))
    values = {
        "kind": F.lit(HistoryKind.STATE.value),
        "op": F.when(gone, EventOperation.DELETE.value).otherwise(EventOperation.READ.value),
        "op_seq": F.lit(table.op_seq),
        "position": _place(there, table.sequence),
        "happened_at": at,
        "table_version": version,
        "key": key,
        "after": F.when(~gone, image),
        "present": F.when(gone, F.array().cast("array<string>")).otherwise(F.array(*(F.lit(column.name) for column in known))),
    }
    return _dated(rows, values, table)


def _value(column: TableColumn, there: set[str]) -> Column:
    return (F.col(quoted(column.name)) if column.name.lower() in there else F.lit(None)).cast(column.delta_type)


def _place(there: set[str], sequence: str) -> Column:
    """Returns the place of the last event that is in a row of the table."""
    if START.lower() in there:
        return F.coalesce(F.try_element_at(F.col(TOUCHED), F.lit(-1)), F.col(START))
    return F.col(quoted(sequence)) if sequence.lower() in there else F.lit(None)


def _dated(rows: DataFrame, values: dict[str, Column], table: Kept) -> DataFrame:
    values = {**values, "event_date": F.to_date(values["happened_at"])}
    kinds = column_types(table.schema, table.keys)
    return rows.select(*(values.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in kinds.items()))


def _without_events(table: Kept, since: HistoryCheckpoint, until: int) -> Sequence[int]:
    """Returns the versions of commits of ours that bring something else than events, oldest first."""
    log, found, last = DeltaLog(table.path), [], until + 1
    for version, info in log.commits(until):
        if version <= since.version:
            break
        last = version
        record = parse_record(info.get("userMetadata"))
        if record is None:
            continue
        if record.kind is OperationKind.INCREMENT and record.op_seq > since.op_seq and record.op_seq != table.op_seq:
            raise _unknown(table, f"the events of operation {record.op_seq} were not recorded: 'event_history' was off.")
        if record.kind not in FROM_EVENTS and log.changes_rows(version):
            found.append(version)
    if since.version < until and last > since.version + 1:
        raise _unknown(table, f"the Delta log of the table starts with version {last}.")
    return sorted(found)


def _unknown(table: Kept, why: str) -> ChangesUnavailableError:
    return ChangesUnavailableError(
        f"The event history of {table.path} lacks changes of the table: {why}",
        why="An event history must contain every change.",
        data="Nothing was written; the watermark stays.",
        next="With 'event_history: true', the next run that has events starts a new history from the current rows.",
    )
