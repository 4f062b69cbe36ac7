"""The price of a table's plan: collects what is known before a run, and refuses what is above the limits. Asks ledger and source.

Nothing is read here but the ledger, the size of the Delta table, and counts of rows at the source that stop at a limit.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.approvals import Asked, Decision, asks
from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.planned_cost import CostEvidence, CostSample, planned_cost
from cdc_ops.core.operation.reads import ArchiveRead, ReplayRead, WindowRead
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.phases import worked_seconds
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.run_cost import UNKNOWN, CostBasis, Figure, MaxCost, PlannedCost, RunCost, excesses, figure
from cdc_ops.errors import CostRefusedError, SourceInterruptedError
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.sources.base import Source
from cdc_ops.state.base import StateReader
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.context import Context
from cdc_ops.steps.planning.request import COUNT_LIMIT
from cdc_ops.steps.query.connection_limit import connections_of

NO_FILES: Final = TableStats(delta_version=0, files=0, size_bytes=0)
"""Where no MERGE looks for keys."""

Operations = tuple[Operation, ...]

RUNS_LOOKED_AT: Final = 20
"""Earlier runs of a table by which the next one is estimated."""

MOST_COUNTED: Final = 200_000_000
"""Rows of a window that are counted at most where no limit is one of rows: about a minute, before hours of reading."""


def plan_cost(
    context: Context,
    source: Source,
    request: RunRequest,
    config: TableConfig,
    unfinished: tuple[Operation, ...],
    new: tuple[Operation, ...],
) -> PlannedCost | None:
    """Returns the price of a plan, None if it has no operation.

    Raises:
        SourceError: rows have to be counted, and the source cannot answer.
    """
    if not unfinished and not new:
        return None
    limits = () if request.accepts.cost else (config.settings.load.max_cost, context.pipeline.runs.max_cost)
    begun = _cost(context, source, config, new, limits) if new else None
    everything = _cost(context, source, config, unfinished + new, None) if unfinished or begun is None else begun
    return PlannedCost(all=everything, new=begun)


def check_table_cost(context: Context, request: RunRequest, config: TableConfig, cost: PlannedCost | None) -> None:
    """Checks what a run would begin of a table against the limits of the table, and those of the pipeline.

    Raises:
        CostRefusedError: it costs more, and nobody has accepted that; or more than what somebody has granted.
    """
    refused = None if request.accepts.cost else refused_table(context.pipeline, config, cost, request.accepts.granted_cost)
    if refused is not None:
        raise refused


def refused_table(
    pipeline: Pipeline, config: TableConfig, cost: PlannedCost | None, granted: RunCost | None = None
) -> CostRefusedError | None:
    """Returns why a table's plan may not be begun, None if it may.

    Args:
        pipeline, config: The table, with its limits.
        cost: The estimate of its plan.
        granted: An estimate that somebody has let through; None if nobody was asked.
    """
    if cost is None or cost.new is None:
        return None
    limits = (config.settings.load.max_cost, pipeline.runs.max_cost)
    found = [text for limit in limits for text in excesses(cost.new, limit if granted is None else limit.raised_to(granted))]
    if not found:
        return None
    return cost_refused(f"table {config.table}", dict.fromkeys(found)).asking(asks(Asked(decision=Decision.COST, cost=cost.new)))


def cost_refused(what: str, why: Iterable[str]) -> CostRefusedError:
    """Returns the error of a run, or of a table, that would cost more than its limits."""
    return CostRefusedError(
        f"The estimated cost of {what} is above its limit.",
        why=" ".join(why),
        data="Nothing was read or written; the watermark stays.",
        next="Read less (one table, a shorter range), raise 'max_cost', or accept the cost: add --accept-cost to the command,"
        " or trigger the DAG with accept_cost.",
    )


def _cost(
    context: Context, source: Source, config: TableConfig, operations: tuple[Operation, ...], limits: Sequence[MaxCost] | None
) -> RunCost:
    """Returns what operations cost; their rows are counted as far as limits need it, not at all for None."""
    rows = _rows(operations)
    if limits is not None and (rows.value is None or (rows.at_least and rows.value < _count_limit(limits))):
        rows = _counted(source, config, operations, _count_limit(limits))
    store = context.store
    own = _own_samples(store, config)
    others = () if own else _samples(context.committed_runs())
    asking = [connections_of(item) for item in operations if not isinstance(item.read, ArchiveRead | ReplayRead)]
    merges = any(item.apply.mode is ApplyMode.MERGE and item.target.version is not None for item in operations)
    evidence = CostEvidence(rows=rows, own=own, others=others, size=_size(store, config) if merges else NO_FILES)
    return planned_cost(operations, evidence, max(asking, default=0))


def _rows(operations: Sequence[Operation]) -> Figure:
    """Returns the rows that the plans of operations expect at the source; a plan counts those of a window up to a limit."""
    asked = [item for item in operations if not isinstance(item.read, ArchiveRead | ReplayRead)]
    rows = sum(item.expected_rows for item in asked)
    if not rows:
        return UNKNOWN
    windows = [item for item in asked if isinstance(item.read, WindowRead)]
    basis = CostBasis.COUNTED if windows else CostBasis.STATISTICS
    return figure(rows, basis, at_least=any(item.expected_rows >= COUNT_LIMIT for item in windows))


def _counted(source: Source, config: TableConfig, operations: Sequence[Operation], limit: int) -> Figure:
    """Counts rows at the source, up to a limit. Of a window that has more than are ever counted, the table's rows are the estimate."""
    conditions = [condition for item in operations for condition in item.slices]
    if not conditions:
        return UNKNOWN
    rows = 0
    for condition in conditions:
        try:
            rows += source.count(config.table, condition, limit - rows)
        except SourceInterruptedError:  # the server gives no statement that long
            return figure(max(rows, sum(item.expected_rows for item in operations)), CostBasis.COUNTED, at_least=True)
        if rows >= limit:
            break
    if limit == MOST_COUNTED <= rows:
        return figure(max(rows, operations[0].source.schema.approximate_rows), CostBasis.STATISTICS, at_least=True)
    return figure(rows, CostBasis.COUNTED, at_least=rows >= limit)


