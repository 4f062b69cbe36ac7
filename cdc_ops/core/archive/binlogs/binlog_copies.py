"""Which binlogs of a server are to be copied, which are lost, and which will be soon. Pure.

    what the server lists + what the archive has -> plan_copies -> copies, missing files, the file to recognise the server by

A server's closed binlogs are all but the last one that it lists. Their numbers only grow, until somebody resets the log or rebuilds the
server: then names come back with other contents, and nothing may be written over what the archive has.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cdc_ops.core.archive.file_names import BinlogName, Compression, Layout, parse_name
from cdc_ops.core.binlog.file_begin import FileBegin
from cdc_ops.core.binlog.gtids import MariaDbGtids, MySqlGtids
from cdc_ops.core.text import span_text
from cdc_ops.errors import ArchiveGapError, BinlogsReplacedError, ConfigError

_ENCRYPTION_HEADER: Final = 512
"""What MySQL counts in front of an encrypted binlog, and does not send."""

_USUAL_INTERVAL: Final = timedelta(days=1)
"""Taken for pipelines without a schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBinlog:
    """A binlog in a server's list.

    Args:
        name: e.g. `mysql-bin.000123`.
        listed_size: Bytes, as the server lists them.
        encrypted: Whether a MySQL has it encrypted on its disk; what it sends is not.
    """

    name: str
    listed_size: int
    encrypted: bool = False

    @property
    def size(self) -> int:
        """Bytes of what the server sends."""
        return self.listed_size - (_ENCRYPTION_HEADER if self.encrypted else 0)

    @property
    def parsed(self) -> BinlogName:
        """The name's parts."""
        found = parse_name(Layout.BINLOG, self.name)
        if not isinstance(found, BinlogName):
            raise ValueError(f"{self.name!r} is not the name of a binlog")
        return found

    @property
    def number(self) -> int:
        """e.g. 123."""
        return self.parsed.number


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedBinlog:
    """A binlog in the archive.

    Args:
        name: Parsed from its path.
        size: Bytes in the store, compressed or not.
    """

    name: BinlogName
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingBinlogs:
    """Binlogs that neither the archive nor the server has, from the first to the last of them.

    Args:
        base: e.g. `mysql-bin`.
        first, last: Their numbers, both included.
    """

    base: str
    first: int
    last: int

    def __str__(self) -> str:
        names = [f"{self.base}.{number:06}" for number in (self.first, self.last)]
        return names[0] if self.first == self.last else " to ".join(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """What one run of the archiver does.

    Args:
        copies: Closed binlogs to copy, in order.
        missing: What is lost.
        recognised_by: The newest archived binlog that the server still has, and its name there: their first bytes have to be equal.
        followed: The newest archived binlog before the first copy, if the server no longer has it.
    """

    copies: tuple[ServerBinlog, ...] = ()
    missing: tuple[MissingBinlogs, ...] = ()
    recognised_by: tuple[ArchivedBinlog, ServerBinlog] | None = None
    followed: ArchivedBinlog | None = None


def plan_copies(listed: tuple[ServerBinlog, ...], archived: Iterable[ArchivedBinlog], first_file: str = "") -> CopyPlan:
    """Returns what to copy.

    Args:
        listed: The server's binlogs in its order; the last one is being written.
        archived: What the archive has of this server, in any order.
        first_file: Files before it are neither copied nor missed; "" = all are wanted.

    Raises:
        BinlogsReplacedError: the archive's files cannot be copies of this server's.
        ConfigError: `first_file` has another name than the server's binlogs.
    """
    active = listed[-1]
    known = {item.name.number: item for item in archived}
    _check_names(active, known)
    closed = {file.number: file for file in listed[:-1]}
    _check_sizes(closed, known)
    floor = _first_number(first_file, active) if first_file else min((*known, *closed, active.number))
    if known and not first_file:
        floor = min(known)  # what the server still has from before the archive's beginning was left out on purpose
    copies = tuple(file for number, file in sorted(closed.items()) if number >= floor and number not in known)
    present = {*known, *(file.number for file in copies)}
    both = max((number for number in known if number in closed), default=None)
    before = max((number for number in known if copies and number < copies[0].number), default=None)
    return CopyPlan(
        copies=copies,
        missing=tuple(_holes(active.parsed.base, present, floor, active.number - 1)),
        recognised_by=(known[both], closed[both]) if both is not None else None,
        followed=known[before] if before is not None and before not in closed else None,
    )


def gap_error(missing: tuple[MissingBinlogs, ...], place: str) -> ArchiveGapError:
    """Returns the error for binlogs that are lost to the archive.

    Args:
        missing: Which.
        place: The server's folder in the archive.
    """
    names = ", ".join(map(str, missing))
    last = missing[-1]
    return ArchiveGapError(
        f"The archive {place} lacks {names}, and the server no longer has them.",
        why="The server purged them before they were copied: it keeps binlogs for too short a time, or the archiver did not run.",
        data="All closed binlogs that the server still has are archived, also those behind the gap. Tables that are read from the archive"
        " stop at it.",
        next=f"Copy the files into the archive from a backup or a replica. If they are lost: set 'archive.copy.first_file: {last.base}."
        f"{last.last + 1:06}', and resync the tables that are read from the archive (cdc-ops resync --mode full).",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long a server keeps its binlogs.

    Args:
        keeps: By age since they were closed; None = for ever.
        limited_by: The variable that also limits their total size, "" if none does.
    """

    keeps: timedelta | None = None
    limited_by: str = ""


def retention_warnings(retention: Retention, interval: timedelta | None) -> tuple[str, ...]:
    """Returns what is wrong with a server's retention for an archiver that runs so often.

    Args:
        retention: Of the server.
        interval: Between two runs; None for pipelines without a schedule.
    """
    found = []
    if retention.keeps is not None and interval is not None and retention.keeps < 2 * interval:
        found.append(
            f"the server keeps binlogs for {span_text(retention.keeps.total_seconds())} and the pipeline runs every"
            f" {span_text(interval.total_seconds())}: if one run fails, binlogs are lost; keep them longer (binlog_expire_logs_seconds)"
        )
    if retention.limited_by:
        found.append(f"{retention.limited_by} lets the server purge binlogs by their size, whether they were copied or not")
    return tuple(found)


def purge_warning(name: str, left: timedelta, interval: timedelta | None) -> str:
    """Returns a warning if the server may purge a binlog that is not archived yet before the next runs; "" if there is time.

    Args:
        name: The oldest binlog that is still to be copied when a run begins.
        left: Until the server may purge it: from when it was closed, as long as the server keeps binlogs.
        interval: Between two runs; None for pipelines without a schedule.
    """
    if left >= 2 * (interval or _USUAL_INTERVAL):
        return ""
    when = f"in {span_text(left.total_seconds())}" if left > timedelta(0) else "at any moment"
    return f"{name} was not archived when this run began, and the server may purge it {when}: copy more often, or keep binlogs longer"


def same_beginning(archived: bytes, sent: bytes) -> bool:
    """Returns whether two binlogs begin with the same bytes, as far as both are given; the mark of an open file does not count."""
    length = min(len(archived), len(sent))
    return length > _FLAGS and _closed(archived)[:length] == _closed(sent)[:length]


_FLAGS: Final = 4 + 17
"""Where the flags of the first event are; MariaDB leaves the mark of an open file in one that it did not close."""


def _closed(beginning: bytes) -> bytes:
    return beginning[:_FLAGS] + bytes((beginning[_FLAGS] & 0xFE,)) + beginning[_FLAGS + 1 :]


def follows(before: FileBegin, after: FileBegin) -> bool:
    """Returns whether a binlog can be a later one of the same server: it is not older, and knows all transactions before the first.

    Args:
        before: The begin of an archived binlog.
        after: The begin of a binlog with a higher number.
    """
    known, later = before.gtids, after.gtids
    match known, later:
        case MySqlGtids(), MySqlGtids():
            has_all = later.contains(known)
        case MariaDbGtids(), MariaDbGtids():
            has_all = later.contains(known)
        case _:
            has_all = before.description.is_mariadb == after.description.is_mariadb
    return has_all and after.time >= before.time


def replaced_error(folder: str, why: str) -> BinlogsReplacedError:
    """Returns the error for a server that is not the one whose binlogs are archived.

    Args:
        folder: The server's folder in the archive.
        why: What shows it.
    """
    return BinlogsReplacedError(
        f"The server's binlogs are not those that the archive has in {folder}/.",
        why=f"{why}. The server's log was reset (RESET MASTER), or the server was rebuilt, or is another one.",
        data="Nothing was copied, and nothing in the archive was replaced.",
        next="If the new log is right, give it a folder of its own: 'archive.copy.server: NAME'. Tables that are read from the archive"
        " need a resync then (cdc-ops resync --mode full).",
    )


def _check_names(active: ServerBinlog, known: Mapping[int, ArchivedBinlog]) -> None:
    if not known:
        return
    newest = known[max(known)].name
    others = {item.name.base for item in known.values()} - {active.parsed.base}
    if others:
        raise replaced_error(newest.host, f"The archive has binlogs named {min(others)}.*, and the server writes {active.name}")
    if newest.number >= active.number:
        raise replaced_error(newest.host, f"The archive has {newest.path.rpartition('/')[2]}, and the server still writes {active.name}")


def _check_sizes(closed: Mapping[int, ServerBinlog], known: Mapping[int, ArchivedBinlog]) -> None:
    for number in sorted(closed.keys() & known.keys()):
        file, copy = closed[number], known[number]
        if copy.name.compression is Compression.NONE and copy.size != file.size:
            raise replaced_error(copy.name.host, f"{file.name} has {copy.size:,} bytes in the archive, and {file.size:,} at the server")


def _first_number(first_file: str, active: ServerBinlog) -> int:
    wanted = ServerBinlog(name=first_file, listed_size=0).parsed
    if wanted.base != active.parsed.base:
        raise ConfigError(
            f"'archive.copy.first_file' is {first_file}, and the server writes {active.name}.",
            why="The two names differ in more than their number, so neither comes before the other.",
            data="Nothing was copied.",
            next="Correct it: SHOW BINARY LOGS lists the server's binlogs.",
        )
    return wanted.number


def _holes(base: str, present: set[int], first: int, last: int) -> Iterable[MissingBinlogs]:
    expected = first
    for number in sorted(number for number in present if number >= first):
        if number > expected:
            yield MissingBinlogs(base=base, first=expected, last=number - 1)
        expected = number + 1
    if expected <= last:
        yield MissingBinlogs(base=base, first=expected, last=last)
