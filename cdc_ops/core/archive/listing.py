"""Which parts of an archive are listed, so that 10 new files among 100,000 cost about as much as 10. Pure.

Object stores list names in the order of their bytes and can start after a name. Where names sort by position, a listing starts after the
file in which the watermark lies: everything that can be new to the table comes behind it. What that misses (a file below the watermark that
was uploaded again, or late) is found by the full listing that is due from time to time, on demand, and always before a gap is called one.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cdc_ops.core.archive.file_names import BinlogName, DmsName, FileName, KafkaName
from cdc_ops.core.archive.files import ListedRange
from cdc_ops.core.archive.watermarks import ArchiveWatermark

EVERYTHING: Final = (ListedRange(),)
ROOM: Final = 100
"""A number that is within 1 % of needing one more digit is not started after: the next name may sort before it."""

ONE_CALL: Final = 1000
"""Files that object stores list in one call."""


class Scope(enum.StrEnum):
    """The extent of a listing."""

    INCREMENTAL = "incremental"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingMark:
    """The state of an archive's last listings, for the next one.

    Args:
        ranges: Per folder of one stream, or per topic by time, what is listed next.
        full_at: When everything was listed last, by the store's clock, UTC.
        calls, files: What the last listing cost and found, for people.
    """

    ranges: tuple[ListedRange, ...] = ()
    full_at: datetime | None = None
    calls: int = 0
    files: int = 0


def due_scope(mark: ListingMark | None, clock: datetime, full_listing_interval: timedelta, *, forced: bool = False) -> Scope:
    """Returns how much to list: everything the first time, when asked to, and after `full_listing_interval` (zero: every time)."""
    if forced or mark is None or mark.full_at is None or not mark.ranges or clock - mark.full_at >= full_listing_interval:
        return Scope.FULL
    return Scope.INCREMENTAL


def next_ranges(
    names: Iterable[FileName],
    watermark: ArchiveWatermark,
    lookback: timedelta = timedelta(days=1),
    listed: Iterable[ListedRange] = (),
) -> tuple[ListedRange, ...]:
    """Returns the ranges of the next listing, `EVERYTHING` where names do not sort by position.

    Args:
        names: All files that are known.
        watermark: What is complete.
        lookback: With a time partitioner, and with AWS DMS: how long after its hour or day a folder may still get files. What comes
            later is found by the full listing.
        listed: What was listed as a whole, for these names. A folder of so few binlogs that one call lists them is listed as a whole
            again: binlogs that are copied over old names are seen at once.
    """
    known = tuple(names)
    whole = tuple(part.prefix for part in listed if not part.after)
    if known and all(isinstance(name, DmsName) for name in known):
        return _by_date([name for name in known if isinstance(name, DmsName)], lookback)
    by_folder: dict[str, list[KafkaName | BinlogName]] = {}
    for name in known:
        if not isinstance(name, KafkaName | BinlogName):
            return EVERYTHING
        by_folder.setdefault(name.path.rpartition("/")[0], []).append(name)
    if not by_folder:
        return EVERYTHING
    if any(isinstance(name, KafkaName) and name.folders for found in by_folder.values() for name in found):
        return _by_time(by_folder, lookback)
    if any(len({(name.stream, type(name)) for name in found}) > 1 for found in by_folder.values()):
        return EVERYTHING  # several streams in one folder: a name of one says nothing of the others
    return tuple(
        ListedRange(prefix=f"{folder}/" if folder else "")
        if isinstance(found[0], BinlogName) and len(found) < ONE_CALL and any(folder.startswith(prefix.rstrip("/")) for prefix in whole)
        else _after_watermark(folder, found, watermark)
        for folder, found in sorted(by_folder.items())
    )


def _after_watermark(folder: str, names: list[KafkaName | BinlogName], watermark: ArchiveWatermark) -> ListedRange:
    prefix = f"{folder}/" if folder else ""
    reached = watermark.position_of(names[0].stream)
    widest = max(name.digits for name in names)
    passed = [name for name in names if reached is not None and _start(name) <= reached and name.digits == widest and name.digits]
    if not passed:
        return ListedRange(prefix=prefix)
    last = max(passed, key=_start)
    number = _start(last)[0]
    if number >= 10**last.digits - 10**last.digits // ROOM:
        return ListedRange(prefix=prefix)
    # The file in which the watermark lies is listed again: it may have been uploaded longer.
    return ListedRange(prefix=prefix, after=_before(last))


def _start(name: KafkaName | BinlogName) -> tuple[int, ...]:
    return (name.start_offset,) if isinstance(name, KafkaName) else (name.number, 0)


def _before(name: KafkaName | BinlogName) -> str:
    """Returns a text that sorts before a file's name, whatever its suffix, and behind all but a few names of lower numbers."""
    return name.path[:-1]


