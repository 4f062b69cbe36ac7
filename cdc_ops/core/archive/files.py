"""The states of archive files from listing to consumption: to read, waiting, changed, or gone. Pure.

    listing + what the ledger knows + the store's clock -> diff_listing -> read now | wait | nothing to do | gone

What the ledger keeps of files is a cache. Whether the *changes* in a file are in the table follows from positions: `files_below` says
which files a watermark has passed, and a file that is read twice changes nothing, because its records have the same positions as before.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cdc_ops.core.archive.file_names import BinlogName, FileName, KafkaName
from cdc_ops.core.archive.watermarks import ArchiveWatermark, OffsetRange
from cdc_ops.errors import ArchiveChangedError


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file in a listing of its store.

    Args:
        path: Relative to the archive's root, with `/`.
        size: Bytes.
        etag: What the store says of the content, "" if it says nothing.
        modified: By the store's clock, UTC; None if it does not tell.
    """

    path: str
    size: int
    etag: str = ""
    modified: datetime | None = None

    def same_as(self, other: "ListedFile") -> bool:
        """True if size and etag (or the modification time, without an etag) are equal."""
        if self.size != other.size:
            return False
        if self.etag and other.etag:
            return self.etag == other.etag
        return self.modified == other.modified


class FileStatus(enum.StrEnum):
    """The status of a file in the ledger."""

    WAITING = "waiting"
    """Listed and perhaps still being written; or read, and not merged because of a gap."""
    FROZEN = "frozen"
    """In the list of an open operation."""
    CONSUMED = "consumed"
    """Its changes were merged; an empty file counts as consumed. It is forgotten when it is not listed any more."""
    LOST = "lost"
    """The file disappeared before it was consumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """The ledger's record of a file, for one table.

    Args:
        file: As it was when it got this status.
        status: What is known of it.
        since: When it was first listed in this form, by the store's clock, UTC.
        covers: What it holds, by its contents; empty while it was not read.
        operation_id, run_id: Who has it or had it in its list.
    """

    file: ListedFile
    status: FileStatus
    since: datetime
    covers: tuple[OffsetRange, ...] = ()
    operation_id: str = ""
    run_id: str = ""


class FileStatusChange(enum.StrEnum):
    """The action for a listed file."""

    NEW = "new"
    LONGER = "longer"
    """Uploaded again and longer: the whole file is read again."""
    SHORTER = "shorter"
    """Uploaded again and shorter: the file is read again; someone should check it."""
    REPLACED = "replaced"
    """Uploaded again with the same size and other contents: the file is read again; someone should check it."""
    EMPTY = "empty"
    """Nothing to read."""
    WAIT = "wait"
    """Perhaps not finished."""
    SAME = "same"
    """Known and unchanged."""

    @property
    def is_read(self) -> bool:
        """True if the next batch reads the file."""
        return self in (FileStatusChange.NEW, FileStatusChange.LONGER, FileStatusChange.SHORTER, FileStatusChange.REPLACED)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A listed file and its action."""

    file: ListedFile
    verdict: FileStatusChange


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingDiff:
    """The differences between a listing and the ledger.

    Args:
        arrivals: Files that are not known as they are, sorted by path.
        same: How many are known and unchanged.
        gone: Files that are not listed any more after they were consumed; their store's lifecycle rules may do that.
        lost: Files that are not listed any more and were not consumed.
        touched: Records of files that were written again, or touched, and hold what they held: with the time of now.
    """

    arrivals: tuple[FileChange, ...] = ()
    same: int = 0
    gone: tuple[FileRecord, ...] = ()
    lost: tuple[FileRecord, ...] = ()
    touched: tuple[FileRecord, ...] = ()

    def with_status(self, *verdicts: FileStatusChange) -> tuple[ListedFile, ...]:
        """Returns the files whose change has one of these statuses."""
        return tuple(arrival.file for arrival in self.arrivals if arrival.verdict in verdicts)

    @property
    def to_read(self) -> tuple[ListedFile, ...]:
        """The files of the next batch."""
        return tuple(arrival.file for arrival in self.arrivals if arrival.verdict.is_read)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about files; the run continues."""
        texts = {
            FileStatusChange.SHORTER: "was uploaded again and is shorter; its earlier records were consumed and stay in the lake",
            FileStatusChange.REPLACED: "was uploaded again with the same size and other contents; the run reads it again",
        }
        unknown = "was written again with the same size and possibly other contents; the run reads it again"
        found = tuple(
            f"{item.file.path} {unknown if item.verdict is FileStatusChange.REPLACED and not item.file.etag else texts[item.verdict]}"
            for item in self.arrivals
            if item.verdict in texts
        )
        return (*found, *(f"{item.file.path} was removed before cdc-ops consumed it" for item in self.lost))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalRules:
    """The rules by which a file counts as finished.

    Args:
        min_file_age: How long a file must not have changed, by the store's clock. Object stores show a file only when it is whole: zero is
            right for what is uploaded as one object, and for stores that are appended to it is not.
        unfinished: Paths whose contents were looked at and end in the middle of something; they wait however old they are.
    """

    min_file_age: timedelta = timedelta(minutes=1)
    unfinished: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRange:
    """A part of an archive that a listing has seen as a whole: paths that begin with `prefix` and come after `after`."""

    prefix: str = ""
    after: str = ""

    def holds(self, path: str) -> bool:
        """True if a file with this path would have been listed."""
        return path.startswith(self.prefix) and path > self.after


def diff_listing(
    listed: Iterable[ListedFile],
    known: Mapping[str, FileRecord],
    clock: datetime,
    rules: ArrivalRules,
    ranges: Iterable[ListedRange] = (),
) -> ListingDiff:
    """Returns the differences between a listing and the ledger.

    Args:
        listed: The files, in any order; a path that is listed twice counts once.
        known: What the ledger knows, by path.
        clock: The store's clock when it was listed, UTC; never another one.
        rules: The rules by which a file counts as finished.
        ranges: What was listed as a whole; only there a known file can be missing.
    """
    files = {file.path: file for file in listed}
    seen = tuple(ranges)
    judged = [FileChange(file=file, verdict=classify(file, known.get(file.path), clock, rules)) for _, file in sorted(files.items())]
    absent = [
        record
        for path, record in sorted(known.items())
        if path not in files and record.status is not FileStatus.LOST and any(part.holds(path) for part in seen)
    ]
    return ListingDiff(
        arrivals=tuple(arrival for arrival in judged if arrival.verdict is not FileStatusChange.SAME),
        same=sum(arrival.verdict is FileStatusChange.SAME for arrival in judged),
        gone=tuple(record for record in absent if record.status is FileStatus.CONSUMED),
        lost=tuple(record for record in absent if record.status is not FileStatus.CONSUMED),
        touched=tuple(
            replace(record, file=arrival.file)
            for arrival in judged
            if arrival.verdict is FileStatusChange.SAME and (record := known[arrival.file.path]).file.modified != arrival.file.modified
        ),
    )


def classify(file: ListedFile, known: FileRecord | None, clock: datetime, rules: ArrivalRules) -> FileStatusChange:
    """Returns the action for one file; see `diff_listing`."""
    was_read = known is not None and known.status is FileStatus.CONSUMED
    if known is not None and was_read and file.same_as(known.file):
        return FileStatusChange.SAME
    if file.path in rules.unfinished or not is_settled(file, known, clock, rules.min_file_age):
        return FileStatusChange.WAIT
    if known is None or not was_read:
        return FileStatusChange.NEW if file.size else FileStatusChange.EMPTY
    if file.size > known.file.size:
        return FileStatusChange.LONGER
    return FileStatusChange.SHORTER if file.size < known.file.size else FileStatusChange.REPLACED


def is_settled(file: ListedFile, known: FileRecord | None, clock: datetime, min_file_age: timedelta) -> bool:
    """True if a file has not changed for the required time, by its store's timestamps or by two listings."""
    if not min_file_age:
        return True
    if file.modified is not None and file.modified <= clock - min_file_age:
        return True
    return known is not None and file.same_as(known.file) and known.since <= clock - min_file_age


