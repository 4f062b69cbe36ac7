"""What the ledger keeps of a survey, and that frozen files are still the same.

    record_scan      writes what a survey saw into the ledger: who waits, what is gone, where to list next, gaps
    record_frozen    writes which files an operation has in its list
    check_unchanged  before files are read, and before their rows are merged: they are still those that were frozen
    record_consumed  writes what was read, once it is committed

What a survey freezes is read by every try, and only what `core.operation.verified_batch.after_reading` has proven becomes the watermark.
"""

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import Final

from cdc_ops.archives.base import Archive
from cdc_ops.archives.registry import open_archive
from cdc_ops.core.archive.completeness import GapRecord
from cdc_ops.core.archive.files import (
    FileStatus,
    FrozenFiles,
    ListedFile,
    ListedRange,
    check_frozen,
    consumed_records,
    frozen_records,
    ledger_records,
)
from cdc_ops.core.operation.log_batch import LogBatchResult
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.state.base import StateStore
from cdc_ops.state.lease import Lease
from cdc_ops.steps.archive.scan import ArchiveScan

HASHED_FILE: Final = 64 * 2**20
"""Bytes of the largest file that is hashed."""
HASHED_AT_ONCE: Final = 2**30
"""Bytes that one plan hashes."""
FEW: Final = 20
"""Files that are asked for one by one, a request each; a listing shows 1,000 for one."""


def record_scan(store: StateStore, lease: Lease, scan: ArchiveScan) -> tuple[GapRecord, ...]:
    """Writes what a survey saw into the ledger, in steps that may each be lost: all of it can be found again by a survey.

    Returns:
        The gaps that are open or accepted now.

    Raises:
        StaleStateError: the lease is lost.
    """
    missed = [
        replace(record, status=FileStatus.CONSUMED)
        for path, record in scan.known.items()
        if path in scan.passed and record.status is FileStatus.FROZEN
    ]
    records = (*missed, *ledger_records(scan.stock, scan.known, scan.listing.clock))
    store.put_files(lease, records, (record.file.path for record in scan.stock.gone))
    store.put_listing_mark(lease, scan.mark)
    return store.report_gaps(lease, scan.gaps)


def record_frozen(store: StateStore, lease: Lease, operation: Operation, clock: datetime) -> None:
    """Writes into the ledger which files an operation has in its list.

    Raises:
        StaleStateError: the lease is lost.
    """
    if isinstance(operation.read, ArchiveRead):
        files = FrozenFiles(files=operation.read.batch.files)
        store.put_files(lease, frozen_records(files, operation.operation_id, operation.plan.run_id, clock))


def with_hashes(operation: Operation) -> Operation:
    """Returns an operation whose files carry a hash of what is in them where their store tells size and time only.

    It is kept with the files, so that one that is written again with the same bytes is not taken for another. That they are read with
    these bytes, size and time say, as ever: this is not what `check_unchanged` goes by. Large files go without, because hashing reads
    all of a file.
    """
    if not isinstance(operation.read, ArchiveRead) or all(file.etag for file in operation.read.batch.files):
        return operation
    batch = operation.read.batch
    left, files = HASHED_AT_ONCE, []
    with closing(open_archive(batch.url, dict(batch.archive.options))) as opened:
        for file in batch.files:
            if file.etag or file.size > min(HASHED_FILE, left):
                files.append(file)
                continue
            left -= file.size
            files.append(replace(file, etag=opened.content_hash(file.path)))
    return replace(operation, read=ArchiveRead(batch=replace(batch, files=tuple(files))))


def record_consumed(store: StateStore, lease: Lease, operation: Operation, reading: LogBatchResult, clock: datetime) -> None:
    """Writes into the ledger what reading an operation's files showed, once it has committed.

    Files behind a gap wait, with what is in them: the next plan sees the gap, and reads them when it is closed.

    Raises:
        StaleStateError: the lease is lost.
    """
    if not isinstance(operation.read, ArchiveRead):
        return
    frozen = frozen_records(FrozenFiles(files=operation.read.batch.files), operation.operation_id, operation.plan.run_id, clock)
    merged = set(reading.merged)
    records = consumed_records(frozen, reading.covers, clock)
    store.put_files(lease, [one if one.file.path in merged else replace(one, status=FileStatus.WAITING) for one in records])


def check_unchanged(archive: Archive, files: FrozenFiles) -> None:
    """Refuses a try whose files are not those that were frozen any more; see `core.archive.files.check_frozen`.

    Raises:
        ArchiveChangedError: a file is gone, or is not what it was.
    """
    check_frozen(files, present_files(archive, files.files))


def present_files(archive: Archive, files: Iterable[ListedFile]) -> Mapping[str, ListedFile]:
    """Returns files as they are now, by path; what is gone is not there, others may be.

    A few files are asked for one by one; of many their folders are listed, from the first of them on.

    Args:
        archive: Open archive.
        files: Which, sorted by path.
    """
    wanted = tuple(files)
    if len(wanted) <= FEW:
        return archive.stat(file.path for file in wanted)
    first: dict[str, str] = {}
    for file in wanted:
        first.setdefault(file.path.rpartition("/")[0], file.path)
    ranges = [ListedRange(prefix=f"{folder}/" if folder else "", after=path[:-1]) for folder, path in first.items()]
    return {file.path: file for file in archive.list(ranges).files}
