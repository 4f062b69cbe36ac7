"""Checks that an archive has no gap, and names the gaps. Pure.

    covers of files + watermark + decisions -> check_completeness -> Completeness: complete up to P, gaps, files that have to be read first

The answer depends on what the files cover, not on when they arrived, how often, or under which name: it is a union of intervals. The
watermark never passes a position that no file covers, unless somebody accepted it as missing or the rule for natural holes says that there
may be none.
"""

import enum
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from cdc_ops.core.approvals import Asked, Decision, asks
from cdc_ops.core.archive.file_names import BinlogName, FileName, KafkaName
from cdc_ops.core.archive.watermarks import AcceptedGap, ArchiveWatermark, Gap, OffsetRange, PartitionWatermark, Position, format_position
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import ArchiveGapError

SHOWN: Final = 5
"""Gaps that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness:
    """The result of the check for one stream.

    Args:
        stream: Which sequence.
        start: Where the proof began: the watermark, or the first position of a stream that was never read.
        to: The safe watermark: everything in `[start, to)` is covered, accepted as missing or a natural hole.
        gaps: What is certainly missing, in order; files that wait or are unread cannot hold it.
        holes: Positions without a record that the rule called natural; they hold nothing if that rule is right.
        unread: Files whose ends only their contents tell; what is missing behind `to` may be in them, so it is no gap yet.
        used: Decisions that were relied on.
        is_beginning: Nothing was known of the stream before.
    """

    stream: str
    start: Position
    to: Position
    gaps: tuple[Gap, ...] = ()
    holes: tuple[Gap, ...] = ()
    unread: tuple[str, ...] = ()
    used: tuple[AcceptedGap, ...] = ()
    is_beginning: bool = False

    @property
    def reached(self) -> PartitionWatermark:
        """The stream's part of the new watermark."""
        return PartitionWatermark(stream=self.stream, to=self.to, since=self.start if self.is_beginning else None)


def check_completeness(
    stream: str,
    watermark: Position | None,
    covers: Iterable[OffsetRange],
    *,
    accepted: Iterable[AcceptedGap] = (),
    max_offset_gap: int = 0,
) -> Completeness:
    """Returns the position up to which a stream is complete, and the gaps after it.

    Args:
        stream: Which; covers and decisions of others are left out.
        watermark: Where it was complete before; None = it begins with the first position of any file.
        covers: What files hold, in any order, duplicates and overlaps included.
        accepted: Decisions that positions may be missing.
        max_offset_gap: Largest number of positions without a record that is natural between two files. Zero for topics that number every
            record. Topics that are compacted, written in transactions (whose markers take offsets) or archived without tombstones have
            holes by nature; every lost file that is no longer than this goes unnoticed then. Only for streams of single numbers.

    Offsets 0 to 9 and 20 to 29 are there, 10 to 19 are not:

    >>> def file(name: str, low: int, high: int) -> OffsetRange:
    ...     return OffsetRange(file=name, stream="orders-0", low=(low,), high=(high,))
    >>> found = check_completeness("orders-0", (0,), [file("b", 20, 30), file("a", 0, 10)])
    >>> found.to
    (10,)
    >>> str(found.gaps[0])
    'orders-0: 10 up to, not including, 20 (after a, before b)'

    A later file that overlaps closes the gap:

    >>> check_completeness("orders-0", (0,), [file("b", 20, 30), file("a", 0, 10), file("c", 5, 25)]).to
    (30,)
    """
    mine = [cover for cover in covers if cover.stream == stream]
    decisions = sorted((item for item in accepted if item.stream == stream), key=lambda item: (item.low, item.high, item.at))
    is_beginning = watermark is None
    if watermark is None:
        if not mine:
            raise ValueError(f"nothing is known of {stream}")
        watermark = min(cover.low for cover in mine)
    unread = tuple(cover for cover in mine if cover.high is None)
    # An unread file shows where something begins that has to be preceded; it counts as empty there until it is read.
    known = [cover if cover.high is not None else replace(cover, high=cover.low) for cover in mine]
    return _sweep(
        Completeness(stream=stream, start=watermark, to=watermark, is_beginning=is_beginning),
        known,
        unread,
        tuple(decisions),
        max_offset_gap,
    )