def ledger_records(stock: ListingDiff, known: Mapping[str, FileRecord], clock: datetime) -> tuple[FileRecord, ...]:
    """Returns the ledger records of listed files outside an operation: waiting, empty, touched or lost files.

    A file that waits in the form in which it waited before keeps the time at which it was first seen like that.
    """
    kept = list(stock.touched)
    for arrival in stock.arrivals:
        before = known.get(arrival.file.path)
        if arrival.verdict is FileStatusChange.WAIT:
            # What was consumed stays on record as it was, so that it can be told what has become of it, if its age tells when it settles.
            consumed = before is not None and before.status is FileStatus.CONSUMED and arrival.file.modified is not None
            if before is None or not (consumed or arrival.file.same_as(before.file)):
                kept.append(FileRecord(file=arrival.file, status=FileStatus.WAITING, since=clock))
        elif arrival.verdict is FileStatusChange.EMPTY:
            kept.append(FileRecord(file=arrival.file, status=FileStatus.CONSUMED, since=clock))
    kept += [replace(record, status=FileStatus.LOST, since=clock) for record in stock.lost]
    return tuple(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenFiles:
    """The files of one operation, sorted by path; every attempt reads exactly these files."""

    files: tuple[ListedFile, ...]


def freeze(files: Iterable[ListedFile]) -> FrozenFiles:
    """Returns the frozen files of an operation."""
    return FrozenFiles(files=tuple(sorted(files, key=lambda file: file.path)))


def check_frozen(frozen: FrozenFiles, present: Mapping[str, ListedFile]) -> None:
    """Refuses a try whose files are not those that its plan has seen; called before they are read, and again before their rows are merged.

    Args:
        frozen: The operation's list.
        present: The files as they are now, by path; one that is missing here is gone.

    Raises:
        ArchiveChangedError: a file is gone, or has another size or content.
    """
    found = [text for file in frozen.files if (text := _difference(file, present.get(file.path)))]
    if found:
        raise ArchiveChangedError(
            f"{len(found)} of {len(frozen.files)} files changed after the plan: {'; '.join(found[:5])}.",
            why="They were uploaded again or removed after the operation was frozen.",
            data="Nothing of the operation was committed; the watermark stays.",
            next="Nothing to do: the next run lists the files and freezes them again.",
        )


def _difference(file: ListedFile, now: ListedFile | None) -> str:
    if now is None:
        return f"{file.path} is gone"
    if file.same_as(now):
        return ""
    if file.size != now.size:
        return f"{file.path} has {now.size:,} bytes, not {file.size:,}"
    return f"{file.path} {'has other contents' if file.etag and now.etag else 'was written again'}"


def frozen_records(frozen: FrozenFiles, operation_id: str, run_id: str, clock: datetime) -> tuple[FileRecord, ...]:
    """Returns the ledger records of an operation's files at its freeze."""
    return tuple(
        FileRecord(file=file, status=FileStatus.FROZEN, since=clock, operation_id=operation_id, run_id=run_id) for file in frozen.files
    )


def consumed_records(records: Iterable[FileRecord], covers: Iterable[OffsetRange], clock: datetime) -> tuple[FileRecord, ...]:
    """Returns the ledger records of an operation's files after its commit, with the results of reading them."""
    by_file: dict[str, list[OffsetRange]] = {}
    for cover in covers:
        by_file.setdefault(cover.file, []).append(cover)
    return tuple(
        replace(record, status=FileStatus.CONSUMED, since=clock, covers=tuple(by_file.get(record.file.path, ()))) for record in records
    )


def files_below(names: Iterable[FileName], watermark: ArchiveWatermark) -> frozenset[str]:
    """Returns the files that a watermark has passed, by their names alone: what counts as consumed when the ledger is lost.

    In each stream the file in which the watermark lies is read again, that is the last one that begins at or below it; all that begin
    before that one have been passed. This loses nothing: the watermark has only ever moved over positions that some file covered. If one
    of the passed files goes on beyond the watermark (a sink that restarted), what only it holds is missing from the files that are read,
    and the proof stops the table there. Files from before the position at which the table began with a stream were not passed.
    """
    passed: set[str] = set()
    by_stream: dict[str, list[tuple[tuple[int, ...], str]]] = {}
    for name in names:
        if isinstance(name, KafkaName):
            by_stream.setdefault(name.stream, []).append(((name.start_offset,), name.path))
        elif isinstance(name, BinlogName):
            by_stream.setdefault(name.stream, []).append(((name.number, 0), name.path))
    for stream, starts in by_stream.items():
        reached = watermark.position_of(stream)
        if reached is None:
            continue
        begun = [start for start, _ in starts if start <= reached]
        last = max(begun, default=None)
        since = watermark.since(stream)
        passed |= {path for start, path in starts if last is not None and start < last and (since is None or start >= since)}
    return frozenset(passed)
