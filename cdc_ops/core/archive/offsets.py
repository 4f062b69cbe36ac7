"""Positions in archives: what a file covers, up to where a table has everything, and which gaps somebody has signed off. Pure.

A *stream* is one sequence of positions: a partition of a topic (offsets), the binlogs of one server (file number, offset in the file), a
domain of MariaDB (sequence numbers), a server UUID of MySQL (transaction numbers). Positions are tuples of whole numbers and compare as
such. Intervals are half-open: `[low, high)`.
"""

from dataclasses import dataclass, replace
from datetime import datetime

Position = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """What a file holds of one stream.

    Args:
        file: Its path, relative to the archive's root.
        stream: Which sequence.
        low: Its first position: whatever comes before it lies in other files.
        high: The first position after it, None while only its contents can tell. `high == low` holds nothing.
    """

    file: str
    stream: str
    low: Position
    high: Position | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Positions that no file covers, although a file covers what comes after them.

    Args:
        stream: Which sequence.
        low, high: The first position that is missing, and the first one after it that is there.
        after_file: The file that ends at `low`, "" if that is the watermark.
        before_file: A file that begins at `high`.
    """

    stream: str
    low: Position
    high: Position
    after_file: str = ""
    before_file: str = ""

    def __str__(self) -> str:
        after = f"after {self.after_file}" if self.after_file else "after the watermark"
        return f"{self.stream}: {shown(self.low)} up to, not including, {shown(self.high)} ({after}, before {self.before_file})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedGap:
    """A decision that positions which no file covers may be missing for good.

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
    """How far one stream is complete.

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
    """The newest change of a stream: where it stands in the order of events, and when the source made it.

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
    """Up to where a table has everything that its archive holds; it travels in the commit that brought the rows.

    Args:
        streams: One each, sorted by name.
        gtids: Always "", since no format reads binlogs. Kept because every commit carries it; it would hold a set of MySQL's GTIDs as text.
        accepted: Gaps that were signed off and passed, so that the decision survives the ledger.
        newest: The newest change of each stream that the table has, sorted by name.
    """

    streams: tuple[PartitionWatermark, ...] = ()
    gtids: str = ""
    accepted: tuple[AcceptedGap, ...] = ()
    newest: tuple[LastEvent, ...] = ()

    def of(self, stream: str) -> Position | None:
        """Returns how far a stream is complete, None if nothing of it was read yet."""
        return next((reached.to for reached in self.streams if reached.stream == stream), None)

    def since(self, stream: str) -> Position | None:
        """Returns where the table began with a stream, None if it has everything before the watermark."""
        return next((reached.since for reached in self.streams if reached.stream == stream), None)


def shown(position: Position) -> str:
    """Returns a position the way people write it: an offset, or `file number:offset`.

    >>> shown((4711,)), shown((3, 120))
    ('4711', '3:120')
    """
    return ":".join(map(str, position))


def parse_position(text: str) -> Position:
    """Reads what `shown` writes.

    Raises:
        ValueError: it is not whole numbers, separated by colons.

    Positions compare as numbers, so file 10 comes after file 9:

    >>> parse_position("9:500") < parse_position("10:4")
    True
    """
    position = tuple(int(part) for part in text.split(":"))
    if any(part < 0 for part in position):
        raise ValueError(f"{text!r} is below zero")
    return position


def advanced(before: ArchiveWatermark, reached: tuple[PartitionWatermark, ...], used: tuple[AcceptedGap, ...] = ()) -> ArchiveWatermark:
    """Returns the watermark after a batch. No stream ever goes back, and decisions that were passed once are kept.

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
    )