def proofs_of(
    watermark: ArchiveWatermark,
    names: Iterable[FileName],
    covers: tuple[OffsetRange, ...],
    decisions: tuple[AcceptedGap, ...],
    max_offset_gap: int,
) -> tuple[Completeness, ...]:
    """Returns the proof of each stream that files cover.

    Args:
        watermark: What is complete; a stream that it does not know begins at its origin, or with its first file.
        names: Of the files.
        covers: What they hold.
        decisions: Gaps that were accepted.
        max_offset_gap: See `check_completeness`.
    """
    origins = {name.stream: origin(name, watermark) for name in names if isinstance(name, KafkaName | BinlogName)}
    proofs = []
    for stream in sorted({cover.stream for cover in covers}):
        reached = watermark.position_of(stream)
        start: Position | None = reached if reached is not None else origins.get(stream)
        proofs.append(check_completeness(stream, start, covers, accepted=decisions, max_offset_gap=max_offset_gap))
    return tuple(proofs)


def _sweep(
    empty: Completeness, known: list[OffsetRange], unread: tuple[OffsetRange, ...], decisions: tuple[AcceptedGap, ...], max_offset_gap: int
) -> Completeness:
    at, last = empty.start, ""
    gaps: list[Gap] = []
    holes: list[Gap] = []
    for cover in sorted(known, key=lambda cover: (cover.low, cover.high, cover.file)):
        if cover.low > at:
            between = Gap(stream=empty.stream, low=at, high=cover.low, after_file=last, before_file=cover.file, reason=cover.missing)
            missing = [gap for gap in _without(between, decisions) if not is_natural(gap, max_offset_gap)]
            if missing and any(other.low < cover.low for other in unread):
                break  # one of them may hold it
            holes += [gap for gap in _without(between, decisions) if is_natural(gap, max_offset_gap)]
            gaps += missing
            at, last = cover.low, cover.file
        if cover.high is not None and cover.high > at:
            at, last = cover.high, cover.file
    to = gaps[0].low if gaps else at
    return replace(
        empty,
        to=to,
        gaps=tuple(gaps),
        holes=tuple(hole for hole in holes if hole.high <= to),
        unread=tuple(sorted({cover.file for cover in unread})),
        used=tuple(item for item in decisions if item.high > empty.start and item.low < to),
    )


def _without(gap: Gap, decisions: tuple[AcceptedGap, ...]) -> list[Gap]:
    """Returns the parts of a gap that no decision gives up; decisions are sorted."""
    rest, low = [], gap.low
    for item in decisions:
        if item.high <= low or item.low >= gap.high:
            continue
        if item.low > low:
            rest.append(replace(gap, low=low, high=item.low))
        low = item.high
    return [*rest, replace(gap, low=low)] if low < gap.high else rest


def is_natural(missing: Gap, max_offset_gap: int) -> bool:
    """True if a topic may have this gap by design, e.g. after compaction; binlog positions never may.

    >>> is_natural(Gap(stream="orders-0", low=(10,), high=(12,)), max_offset_gap=2)
    True
    >>> is_natural(Gap(stream="binlog", low=(3, 10), high=(3, 12)), max_offset_gap=2)
    False
    """
    return len(missing.low) == 1 and missing.high[0] - missing.low[0] <= max_offset_gap


def origin(name: FileName, watermark: ArchiveWatermark | None) -> Position | None:
    """Returns the position at which a stream that was never read has to start.

    A table that has begun knew all streams that there were then, so a partition that is new to it begins with the offset 0.

    Returns:
        None if the first file that is there may be the beginning.
    """
    return (0,) if isinstance(name, KafkaName) and watermark is not None and watermark.streams else None


