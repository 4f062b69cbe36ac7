"""`on_gap: reconcile`: a table whose archive lacks events is compared with its source, and continues behind the gap. No Spark here.

The source's current rows contain the effect of the missing events. No row ends in an older state: the last event of a row that changed
after the gap stands later in the archive, and is merged after the comparison. Until then a row may have a state between the gap and
now, as after any snapshot.
"""

from dataclasses import replace

from cdc_ops.core.archive.watermarks import AcceptedGap, ArchiveWatermark, Gap, PartitionWatermark, Position, advanced
from cdc_ops.steps.archive.gaps import can_heal
from cdc_ops.steps.planning.reconcile import draft_comparison
from cdc_ops.steps.planning.request import Draft, TableRequest

_WHO = "on_gap: reconcile"


def recovers_by_query(request: TableRequest, gaps: tuple[Gap, ...]) -> bool:
    """True if a comparison with the source replaces the missing events.

    Versions of rows have no place among events. A watermark of GTIDs, which no run has today, is left out too: gaps in two sources of a
    set may lie before different files, and rows that the first of these sets back behind the second gap would not be compared again.
    """
    return bool(gaps) and can_heal(request.source_table.pipeline.archive, request.state, request.source_table.stored_as)


def draft_gap_recovery(request: TableRequest, before: ArchiveWatermark, gaps: tuple[Gap, ...]) -> Draft:
    """Drafts the comparison whose commit passes the first gap of each stream.

    Raises:
        SourceError: the source cannot answer.
    """
    draft = draft_comparison(request, heals=True)
    first = {gap.stream: gap for gap in sorted(gaps, key=lambda gap: (gap.stream, gap.low), reverse=True)}.values()
    now = draft.operations[0].plan.planned_at
    passed = tuple(
        AcceptedGap(stream=gap.stream, low=gap.low, high=_behind(gap), who=_WHO, at=now, why="the table is compared with its source")
        for gap in first
    )
    after = advanced(
        replace(before, gtids="", last_binlog=None), tuple(PartitionWatermark(stream=gap.stream, to=_behind(gap)) for gap in first), passed
    )
    operations = [replace(operation, after=replace(operation.after, archive=after)) for operation in draft.operations]
    told = "; ".join(map(str, first))
    alert = f"The archive of {request.table} has a gap: {told}. The table is compared with its source instead ('on_gap: reconcile')."
    return replace(draft, operations=tuple(operations), alert=alert)


def _behind(gap: Gap) -> Position:
    """Returns where the table goes on: behind the whole file if the gap lies within one, whose other events are older than the comparison.

    Read again, they would set back rows that the missing change had changed.
    """
    return (gap.low[0] + 1, 0) if gap.is_within_a_file else gap.high
