"""One folder of a watched archive: what the runs of its tables would read of it now. Nothing is written here.

folder + tables that read it + ledger -> look_into -> FolderLook
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import BinaryIO, Final

from cdc_ops.archives.base import Archive, Listing
from cdc_ops.core.archive.files import FileStatus, FileStatusChange, ListedFile, ListedRange
from cdc_ops.core.archive.listing import Scope
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, OnUnrecognizedFile
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.base import StateReader, TableOverview
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.archive.scan import ArchiveScan, scan_again

NOBODY: Final = TableName(schema="*", name="*")
"""Reads a folder of which only patterns of tables are known: the first run finds out which tables there are."""
_LINES: Final = 20
"""How far back a table's runs are looked through for its last increment."""


@dataclass(slots=True, kw_only=True)
class FolderLook:
    """What a folder holds that its tables have not read. Paths are relative to the folder.

    Args:
        ready: What the next run of one of them would read, behind a gap or not; and files whose names stop them.
        unread: Paths of these, and of files that are not finished.
        left: Files that a table's last run could have read and has left for the next, with the start of that run by the ledger's clock.
        is_young: True if a file was written a moment ago, and a run would not read it yet.
        is_whole: True if everything was listed, for all tables.
        listed_at: The store's clock when everything was listed, None if it was not.
    """

    ready: dict[str, ListedFile] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    left: dict[str, datetime] = field(default_factory=dict)
    is_young: bool = False
    is_whole: bool = True
    listed_at: datetime | None = None


def look_into(
    archive: Archive,
    rules: ArchiveConfig,
    store: StateReader,
    owner: tuple[str, tuple[TableName, ...]],
    known: Mapping[TableName, TableOverview],
    listed_at: datetime | None,
) -> FolderLook:
    """Finds out what runs would read of a folder.

    Args:
        archive: The folder, open.
        rules: How it is read.
        store: The ledger.
        owner: Pipeline, and the tables that read the folder; none if only patterns of them are known.
        known: What the ledger knows of the pipeline's tables.
        listed_at: When this watcher has listed everything last, by the store's clock.

    Raises:
        ArchiveUnreachableError: the store does not answer.
        ArchiveError: it refuses us, or there is no such folder.
    """
    once, look = _OnceListed(archive), FolderLook()
    lenient = replace(rules, files=replace(rules.files, unrecognized_files=OnUnrecognizedFile.IGNORE))
    for table in owner[1] or (NOBODY,):
        overview = known.get(table)
        watermark = overview.state.progress.archive if overview else None
        scan = scan_again(once, lenient, store, (owner[0], table), watermark, listed_at)
        _add(look, scan, store, overview)
        if rules.files.unrecognized_files is OnUnrecognizedFile.FAIL:  # the runs stop there: one has to say so
            unnamed = {item.path for item in scan.unrecognized_files}
            stops = {file.path: file for file in scan.listing.files if file.path in unnamed}
            look.ready |= stops
            look.unread |= stops.keys()
    return look


def _add(look: FolderLook, scan: ArchiveScan, store: StateReader, overview: TableOverview | None) -> None:
    """Adds what one table would read."""
    waiting = scan.stock.with_status(FileStatusChange.WAIT)
    look.ready |= {file.path: file for file in scan.stock.to_read}
    look.unread |= {arrival.file.path for arrival in scan.stock.arrivals if arrival.verdict is not FileStatusChange.EMPTY}
    look.is_young = look.is_young or any(file.path not in scan.unfinished for file in waiting)
    if scan.scope is Scope.FULL:
        look.listed_at = scan.listing.clock
    else:
        look.is_whole = False
    last = _last_increment(store, overview) if scan.files.files else None  # of an archive at rest nobody asks the ledger
    if last is not None and last.status is TableRunStatus.COMMITTED:
        for file in scan.files.files:
            look.left[file.path] = max(last.timing.started_at, look.left.get(file.path, last.timing.started_at))


def _last_increment(store: StateReader, overview: TableOverview | None) -> TableRun | None:
    """Returns a table's newest run that has read on in the archive; a comparison or a resync beside it reads no file there."""
    last = overview.last_run if overview else None
    if overview is None or last is None or last.kind is OperationKind.INCREMENT:
        return last
    lines = store.history(overview.state.pipeline, overview.state.table, limit=_LINES)
    return next((line for line in lines if line.kind is OperationKind.INCREMENT), None)


def is_consumed(store: StateReader, pipeline: str, readers: Iterable[TableName], files: Mapping[str, ListedFile]) -> frozenset[str]:
    """Returns the files that all readers of their folder have consumed as they were told, by the ledger.

    Args:
        store: The ledger.
        pipeline: Whose tables.
        readers: The tables; none have consumed nothing.
        files: By path, relative to the folder.
    """
    left = frozenset(files)
    tables = tuple(readers)
    for table in tables:
        records = store.archive_files(pipeline, table, sorted(left))
        consumed = (record for record in records.values() if record.status is FileStatus.CONSUMED)
        left &= {record.file.path for record in consumed if record.file.same_as(files[record.file.path])}
    return left if tables else frozenset()


class _OnceListed(Archive):
    """An archive that is listed once for all tables that ask the same."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._listings: dict[tuple[ListedRange, ...], Listing] = {}
        self._folders: dict[str, tuple[str, ...]] = {}

    def list(self, ranges: Iterable[ListedRange]) -> Listing:
        """See `Archive`."""
        wanted = tuple(ranges)
        if wanted not in self._listings:
            self._listings[wanted] = self._archive.list(wanted)
        return self._listings[wanted]

    def folders(self, within: str) -> tuple[str, ...]:
        """See `Archive`."""
        if within not in self._folders:
            self._folders[within] = self._archive.folders(within)
        return self._folders[within]

    def stat(self, paths: Iterable[str]) -> Mapping[str, ListedFile]:
        """See `Archive`."""
        return self._archive.stat(paths)

    def head(self, path: str, size: int) -> bytes:
        """See `Archive`."""
        return self._archive.head(path, size)

    def tail(self, path: str, size: int) -> bytes:
        """See `Archive`."""
        return self._archive.tail(path, size)

    def open(self, path: str) -> BinaryIO:
        """See `Archive`."""
        return self._archive.open(path)

    def content_hash(self, path: str) -> str:
        """See `Archive`."""
        return self._archive.content_hash(path)

    def close(self) -> None:
        """See `Archive`."""
        self._archive.close()