def _by_time(by_folder: dict[str, list[KafkaName | BinlogName]], lookback: timedelta) -> tuple[ListedRange, ...]:
    """Folders `<topic>/year=…/month=…/day=…[/hour=…]/`: per topic, from the newest folder back by `lookback`."""
    tops: dict[str, list[tuple[datetime, str]]] = {}
    for folder, names in by_folder.items():
        times = dict(names[0].folders) if isinstance(names[0], KafkaName) else {}
        begun = _moment(times)
        top, found, _ = folder.partition("year=")
        if begun is None or not found:
            return EVERYTHING  # folders of values, or names of time that do not sort
        tops.setdefault(top, []).append((begun, folder))
    return tuple(_since(top, max(folders)[0] - lookback, [folder for _, folder in folders]) for top, folders in sorted(tops.items()))


def _since(top: str, since: datetime, folders: list[str]) -> ListedRange:
    with_hours = any("hour=" in folder for folder in folders)
    day = f"{top}year={since:%Y}/month={since:%m}/day={since:%d}"
    return ListedRange(prefix=top, after=f"{day}/hour={since:%H}" if with_hours else day)


def _moment(values: dict[str, str]) -> datetime | None:
    if set(values) - {"hour"} != {"year", "month", "day"}:
        return None
    widths = {"year": 4, "month": 2, "day": 2, "hour": 2}
    if any(len(value) != widths[name] or not value.isdecimal() for name, value in values.items()):
        return None
    year, month, day, hour = (int(values.get(name, "0")) for name in widths)
    try:
        return datetime(year, month, day, hour, tzinfo=UTC)
    except ValueError:
        return None


def _by_date(names: list[DmsName], lookback: timedelta) -> tuple[ListedRange, ...]:
    """Folders `<schema>/<table>/`: per table, after the newest file that is older than the newest by `lookback`, in whole days."""
    tables: dict[str, list[DmsName]] = {}
    for name in names:
        parts = name.path.split("/")[:-1]
        tables.setdefault("/".join([part for part in parts if not part.isdecimal()]), []).append(name)
    ranges = []
    for folder, found in sorted(tables.items()):
        changes = sorted((name for name in found if not name.is_load), key=lambda name: name.path)
        if [name.order for name in changes] != sorted(name.order for name in changes):
            return EVERYTHING  # its date folders do not sort
        prefix = f"{folder}/" if folder else ""
        days = [_day(name) for name in changes]
        old = [name.path for name, day in zip(changes, days, strict=True) if day < days[-1] - lookback]
        ranges.append(ListedRange(prefix=prefix, after=old[-1] if old else ""))
    return tuple(ranges)


def _day(name: DmsName) -> datetime:
    return datetime.strptime(str(name.order[0]), "%Y%m%d").replace(tzinfo=UTC)


def merged_ranges(old: Iterable[ListedRange], new: Iterable[ListedRange], scope: Scope) -> tuple[ListedRange, ...]:
    """Returns the ranges of the next listing; a range in which this listing found no file stays unchanged."""
    kept = {part.prefix: part for part in old}
    found = {part.prefix: part for part in new}
    if scope is Scope.FULL:
        return tuple(part for _, part in sorted(found.items()))
    if found.keys() == {""} and kept.keys() != {""}:
        return tuple(part for _, part in sorted(kept.items()))  # nothing was listed that could tell
    return tuple(part for _, part in sorted((kept | found).items()))


def new_folders(folders: Iterable[str], ranges: Iterable[ListedRange]) -> tuple[ListedRange, ...]:
    """Returns the ranges of folders that no known range reaches into or covers: partitions, topics and tables that have appeared.

    Args:
        folders: Folders that exist, with a `/` at the end.
        ranges: What is listed anyway.
    """
    known = tuple(part.prefix for part in ranges)
    return tuple(
        ListedRange(prefix=folder)
        for folder in sorted(set(folders))
        if not any(prefix.startswith(folder) or folder.startswith(prefix) for prefix in known)
    )


def parents(ranges: Iterable[ListedRange]) -> tuple[str, ...]:
    """Returns the folders in which a new one may appear: all above those that are listed, "" for the root, shortest first."""
    above: set[str] = set()
    for part in ranges:
        pieces = part.prefix.rstrip("/").split("/")[:-1] if part.prefix else []
        above |= {"/".join(pieces[:depth]) + "/" if depth else "" for depth in range(len(pieces) + 1)} if part.prefix else set()
    return tuple(sorted(above, key=lambda folder: (folder.count("/"), folder)))
