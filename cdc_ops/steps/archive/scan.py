"""What an archive holds that a table does not have yet, and whether anything is missing in between: list, take stock, prove.

    archive + rules + ledger + watermark -> survey -> Survey: files of the next batch, who waits, what is missing

Nothing is written here, and nothing needs Spark: steps.archive.frozen_files keeps what was seen, and core.operation.verified_batch proves
again after reading.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from cdc_ops.archives.base import HASHED, Archive, Listing
from cdc_ops.config.fields.values import format_duration
from cdc_ops.core.archive.completeness import Completeness, covers_of, proofs_of
from cdc_ops.core.archive.file_names import (
    BinlogName,
    Compression,
    DmsName,
    FileName,
    KafkaName,
    UnrecognizedFile,
)
from cdc_ops.core.archive.files import (
    ArrivalRules,
    FileRecord,
    FileStatus,
    FileStatusChange,
    FrozenFiles,
    ListedFile,
    ListedRange,
    ListingDiff,
    diff_listing,
    files_below,
    freeze,
)
from cdc_ops.core.archive.finished_files import is_complete
from cdc_ops.core.archive.listing import EVERYTHING, ListingMark, Scope, due_scope, merged_ranges, new_folders, next_ranges, parents
from cdc_ops.core.archive.watermarks import AcceptedGap, ArchiveWatermark, Gap, OffsetRange, Position
from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.base import StateReader
from cdc_ops.steps.archive.parsed_names import parsed_names
from cdc_ops.steps.archive.replaced_binlogs import KnownFiles, check_not_replaced

SHOWN: Final = 3
"""Waiting files that a run names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveScan:
    """What was found.

    Args:
        scope: How much was listed.
        listing: The files, and what listing them cost.
        names: What the names say of those that hold changes and are not passed.
        known: What the ledger knew of them.
        stock: What is to be done about them.
        passed: Files that the ledger does not know and that lie below the watermark by their names: the proof needs none of them.
        files: The next batch: what is to be read, and lies neither behind a gap nor behind a file that waits.
        proofs: By stream, from what is known before reading.
        decisions: Gaps that were accepted.
        unrecognized_files: Files that the layout does not know.
        mark: What the next listing starts from.
        unfinished: Files whose last bytes show that they are still being written.
        min_file_age: How long a file must not have changed before it is read.
    """

    scope: Scope
    listing: Listing
    names: tuple[FileName, ...]
    known: Mapping[str, FileRecord]
    stock: ListingDiff
    passed: frozenset[str]
    files: FrozenFiles
    proofs: tuple[Completeness, ...]
    decisions: tuple[AcceptedGap, ...]
    unrecognized_files: tuple[UnrecognizedFile, ...]
    mark: ListingMark
    unfinished: frozenset[str] = frozenset()
    min_file_age: timedelta = timedelta(0)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What is certainly missing."""
        return tuple(gap for proof in self.proofs for gap in proof.gaps)

    def warnings(self, max_wait: timedelta = timedelta(hours=1)) -> tuple[str, ...]:
        """Returns what somebody should look at although the run goes on.

        Args:
            max_wait: How long a file may wait to be finished. The binlog that a server is writing is not meant: it may wait for ever.
        """
        binlogs = {name.path for name in self.names if isinstance(name, BinlogName)}
        since = {file.path: file.modified or self.known[file.path].since for file in self._waiting if file.path not in binlogs}
        waits = tuple(
            f"{path} has waited to be finished since {begun:%Y-%m-%d %H:%M:%S} UTC and holds back the files behind it"
            for path, begun in since.items()
            if begun <= self.listing.clock - max_wait
        )
        left = (f"{len(self.unrecognized_files)} files have names that nobody knows and are ignored",) if self.unrecognized_files else ()
        return (*self.stock.warnings, *waits, *left)

    @property
    def waiting(self) -> str:
        """Which files are not finished yet, since when they wait and why, and how many they hold back; "" if none waits."""
        waits = self.stock.with_status(FileStatusChange.WAIT)
        if not waits:
            return ""
        shown = ", ".join(self._why(file) for file in waits[:SHOWN]) + (f" and {len(waits) - SHOWN} more" if len(waits) > SHOWN else "")
        behind = 0 if self.gaps else len(self.stock.to_read) - len(self.files.files)
        held = f", and {behind} file{'s' if behind > 1 else ''} behind what waits {'are' if behind > 1 else 'is'} held back"
        return shown + (held if behind else "")

    def _why(self, file: ListedFile) -> str:
        since = file.modified or (self.known[file.path].since if file.path in self.known else self.listing.clock)
        why = (
            "it ends in the middle of a record, or its writer has not closed it"
            if file.path in self.unfinished
            else f"it was written less than {format_duration(self.min_file_age)} ago ('min_file_age')"
        )
        return f"{file.path} waits since {since:%Y-%m-%d %H:%M:%S} UTC: {why}"

    @property
    def _waiting(self) -> tuple[ListedFile, ...]:
        return tuple(file for file in self.stock.with_status(FileStatusChange.WAIT) if file.modified or file.path in self.known)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScanInput:
    """One look at an archive."""

    archive: Archive
    rules: ArchiveConfig
    ledger: StateReader
    owner: tuple[str, TableName]
    watermark: ArchiveWatermark
    mark: ListingMark


def scan_archive(
    archive: Archive,
    rules: ArchiveConfig,
    ledger: StateReader,
    owner: tuple[str, TableName],
    watermark: ArchiveWatermark | None,
    *,
    full: bool = False,
) -> ArchiveScan:
    """Finds out what is new, what waits, and what is missing.

    Args:
        archive: Open archive.
        rules: How it is read.
        ledger: What is known of it; it may be empty.
        owner: Pipeline and table.
        watermark: From the table's newest commit; None if it has none.
        full: List everything, due or not.

    Raises:
        ArchiveUnreachableError: the store does not answer.
        ArchiveFileError: a file's name is not understood, and the rules do not say to leave such files alone.
        ArchiveOrderError: binlogs that the table has passed were replaced.
    """
    look = _begun(archive, rules, ledger, owner, watermark)
    found = None if full else _incremental(look)
    return found if found is not None and not found.gaps else _everything(look)


def scan_again(
    archive: Archive,
    rules: ArchiveConfig,
    ledger: StateReader,
    owner: tuple[str, TableName],
    watermark: ArchiveWatermark | None,
    listed_at: datetime | None,
) -> ArchiveScan:
    """Does what `scan_archive` does for a watcher, which scans all the time and stores no mark.

    Until everything is to be listed again, by what it remembers itself, it lists what can be new, also where there is a gap.

    Args:
        archive, rules, ledger, owner, watermark: As in `scan_archive`.
        listed_at: When it has listed everything last, by the store's clock, None if it has not.
    """
    look = _begun(archive, rules, ledger, owner, watermark)
    if listed_at is None or look.mark.full_at is None:
        return scan_archive(archive, rules, ledger, owner, watermark)
    look = replace(look, mark=replace(look.mark, full_at=max(listed_at, look.mark.full_at)))
    return _incremental(look) or _everything(look)


def _begun(
    archive: Archive, rules: ArchiveConfig, ledger: StateReader, owner: tuple[str, TableName], watermark: ArchiveWatermark | None
) -> _ScanInput:
    mark = ledger.listing_mark(*owner) or ListingMark()
    return _ScanInput(archive=archive, rules=rules, ledger=ledger, owner=owner, watermark=watermark or ArchiveWatermark(), mark=mark)


def _everything(look: _ScanInput) -> ArchiveScan:
    return _judged(look, look.archive.list(EVERYTHING), EVERYTHING, Scope.FULL)


def _incremental(look: _ScanInput) -> ArchiveScan | None:
    """Lists what can be new; None if everything is to be listed, by the store's clock or because names do not sort."""
    if look.mark.ranges in ((), EVERYTHING):
        return None
    listing = look.archive.list(look.mark.ranges)
    if due_scope(look.mark, listing.clock, look.rules.files.full_listing_interval) is Scope.FULL:
        return None
    above = parents(look.mark.ranges)
    fresh = new_folders((folder for top in above for folder in look.archive.folders(top)), look.mark.ranges)
    added = look.archive.list(fresh) if fresh else None
    files = {file.path: file for file in (*listing.files, *(added.files if added else ()))}
    everything = replace(
        listing,
        files=tuple(file for _, file in sorted(files.items())),
        calls=listing.calls + len(above) + (added.calls if added else 0),
        entries=listing.entries + (added.entries if added else 0),
    )
    return _judged(look, everything, (*look.mark.ranges, *fresh), Scope.INCREMENTAL)


