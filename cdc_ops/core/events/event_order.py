"""Checks that event positions advance: after a failover, the new server's positions are unrelated to the old ones. Pure.

An event whose place is below the newest one is an old one, delivered again: it is left out where the table has newer. Of a new server,
whose log happens to be at smaller numbers, every event would look like that. But an old event is old by the source's clock too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from cdc_ops.core.archive.watermarks import LastEvent, Position
from cdc_ops.core.schema.declared_tables import next_step
from cdc_ops.errors import ArchiveOrderError


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePositions:
    """The positions of the changes in one file, without snapshot rows.

    Args:
        file: Its path.
        stream: Its stream, "" if its name tells none.
        place: The largest position among them.
        at: The latest time of the source among them, UTC; None if they do not tell.
        behind: Changes below the stream's newest one before this batch.
        behind_at: The latest time among those; None if there are none.
    """

    file: str
    stream: str
    place: Position
    at: datetime | None = None
    behind: int = 0
    behind_at: datetime | None = None


def check_positions_advance(
    pipeline: str, table: str, files: Iterable[FilePositions], before: Iterable[LastEvent], *, declared: bool = False
) -> tuple[LastEvent, ...]:
    """Returns the newest change of each stream after a batch.

    Args:
        pipeline, table: Whose, for messages.
        files: In the order in which the files of each stream were written.
        before: The newest change of each stream before it.
        declared: There is no source whose rows could be read, for messages.

    Raises:
        ArchiveOrderError: changes that are newer by the source's clock have smaller positions.
    """
    newest = {item.stream: item for item in before}
    began: Mapping[str, LastEvent] = dict(newest)
    for file in files:
        known, first = newest.get(file.stream), began.get(file.stream)
        if known is None:
            newest[file.stream] = LastEvent(stream=file.stream, place=file.place, at=file.at)
            continue
        if first is not None and _is_later(file.behind_at, first.at):
            raise _turned_back((pipeline, table), file, first, declared)
        if file.place < known.place and _is_later(file.at, known.at):
            raise _turned_back((pipeline, table), file, known, declared)
        times = [at for at in (known.at, file.at) if at is not None]
        newest[file.stream] = LastEvent(stream=file.stream, place=max(known.place, file.place), at=max(times, default=None))
    return tuple(newest[stream] for stream in sorted(newest))


def _is_later(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and other is not None and one > other


def _turned_back(names: tuple[str, str], file: FilePositions, known: LastEvent, declared: bool) -> ArchiveOrderError:
    pipeline, table = names
    place = ", ".join(map(str, known.place))
    return ArchiveOrderError(
        f"Event positions of {table} went backwards: {file.file} has changes from {file.behind_at or file.at} UTC with positions below"
        f" ({place}), which the table reached at {known.at} UTC.",
        why="This usually follows a failover to another server, a restore, or RESET MASTER. The positions of the new log are unrelated to"
        " the old ones, so that its changes would look older than the table's rows.",
        data="Nothing of this batch was written; the watermark stays.",
        next=next_step(
            f"resync --pipeline {pipeline} --table {table} --mode full",
            "reads all rows and then follows the new server's events",
            declared=declared,
            then=", which must be the new server's",
        ),
    )
