"""What the ledger keeps of a survey, that frozen files are still the same, and the proof that reading them gave.

    keep             writes what a survey saw into the ledger: who waits, what is gone, where to list next, gaps
    check_unchanged  before files are read, and before their rows are merged: they are still those that were frozen
    after_reading    proves again with what reading showed, and returns the watermark that the commit carries
    remember         keeps what reading showed if that was a gap

What a survey freezes is read by every try, and only what `after_reading` has proven becomes the watermark.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from cdc_ops.archives.base import Archive
from cdc_ops.core.archive_files import FileStatus, FrozenFiles, ListedRange, check_frozen, consumed_records, frozen_records, noticed
from cdc_ops.core.archive_gaps import GapRecord, gap_error
from cdc_ops.core.archive_positions import ArchiveWatermark, Cover, advanced
from cdc_ops.state.base import Lease, StateStore
from cdc_ops.steps.surveys import Survey, proofs_of

FEW: Final = 20
"""Files that are asked for one by one, a request each; a listing shows 1,000 for one."""


def keep(store: StateStore, lease: Lease, found: Survey) -> tuple[GapRecord, ...]:
    """Writes what a survey saw into the ledger, in steps that may each be lost: all of it can be found again by a survey.

    Returns:
        The gaps that are open or accepted now.

    Raises:
        StaleStateError: the lease is lost.
    """
    missed = [
        replace(record, status=FileStatus.CONSUMED)
        for path, record in found.known.items()
        if path in found.passed and record.status is FileStatus.FROZEN
    ]
    records = (*missed, *noticed(found.stock, found.known, found.listing.clock))
    store.put_files(lease, records, (record.file.path for record in found.stock.gone))
    store.put_listing_mark(lease, found.mark)
    return store.report_gaps(lease, found.gaps)


def remember(store: StateStore, lease: Lease, found: Survey, covers: Iterable[Cover]) -> None:
    """Keeps what reading showed although nothing was merged, because of a gap: the next plan sees it and reads only what lies before it.

    Raises:
        StaleStateError: the lease is lost.
    """
    read = consumed_records(frozen_records(found.files, "", "", found.listing.clock), covers, found.listing.clock)
    store.put_files(lease, [replace(record, status=FileStatus.WAITING) for record in read])


def check_unchanged(archive: Archive, files: FrozenFiles) -> None:
    """Refuses a try whose files are not those that were frozen any more; see `core.archive_files.check_frozen`.

    A few files are asked for one by one; of many their folders are listed, from the first of them on.

    Raises:
        ArchiveChangedError: a file is gone, or is not what it was.
    """
    if len(files.files) <= FEW:
        check_frozen(files, archive.stat(file.path for file in files.files))
        return
    first: dict[str, str] = {}
    for file in files.files:  # sorted by path
        first.setdefault(file.path.rpartition("/")[0], file.path)
    ranges = [ListedRange(prefix=f"{folder}/" if folder else "", after=path[:-1]) for folder, path in first.items()]
    check_frozen(files, {file.path: file for file in archive.list(ranges).files})


def after_reading(
    found: Survey, watermark: ArchiveWatermark | None, covers: Iterable[Cover], *, table: str, max_hole: int = 0
) -> ArchiveWatermark:
    """Proves again, now with what reading the files showed, and returns the watermark for the commit of their rows.

    Args:
        found: The survey whose files were read.
        watermark: The table's watermark before.
        covers: What was found in the files, at least one cover for each that holds positions.
        table: For messages.
        max_hole: As in the survey.

    Raises:
        ArchiveGapError: positions are missing between the files that were read; nothing of them may be merged. `remember` what was
            read, so that the next plan takes the files before the gap.
    """
    before = watermark or ArchiveWatermark()
    read = tuple(covers)
    names = [name for name in found.names if name.path in {file.path for file in found.files.files}]
    proofs = proofs_of(before, names, read, found.decisions, max_hole)
    if gaps := tuple(gap for proof in proofs for gap in proof.gaps):
        raise gap_error(table, gaps, tuple(proof.reached for proof in proofs))
    used = tuple(item for proof in proofs for item in proof.used)
    return advanced(before, tuple(proof.reached for proof in proofs), used)