def _judged(look: _ScanInput, listing: Listing, ranges: tuple[ListedRange, ...], scope: Scope) -> ArchiveScan:
    """Says what a listing means."""
    names, unrecognized_files = parsed_names(look.rules, listing)
    pending = look.ledger.pending_files(*look.owner)
    recorded = look.ledger.archive_files(*look.owner, None if scope is Scope.FULL else [name.path for name in names])
    known = _believed({**pending, **recorded}, look.watermark)
    passed = _passed(look, names, known)
    kept = tuple(name for name in names if name.path not in passed)
    paths = {name.path for name in kept}
    listed = [_hashed_again(look.archive, file, known.get(file.path)) for file in listing.files if file.path in paths]
    seen = {file.path: file for file in (*listing.files, *listed)}
    check_not_replaced(look.archive, names, KnownFiles(listed=seen, known=known, since=look.mark.full_at), look.watermark)
    unfinished, ended = _endings(look, kept, known, listing)
    stock = diff_listing(
        listed, known, listing.clock, ArrivalRules(min_file_age=look.rules.files.min_file_age, unfinished=unfinished), ranges
    )
    decisions = _decisions(look)
    proofs = proofs_of(look.watermark, kept, _covers(kept, stock, known, ended), decisions, look.rules.files.max_offset_gap)
    mark = ListingMark(
        ranges=merged_ranges(look.mark.ranges, next_ranges(names, look.watermark, look.rules.files.lookback, ranges), scope),
        full_at=listing.clock if scope is Scope.FULL else look.mark.full_at,
        calls=listing.calls,
        files=len(listing.files),
    )
    return ArchiveScan(
        scope=scope,
        listing=listing,
        names=kept,
        known=known,
        stock=stock,
        passed=passed,
        files=freeze(file for file in stock.to_read if _in_reach(file.path, kept, stock, proofs)),
        proofs=proofs,
        decisions=decisions,
        unrecognized_files=unrecognized_files,
        mark=mark,
        unfinished=unfinished,
        min_file_age=look.rules.files.min_file_age,
    )


