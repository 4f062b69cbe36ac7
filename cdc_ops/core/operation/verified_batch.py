"""The proof that reading the files of an operation gave: what of them is merged, and the watermark that the commit carries. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cdc_ops.core.archive.completeness import gap_error, proofs_of
from cdc_ops.core.archive.watermarks import ArchiveWatermark, Gap, OffsetRange, PartitionWatermark, advanced
from cdc_ops.core.operation.log_batch import LogBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedBatch:
    """What the contents of files prove.

    Args:
        watermark: Up to where the table has everything once the files within reach are merged.
        merged: Those files: they lie before the first gap of their stream.
        covers: What is in the files.
        gaps: What is missing behind those that are merged.
    """

    watermark: ArchiveWatermark
    merged: tuple[str, ...]
    covers: tuple[OffsetRange, ...]
    gaps: tuple[Gap, ...] = ()


def after_reading(batch: LogBatch, covers: Iterable[OffsetRange], *, table: str) -> VerifiedBatch:
    """Proves again, now with what is really in the files, and returns the watermark for the commit of their rows.

    Args:
        batch: The files that were frozen, and where the table stood.
        covers: What was found in the files, at least one cover for each that holds positions.
        table: For messages.

    Raises:
        ArchiveGapError: positions are missing before all of the files: none of them may be merged. If they are missing within the first
            one, which no listing shows, nothing is merged: the commit tells the gap, so that somebody can decide.
    """
    read = tuple(covers)
    proofs = proofs_of(batch.before, batch.names().values(), read, batch.decisions, batch.archive.files.max_offset_gap)
    ends = {proof.stream: proof.gaps[0].low for proof in proofs if proof.gaps}
    behind = {cover.file for cover in read if cover.stream in ends and cover.low >= ends[cover.stream]}
    merged = tuple(file.path for file in batch.files if file.path not in behind)
    gaps = tuple(gap for proof in proofs for gap in proof.gaps)
    if batch.files and not merged and not any(gap.is_within_a_file for gap in gaps):
        raise gap_error(table, gaps, tuple(proof.reached for proof in proofs))
    used = tuple(item for proof in proofs for item in proof.used)
    reached = tuple(_before_files(proof.reached, [cover for cover in read if cover.file in behind]) for proof in proofs)
    return VerifiedBatch(watermark=advanced(batch.before, reached, used), merged=merged, covers=read, gaps=gaps)


def _before_files(reached: PartitionWatermark, left: Iterable[OffsetRange]) -> PartitionWatermark:
    """Returns how far a stream is complete once some files are left: what a file has before a gap within it is left with the file."""
    first = min((cover.low for cover in left if cover.stream == reached.stream), default=reached.to)
    return replace(reached, to=min(reached.to, first))
