"""Which frozen operations a Spark step still has to do.

The ledger says what is open, the staging area what is landed, the journal what is written. So a retry re-does only what failed, and a merge
leaves out the tables that could not be extracted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cdc_ops.airflow.job_files import written
from cdc_ops.airflow.task_context import TaskContext
from cdc_ops.core.apply.apply_spec import Landing
from cdc_ops.core.operation.job import Step, StepResult
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.errors import CdcError, LeaseHeldError
from cdc_ops.lake.staging.manifests import find_landed, is_landed
from cdc_ops.state.lease import Lease
from cdc_ops.state.table_run import TableRunStatus
from cdc_ops.steps.runs.run import start_attempts
from cdc_ops.steps.runs.table_groups import hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one try of a Spark step does.

    Args:
        operations: In the order to be executed.
        not_landed: Tables that have operations, none of which can be merged yet.
    """

    operations: tuple[Operation, ...]
    not_landed: tuple[str, ...] = ()


def open_work(task: TaskContext, step: Step) -> Work:
    """Returns what is left to do for the tables of a task."""
    done = written(task.journal.tries())
    operations: list[Operation] = []
    not_landed: list[str] = []
    for config in task.configs:
        unfinished = task.context.store.open_operations(config.pipeline, config.table)
        left = tuple(operation for operation in unfinished if operation.operation_id not in done)
        ready = _ready(step, left)
        operations += ready
        if step is Step.MERGE and left and not ready:
            not_landed.append(str(config.table))
    return Work(operations=tuple(operations), not_landed=tuple(not_landed))


def take_leases(task: TaskContext, operations: Iterable[Operation]) -> tuple[tuple[Lease, ...], dict[str, CdcError]]:
    """Takes or renews the leases of the tables that are to be worked on.

    Returns:
        The leases, and the tables that another run holds by now, with the reason.
    """
    busy = {operation.table for operation in operations}
    leases: list[Lease] = []
    held: dict[str, CdcError] = {}
    for config in task.configs:
        if config.table not in busy:
            continue
        try:
            leases += hold(task.context, task.request, (config,))
        except LeaseHeldError as error:
            held[str(config.table)] = error
    return tuple(leases), held


def count_attempts(task: TaskContext, leases: tuple[Lease, ...], operations: tuple[Operation, ...]) -> None:
    """Counts, once a run, that it tries these operations: with the first application that works on them, whichever step and try that is."""
    seen = {operation.operation_id for job, _ in task.journal.tries() for operation in job.operations}
    start_attempts(task.context, leases, tuple(operation for operation in operations if operation.operation_id not in seen))


def record_progress(task: TaskContext, step: Step, result: StepResult) -> None:
    """Writes into the tables' lines of the run how far they are, for whoever looks while the run goes on."""
    store, errors = task.context.store, result.errors
    for table in result.tables:
        run = store.table_run(task.context.pipeline.name, table.table, task.request.run_id)
        if run is None:
            continue
        error = errors.get(str(table.table))
        through = TableRunStatus.LANDED if step is Step.EXTRACT else TableRunStatus.MERGED
        kept = "" if run.status is TableRunStatus.FAILED else run.messages.message
        store.record(
            replace(
                run,
                status=TableRunStatus.FAILED if error else through,
                timing=replace(run.timing, finished_at=store.now() if error else None),
                messages=replace(run.messages, message=str(error) if error else kept),
            )
        )


def named(configs: Iterable[TableConfig]) -> list[str]:
    """Returns the tables' names."""
    return [str(config.table) for config in configs]


def _ready(step: Step, left: tuple[Operation, ...]) -> tuple[Operation, ...]:
    match step:
        case Step.EXTRACT:
            return tuple(operation for operation in left if operation.apply.landing is Landing.STAGED and not is_landed(operation))
        case Step.MERGE:
            missing = next((index for index, operation in enumerate(left) if not _can_merge(operation)), len(left))
            return left[:missing]
        case _:
            return left


def _can_merge(operation: Operation) -> bool:
    """True if an operation has been extracted; of one whose landed files are damaged by now, the merge reads the window again."""
    if operation.apply.landing is not Landing.STAGED:
        return True
    landed = find_landed(operation)
    return landed.manifest is not None or bool(landed.damage)