def _hashed_again(archive: Archive, file: ListedFile, known: FileRecord | None) -> ListedFile:
    """Returns a file that was written again, and may be the same as before, with the hash of what is in it now.

    Only where the store tells no more than size and time, and the hash of what was read is kept.
    """
    kept = known is not None and known.status is FileStatus.CONSUMED and known.file.etag.startswith(HASHED)
    if known is None or not kept or file.etag or file.size != known.file.size or file.modified == known.file.modified:
        return file
    return replace(file, etag=archive.content_hash(file.path))


def _believed(known: Mapping[str, FileRecord], watermark: ArchiveWatermark) -> dict[str, FileRecord]:
    """Leaves out what the ledger calls consumed although the table does not have it: its lake was restored, or the ledger is another's."""

    def goes_on(cover: OffsetRange) -> bool:
        reached = watermark.position_of(cover.stream)
        return reached is None or (cover.high or cover.low) > reached

    return {
        path: record
        for path, record in known.items()
        if record.status is not FileStatus.CONSUMED or not any(cover.high != cover.low and goes_on(cover) for cover in record.covers)
    }


def _passed(look: _ScanInput, names: tuple[FileName, ...], known: Mapping[str, FileRecord]) -> frozenset[str]:
    """Returns the files that the watermark has passed although the ledger does not say that they were consumed.

    Without natural holes everything below the watermark lies in files that were read; with them a late file may lie in one. Files of an
    operation whose commit the ledger missed were read in any case.
    """
    behind = files_below(names, look.watermark)
    frozen = {path for path in behind & known.keys() if known[path].status is FileStatus.FROZEN}
    return frozenset(frozen | (behind - known.keys() if not look.rules.files.max_offset_gap else set()))


