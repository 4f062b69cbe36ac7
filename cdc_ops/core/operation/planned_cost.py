"""The price of operations, before anything is read: from the plan, from earlier runs and from the source's statistics. Pure.

    rows       the plan has counted or estimated them; those of an archive by the size of its files, as in earlier runs
    bytes      bytes a row of earlier runs; else the source's average row, where whole rows are copied
    seconds    a straight line through earlier runs: what every run takes, and what a row takes
    files      those of the Delta table, where a MERGE looks for keys in them

Where nothing tells, the figure is unknown. It is never made up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.reads import ArchiveRead, CompareRead, ReplayRead
from cdc_ops.core.run_cost import UNKNOWN, CostBasis, Figure, RunCost, figure

REACH: Final = 20
"""How many times as many rows as the largest run before may be estimated by it; of more than that, earlier runs say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSample:
    """What a run of a table has cost.

    Args:
        kind: What it did.
        rows: Rows that it read, or compared.
        written_bytes: Bytes that it wrote to the lake.
        seconds: Time of its work, without the start of Spark.
        archive_bytes: Bytes of the archived files that it read, 0 if it read none.
    """

    kind: OperationKind
    rows: float
    written_bytes: float
    seconds: float
    archive_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEvidence:
    """What is known before a run.

    Args:
        rows: Rows that the source shows, or that were counted there; unknown for reads that do not ask the source.
        own: Earlier runs of the table.
        others: Earlier runs of other tables of the pipeline.
        size: What a MERGE looks for keys in; None if the size of the Delta table is not known.
    """

    rows: Figure = UNKNOWN
    own: tuple[CostSample, ...] = ()
    others: tuple[CostSample, ...] = ()
    size: TableStats | None = None


def planned_cost(operations: Sequence[Operation], evidence: CostEvidence, connections: int) -> RunCost:
    """Returns what the operations of a table are estimated to cost.

    Args:
        operations: At least one.
        evidence: What is known.
        connections: JDBC connections of the operation that opens most.
    """
    first = operations[-1]
    own, others = _alike(evidence.own, first.kind), _alike(evidence.others, first.kind)
    archived = sum(file.size for item in operations if isinstance(item.read, ArchiveRead) for file in item.read.batch.files)
    rows = evidence.rows if evidence.rows.value is not None else _events(own, archived)
    return RunCost(
        rows=rows,
        written_bytes=_written(first, rows, own),
        seconds=_seconds(rows, own, others),
        connections=connections,
        files=None if evidence.size is None else evidence.size.files,
        file_bytes=None if evidence.size is None else evidence.size.size_bytes,
        archive_bytes=archived,
    )


def _alike(samples: Iterable[CostSample], kind: OperationKind) -> tuple[CostSample, ...]:
    """Returns runs that did the same kind of work: of the same kind if there is one, else no comparisons, whose rows are not read."""
    found = tuple(sample for sample in samples if sample.rows > 0)
    same = tuple(sample for sample in found if sample.kind is kind)
    if same or kind in (OperationKind.RECONCILE, OperationKind.SNAPSHOT_CHUNK):
        return same
    return tuple(sample for sample in found if sample.kind not in (OperationKind.RECONCILE, OperationKind.SNAPSHOT_CHUNK))


def _events(samples: tuple[CostSample, ...], archived: int) -> Figure:
    """Returns the events of archived files by those of files before them."""
    read = sum(sample.archive_bytes for sample in samples)
    if not archived or not read:
        return UNKNOWN
    return figure(sum(sample.rows for sample in samples if sample.archive_bytes) * archived / read, CostBasis.RUNS)


def _written(operation: Operation, rows: Figure, own: tuple[CostSample, ...]) -> Figure:
    if rows.value is None:
        return UNKNOWN
    if own:
        each, basis = sum(sample.written_bytes for sample in own) / sum(sample.rows for sample in own), CostBasis.RUNS
    elif operation.source.schema.row_bytes and not isinstance(operation.read, ArchiveRead | ReplayRead | CompareRead):
        each, basis = float(operation.source.schema.row_bytes), CostBasis.STATISTICS
    else:
        return UNKNOWN
    return Figure(value=round(rows.value * each), bases=(basis,), at_least=rows.at_least)


def _seconds(rows: Figure, own: tuple[CostSample, ...], others: tuple[CostSample, ...]) -> Figure:
    if rows.value is None:
        return UNKNOWN
    for samples, basis in ((own, CostBasis.RUNS), (others, CostBasis.OTHERS)):
        if samples and (seconds := expected_seconds(samples, rows.value)) is not None:
            return Figure(value=round(seconds, 1), bases=(basis,), at_least=rows.at_least)
    return UNKNOWN


def expected_seconds(samples: Sequence[CostSample], rows: float) -> float | None:
    """Returns the time for a number of rows by a straight line through earlier runs; None for far more rows than these had.

    Above the largest of them a row takes at least its share of what that one took longer than the shortest: runs of nearly the same
    size do not show that rows take time.

    >>> def runs(*found): return [CostSample(kind=OperationKind.INCREMENT, rows=r, written_bytes=0, seconds=s) for r, s in found]
    >>> round(expected_seconds(runs((100, 5), (10_000, 15)), 5_000))
    10
    >>> expected_seconds(runs((100, 5)), 50), expected_seconds(runs((100, 5)), 200), expected_seconds(runs((100, 5)), 10_000)
    (5.0, 10.0, None)
    """
    largest = max(samples, key=lambda sample: sample.rows)
    if rows > REACH * largest.rows:
        return None
    x, y = fmean(sample.rows for sample in samples), fmean(sample.seconds for sample in samples)
    spread = sum((sample.rows - x) ** 2 for sample in samples)
    if not spread:
        return y * max(1.0, rows / x)
    slope = max(sum((sample.rows - x) * (sample.seconds - y) for sample in samples) / spread, 0.0)
    base = max(y - slope * x, 0.0)
    if rows <= largest.rows:
        return base + slope * rows
    steeper = max(slope, (largest.seconds - min(sample.seconds for sample in samples)) / largest.rows)
    return base + slope * largest.rows + steeper * (rows - largest.rows)
