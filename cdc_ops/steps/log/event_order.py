"""Positions of landed events, file by file, for `core.events.event_order`: are they old events, or another server's? Runs in Spark."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from cdc_ops.core.archive.file_names import BinlogName, KafkaName
from cdc_ops.core.archive.offsets import LastEvent
from cdc_ops.core.events.event_order import FilePositions, check_positions_advance
from cdc_ops.core.events.format_spec import EventOperation, RecordKind
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.merge_plan import position_literal
from cdc_ops.core.operation.operation import Operation
from cdc_ops.formats.feed.fold import place_of


def order_columns(feed: DataFrame, log: LogBatch, names: Mapping[str, KafkaName | BinlogName]) -> tuple[Column, ...]:
    """Returns what `check_order` needs of each file: aggregates of the landed feed by `file`.

    Args:
        feed: The landed feed.
        log: What was read.
        names: What the names of its files say.
    """
    streams, stream = _streams(names), F.lit("")
    if streams:
        pairs = [F.lit(text) for pair in streams.items() for text in pair]
        stream = F.coalesce(F.try_element_at(F.create_map(*pairs), F.col("file")), F.lit(""))
    change = (F.col("kind") == RecordKind.CHANGE) & (F.col("op") != EventOperation.READ)
    below = change & _below(stream, {item.stream: item for item in log.before.newest}, place_of(feed))
    return (
        F.max(F.when(change, place_of(feed))).alias("place"),
        F.count_if(below).alias("behind"),
        moment(F.max(F.when(change, F.col("source_time")))).alias("at"),
        moment(F.max(F.when(below, F.col("source_time")))).alias("behind_at"),
    )


def check_order(
    rows: Iterable[Row], operation: Operation, log: LogBatch, names: Mapping[str, KafkaName | BinlogName]
) -> tuple[tuple[LastEvent, ...], int]:
    """Returns the newest change of each stream once a feed is merged, and how many changes are older than what the table has.

    Args:
        rows: One per file, with `file` and the `order_columns`.
        operation: Whose, for messages.
        log: What was read.
        names: What the names of its files say.

    Raises:
        ArchiveOrderError: changes that are newer by the source's clock have smaller positions.
    """
    streams = _streams(names)
    found = [
        FilePositions(
            file=row["file"],
            stream=streams.get(row["file"], ""),
            place=tuple(row["place"]),
            at=instant(row["at"]),
            behind=row["behind"],
            behind_at=instant(row["behind_at"]),
        )
        for row in rows
        if row["place"]
    ]
    starts = {path: name.start_offset if isinstance(name, KafkaName) else name.number for path, name in names.items()}
    found.sort(key=lambda one: (one.stream, starts.get(one.file, 0), one.file))
    newest = check_positions_advance(operation.pipeline, str(operation.table), found, log.before.newest, declared=bool(log.declared))
    return newest, sum(one.behind for one in found)


def _streams(names: Mapping[str, KafkaName | BinlogName]) -> dict[str, str]:
    return {path: name.stream for path, name in names.items()}


def _below(stream: Column, before: Mapping[str, LastEvent], place: Column) -> Column:
    """True for a change below the newest one of its stream before the batch."""
    below = F.lit(False)
    for name, newest in before.items():
        below = below | ((stream == name) & (place < F.expr(position_literal(newest.place))))
    return below


def moment(value: Column) -> Column:
    """Returns an instant as text in UTC, whatever the zone of the Python process is."""
    return F.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")


def instant(text: str | None) -> datetime | None:
    """Returns the instant of a `moment`."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None