def _endings(
    look: _ScanInput, names: tuple[FileName, ...], known: Mapping[str, FileRecord], listing: Listing
) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the files that end in the middle of something, and the binlogs that were closed."""
    if look.rules.copy.is_set:  # the archiver gives a name to closed binlogs only, also to those that a crash left without an end
        return frozenset(), frozenset(name.path for name in names if isinstance(name, BinlogName))
    sizes = {file.path: file for file in listing.files}
    last = {name.stream: name for name in sorted((n for n in names if isinstance(n, BinlogName)), key=lambda name: name.number)}
    unfinished, ended = set[str](), set[str]()
    for name in names:
        before = known.get(name.path)
        unchanged = before is not None and before.status is FileStatus.CONSUMED and before.file.same_as(sizes[name.path])
        looked_at = last.get(name.stream) is name if isinstance(name, BinlogName) else look.rules.files.check_file_footers
        if unchanged or not looked_at or name.compression is not Compression.NONE or not sizes[name.path].size:
            continue
        kind = "binlog" if isinstance(name, BinlogName) else name.extension
        try:
            answer = is_complete(look.archive, name.path, kind, sizes[name.path].size)
        except FileNotFoundError:  # removed since the listing: it waits, and the next listing does not have it
            answer = False
        if answer is False:
            unfinished.add(name.path)
        elif answer:
            ended.add(name.path)
    return frozenset(unfinished), frozenset(ended)


def _decisions(look: _ScanInput) -> tuple[AcceptedGap, ...]:
    recorded = (record.decision for record in look.ledger.archive_gaps(*look.owner))
    return tuple(dict.fromkeys((*look.watermark.accepted, *(decision for decision in recorded if decision is not None))))


def _covers(
    names: tuple[FileName, ...], stock: ListingDiff, known: Mapping[str, FileRecord], ended: frozenset[str]
) -> tuple[OffsetRange, ...]:
    """What the files hold as far as it is known: by reading them, where the ledger knows them as they are; else by their names."""
    changed = {arrival.file.path: arrival for arrival in stock.arrivals}
    empty = {file.path for file in stock.with_status(FileStatusChange.EMPTY)}
    contents = {
        path: record.covers
        for path, record in known.items()
        if record.covers and (path not in changed or changed[path].file.same_as(record.file))
    }
    of_interest = [name for name in names if name.path in changed or name.path in contents or isinstance(name, BinlogName)]
    covers = covers_of(of_interest, contents, ended)
    return tuple(replace(cover, high=cover.low) if cover.file in empty else cover for cover in covers)


def _in_reach(path: str, names: tuple[FileName, ...], stock: ListingDiff, proofs: tuple[Completeness, ...]) -> bool:
    """True if a file lies neither behind a gap nor behind one that waits: events are read in their order."""
    by_path = {name.path: name for name in names}
    name = by_path[path]
    waiting = [by_path[file.path] for file in stock.with_status(FileStatusChange.WAIT)]
    match name:
        case KafkaName() | BinlogName():
            gaps = [_held_from(gap) for proof in proofs if proof.stream == name.stream for gap in proof.gaps[:1]]
            stops = [_start(other) for other in waiting if isinstance(other, KafkaName | BinlogName) and other.stream == name.stream]
            return all(_start(name) < stop for stop in (*gaps, *stops))
        case DmsName():
            return not any(
                isinstance(other, DmsName) and (other.schema, other.table) == (name.schema, name.table) and other.place < name.place
                for other in waiting
            )
        case _:
            return True


def _held_from(gap: Gap) -> Position:
    """Returns the position from which files have to wait for a gap: a file that has one within it is not read in part."""
    return (gap.low[0], 0) if gap.is_within_a_file else gap.low


def _start(name: KafkaName | BinlogName) -> Position:
    return (name.start_offset,) if isinstance(name, KafkaName) else (name.number, 0)