def covers_of(
    names: Iterable[FileName], contents: Mapping[str, tuple[OffsetRange, ...]], ended: frozenset[str] = frozenset()
) -> tuple[OffsetRange, ...]:
    """Returns what files cover: by their contents where those are known, else by their names as far as these tell.

    A binlog of which a later one is there, or that ends with ROTATE or STOP, is whole. How far a file of a sink goes, its name does not
    say: the next name does not either, because sinks overlap after a restart.

    Args:
        names: The files.
        contents: Per path, what reading it showed.
        ended: Paths of binlogs that were seen to end properly.
    """
    listed = tuple(names)
    last: dict[str, int] = {}
    for name in listed:
        if isinstance(name, BinlogName):
            last[name.stream] = max(name.number, last.get(name.stream, 0))
    covers: list[OffsetRange] = []
    for name in listed:
        if name.path in contents:
            covers += contents[name.path]
        elif isinstance(name, KafkaName):
            covers.append(OffsetRange(file=name.path, stream=name.stream, low=(name.start_offset,), high=None))
        elif isinstance(name, BinlogName):
            whole = name.number < last[name.stream] or name.path in ended
            high = (name.number + 1, 0) if whole else None
            covers.append(OffsetRange(file=name.path, stream=name.stream, low=(name.number, 0), high=high))
    return tuple(covers)


class GapStatus(enum.StrEnum):
    """The status of a gap."""

    OPEN = "open"
    """The gap stops its table."""
    ACCEPTED = "accepted"
    """Someone accepted the loss; the next run continues after the gap."""
    CLOSED = "closed"
    """The gap is closed: the files arrived, or its range changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRecord:
    """The ledger's record of a gap.

    Args:
        pipeline, table: Whose archive.
        gap: What is missing.
        status: How it stands.
        found_at: When it was first found, by the ledger's clock, UTC.
        decision: Who accepted it, when and why.
    """

    pipeline: str
    table: TableName
    gap: Gap
    status: GapStatus
    found_at: datetime
    decision: AcceptedGap | None = None

    @property
    def gap_id(self) -> str:
        """Returns the id of a missing range; it is the same in every ledger."""
        return gap_id(self.gap)


def gap_id(gap: Gap) -> str:
    """Returns the id of a missing range; it is the same in every ledger."""
    text = f"{gap.stream}\0{format_position(gap.low)}\0{format_position(gap.high)}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def asked_for(gaps: Iterable[Gap]) -> Asked:
    """Returns what a person may decide about gaps: that their events are lost."""
    return Asked(decision=Decision.GAP, gaps=tuple(map(gap_id, gaps)))


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingEvents:
    """Gaps that a successful run found: its table has all events before the gaps, and none after them.

    Args:
        gaps: What is missing.
        healing: The next run compares the table with its source, and goes on behind the first of them; else somebody has to act.
    """

    gaps: tuple[Gap, ...]
    healing: bool = False

    def alert(self, table: str) -> str:
        """Returns the alert for the operator."""
        then = (
            "The next run compares the table with its source instead ('on_gap: reconcile')."
            if self.healing
            else "The table stops there. Restore the files, or accept the loss of this range: see 'cdc-ops gap list'."
        )
        return f"The archive of {table} has a gap: {_listed(self.gaps)}. Events before the gap are merged; events after it wait. {then}"


def _listed(gaps: tuple[Gap, ...]) -> str:
    return "; ".join(map(str, gaps[:SHOWN])) + (f"; and {len(gaps) - SHOWN} more" if len(gaps) > SHOWN else "")


def gap_error(table: str, gaps: tuple[Gap, ...], to: tuple[PartitionWatermark, ...]) -> ArchiveGapError:
    """Returns the error that stops a table whose archive has a gap."""
    safe = ", ".join(f"{item.stream} {format_position(item.to)}" for item in to) or "nowhere"
    return ArchiveGapError(
        f"The archive of {table} has a gap: {_listed(gaps)}.",
        why="; ".join(dict.fromkeys(gap.reason for gap in gaps if gap.reason))
        or "No listed file holds these positions, but a later file exists.",
        data=f"No event after the gap was merged; the table is complete up to {safe}. Other tables continue.",
        next="Restore the files: the next run then closes the gap. Or accept the loss of this range: see 'cdc-ops gap list'.",
    ).asking(asks(asked_for(gaps)))
