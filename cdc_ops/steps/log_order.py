"""Places of a landed feed, file by file: what `core.event_order` needs to tell old events from those of another server. Runs in Spark."""

from collections.abc import Mapping
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.archive_names import KafkaName
from cdc_ops.core.archive_positions import Newest
from cdc_ops.core.event_order import FileChanges, gone_on
from cdc_ops.core.events import Operation, RecordKind
from cdc_ops.core.logs import LogBatch
from cdc_ops.core.merging import position_literal
from cdc_ops.formats.latest import place_of


def check_order(feed: DataFrame, table: str, log: LogBatch, names: Mapping[str, KafkaName]) -> tuple[tuple[Newest, ...], int]:
    """Returns the newest change of each stream once a feed is merged, and how many changes are older than what the table has.

    Args:
        feed: The landed feed.
        table: Whose, for messages.
        log: What was read.
        names: What the names of its files say.

    Raises:
        ArchiveOrderError: changes that are newer by the source's clock have smaller positions.
    """
    before = {item.stream: item for item in log.before.newest}
    streams = {path: name.stream for path, name in names.items()}
    stream = F.lit("")
    if streams:
        pairs = [F.lit(text) for pair in streams.items() for text in pair]
        stream = F.coalesce(F.try_element_at(F.create_map(*pairs), F.col("file")), F.lit(""))
    changes = feed.where((F.col("kind") == RecordKind.CHANGE) & (F.col("op") != Operation.READ))
    below = _below(stream, before, place_of(feed))
    shown = changes.groupBy("file").agg(
        F.max(place_of(feed)).alias("place"),
        F.count_if(below).alias("behind"),
        _moment(F.max("source_time")).alias("at"),
        _moment(F.max(F.when(below, F.col("source_time")))).alias("behind_at"),
    )
    found = [
        FileChanges(
            file=row["file"],
            stream=streams.get(row["file"], ""),
            place=tuple(row["place"]),
            at=_parsed(row["at"]),
            behind=row["behind"],
            behind_at=_parsed(row["behind_at"]),
        )
        for row in shown.collect()
    ]
    starts = {path: name.start_offset for path, name in names.items()}
    found.sort(key=lambda one: (one.stream, starts.get(one.file, 0), one.file))
    return gone_on(table, found, log.before.newest), sum(one.behind for one in found)


def _below(stream: Column, before: Mapping[str, Newest], place: Column) -> Column:
    """True for a change below the newest one of its stream before the batch."""
    below = F.lit(False)
    for name, newest in before.items():
        below = below | ((stream == name) & (place < F.expr(position_literal(newest.place))))
    return below


def _moment(value: Column) -> Column:
    return F.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")


def _parsed(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None
