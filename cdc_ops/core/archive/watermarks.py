"""Positions in archives: offset ranges of files, watermarks of streams, gaps and accepted gaps. Pure.

A *stream* is one sequence of positions: a partition of a topic (offsets), the binlogs of one server (file number, offset in the file), a
domain of MariaDB (sequence numbers), a server UUID of MySQL (transaction numbers). Positions are tuples of whole numbers and compare as
such. Intervals are half-open: `[low, high)`.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from cdc_ops.core.archive.binlogs.binlog_facts import BinlogFacts

Position = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """The positions of one stream that a file holds.

    Args:
        file: Its path, relative to the archive's root.
        stream: Which sequence.
        low: Its first position: whatever comes before it lies in other files.
        high: The first position after it, None while only its contents can tell. `high == low` holds nothing.
        missing: Why what lies before it is missing, in words; "" = no file has it.
    """

    file: str
    stream: str
    low: Position
    high: Position | None
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Positions that no file covers although a later file exists.

    Args:
        stream: Which sequence.
        low, high: The first position that is missing, and the first one after it that is there.
        after_file: The file that ends at `low`, "" if that is the watermark.
        before_file: A file that begins at `high`; the same as `after_file` if it lies within one.
        reason: Why, in words; "" = no file has it.
    """

    stream: str
    low: Position
    high: Position
    after_file: str = ""
    before_file: str = ""
    reason: str = ""

    @property
    def is_within_a_file(self) -> bool:
        """True if a file holds what lies before it and what lies behind it."""
        return bool(self.after_file) and self.after_file == self.before_file

    def __str__(self) -> str:
        after = f"after {self.after_file}" if self.after_file else "after the watermark"
        where = f"in {self.after_file}" if self.is_within_a_file else f"{after}, before {self.before_file}"
        low, high = format_position(self.low), format_position(self.high)
        return f"{self.stream}: {low} up to, not including, {high} ({where}{': ' if self.reason else ''}{self.reason})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedGap:
    """A decision to accept the loss of positions that no file covers.

    Args:
        stream, low, high: What is given up; nothing beyond it is.
        who: Who decided.
        at: When, by the ledger's clock, UTC.
        why: Their reason.
    """

    stream: str
    low: Position
    high: Position
    who: str
    at: datetime
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWatermark:
    """The position up to which one stream is complete.

    Args:
        stream: Which.
        to: Every position from `since` up to here is in the table, was accepted as missing, or never existed.
        since: Where the table began with the stream, if that was wherever its archive began; files from before may still turn up. None
            if nothing before `to` is wanted from the archive: the stream began there, or a snapshot holds it.
    """

    stream: str
    to: Position
    since: Position | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEvent:
    """The newest change of a stream: its position in the order of events, and its time at the source.

    Args:
        stream: Which; "" for files whose names tell none.
        place: The largest position among its changes.
        at: The latest time among them, UTC; None if events do not tell.
    """

    stream: str
    place: Position
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveWatermark:
    """The positions up to which a table has all events of its archive; the commit of the rows carries it.

    Args:
        streams: One each, sorted by name.
        gtids: Of binlogs: the server that wrote the last one, and all transactions up to its end; "" for other archives.
        accepted: Gaps that were signed off and passed, so that the decision survives the ledger.
        newest: The newest change of each stream that the table has, sorted by name.
        last_binlog: What the last binlog says of itself; None for other archives, and where it is not known.
    """

    streams: tuple[PartitionWatermark, ...] = ()
    gtids: str = ""
    accepted: tuple[AcceptedGap, ...] = ()
    newest: tuple[LastEvent, ...] = ()
    last_binlog: BinlogFacts | None = None

    def position_of(self, stream: str) -> Position | None:
        """Returns the position up to which a stream is complete, None if none of it was read yet."""
        return next((reached.to for reached in self.streams if reached.stream == stream), None)

    def since(self, stream: str) -> Position | None:
        """Returns the position at which the table started with a stream, None if it has all events before the watermark."""
        return next((reached.since for reached in self.streams if reached.stream == stream), None)


def format_position(position: Position) -> str:
    """Returns a position as text: an offset, or `file number:offset`.

    >>> format_position((4711,)), format_position((3, 120))
    ('4711', '3:120')
    """
    return ":".join(map(str, position))


def parse_position(text: str) -> Position:
    """Parses the text that `shown` returns.

    Raises:
        ValueError: it is not whole numbers, separated by colons.

    Positions compare as numbers, so file 10 comes after file 9:

    >>> parse_position("9:500") < parse_position("10:4")
    True
    """
    position = tuple(int(part) for part in text.split(":"))
    if any(part < 0 for part in position):
        raise ValueError(f"{text!r} is negative")
    return position


def advanced(before: ArchiveWatermark, reached: tuple[PartitionWatermark, ...], used: tuple[AcceptedGap, ...] = ()) -> ArchiveWatermark:
    """Returns the watermark after a batch. No stream moves backwards, and accepted gaps are kept.

    Args:
        before: The watermark that the batch started from.
        reached: How far its files are proven to be complete.
        used: Decisions that the proof relied on.

    >>> before = ArchiveWatermark(streams=(PartitionWatermark(stream="orders-0", to=(100,)),))
    >>> after = advanced(before, (PartitionWatermark(stream="orders-0", to=(90,)), PartitionWatermark(stream="orders-1", to=(7,))))
    >>> [(item.stream, item.to) for item in after.streams]
    [('orders-0', (100,)), ('orders-1', (7,))]
    """
    furthest = {item.stream: item for item in before.streams}
    for item in reached:
        known = furthest.get(item.stream, item)
        furthest[item.stream] = replace(known, to=max(item.to, known.to))
    return ArchiveWatermark(
        streams=tuple(furthest[name] for name in sorted(furthest)),
        gtids=before.gtids,
        accepted=tuple(dict.fromkeys((*before.accepted, *used))),
        newest=before.newest,
        last_binlog=before.last_binlog,
    )