def _count_limit(limits: Sequence[MaxCost]) -> int:
    """Returns up to where rows have to be counted to know whether limits are kept."""
    if rows := [limit.rows for limit in limits if limit.rows]:
        return max(COUNT_LIMIT, min(rows) + 1)
    return MOST_COUNTED if any(limit.is_set for limit in limits) else COUNT_LIMIT


def _own_samples(store: StateReader, config: TableConfig) -> tuple[CostSample, ...]:
    """Returns what the newest runs of a table have cost; where all of them found nothing to do, what the newest that did something have."""
    newest = _samples(store.history(config.pipeline, config.table, limit=RUNS_LOOKED_AT))
    return newest or _samples(store.history(config.pipeline, config.table, status=TableRunStatus.COMMITTED, limit=RUNS_LOOKED_AT))


def _samples(runs: Iterable[TableRun]) -> tuple[CostSample, ...]:
    """Returns what runs have cost. One that compared is taken by the rows that it compared, which its plan has estimated."""
    found = []
    for run in runs:
        planned, compared = run.cost, run.kind is OperationKind.RECONCILE
        rows = (planned.rows.value or 0.0) if planned and compared else 0.0 if compared else float(run.result.counts.read)
        seconds = worked_seconds(run.timing.phases)
        if rows and seconds and run.status.is_good:
            archived = planned.archive_bytes if planned else 0
            found.append(
                CostSample(kind=run.kind, rows=rows, written_bytes=run.result.counts.bytes, seconds=seconds, archive_bytes=archived)
            )
    return tuple(found)


def _size(store: StateReader, config: TableConfig) -> TableStats | None:
    """Returns the size of a Delta table, by the ledger or, after a rebuild of it, by the table's log; None if neither tells."""
    known = store.stats(config.pipeline, config.table)
    if known is not None:
        return known
    log = DeltaLog(config.path)
    version = log.newest()
    found = log.size(version) if version is not None else None
    return TableStats(delta_version=version or 0, files=found[0], size_bytes=found[1]) if found else None
