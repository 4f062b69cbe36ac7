"""Groups of tables through the Spark-free verbs.

Plan with a bounded wait for leases, and commit. Airflow tasks and the CLI both call these.
"""

import logging
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from cdc_ops.core.approvals import asked_by
from cdc_ops.core.operation.job import StepResult, TableResult
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Outcome
from cdc_ops.core.operation.run_request import RunKind, RunRequest
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, LeaseHeldError, LedgerUnavailableError
from cdc_ops.sources.base import Source
from cdc_ops.state.lease import Lease
from cdc_ops.state.table_run import AssetEvents, RunMessages, RunResult, RunTiming, TableRun, TableRunStatus, Waiting
from cdc_ops.steps.commit import commit_table
from cdc_ops.steps.context import Context
from cdc_ops.steps.plan import KIND_OF_RUN, TablePlan, freeze_table
from cdc_ops.steps.reporting.warned_before import still_told

logger = logging.getLogger("cdc_ops.plan")

POLL_SECONDS = 2.0
"""Pause between two tries to take a lease that another holder has."""


_IN_LAKE = (Outcome.APPLIED, Outcome.ALREADY_APPLIED)


class IfHeld(Enum):
    """What a plan does at a table that another run holds."""

    WAIT = "wait"
    """Waits in this process, up to the pipeline's `lease_wait`; then the table fails."""
    HAND_BACK = "hand back"
    """Ends, so that its place is free for the run that holds the table; it comes again."""
    FAIL = "fail"
    """The table fails, and those behind it are planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFailure:
    """A table that a step could not work on; the others of its group go on."""

    config: TableConfig
    error: CdcError


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What a run has frozen for a group of tables.

    Args:
        plans: Of its tables; those without news have no operations.
        failures: Tables that could not be planned.
        held: The table that is waited for; it and those behind it are in neither of the two. None if none is.
    """

    plans: tuple[TablePlan, ...]
    failures: tuple[TableFailure, ...] = ()
    held: LeaseHeldError | None = None

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All operations to execute; empty if the whole group is idle."""
        return tuple(operation for plan in self.plans for operation in plan.operations)


def plan_group(
    context: Context,
    source: Source,
    request: RunRequest,
    configs: tuple[TableConfig, ...],
    if_held: IfHeld = IfHeld.WAIT,
) -> GroupPlan:
    """Plans and freezes a group; see `IfHeld` for its tables that another run holds.

    Tables are taken by name, and none while one before it is waited for: two runs of the same tables never wait for each other.

    Args:
        context, source, request, configs: What to plan.
        if_held: What to do at a table that is held.
    """
    plans: dict[TableName, TablePlan] = {}
    failures: list[TableFailure] = []
    deadline = time.monotonic() + context.pipeline.runs.lease_wait.total_seconds()
    waiting, told, held = _in_order(configs), set[str](), None
    while waiting:
        config = waiting[0]
        try:
            plans[config.table] = freeze_table(context, source, request, config)
        except LeaseHeldError as error:
            if if_held is IfHeld.HAND_BACK:
                held = error
                break
            if if_held is IfHeld.WAIT and time.monotonic() < deadline:
                if error.what not in told:
                    logger.info(f"waiting: {error.what}")
                    told.add(error.what)
                time.sleep(POLL_SECONDS)
                hold(context, request, tuple(plan.config for plan in plans.values() if plan.operations))
                continue
            failures.append(_failed(context, request, config, error))
        except CdcError as error:
            failures.append(_failed(context, request, config, error))
        del waiting[0]
    _forget(context, configs)
    done = tuple(plans[config.table] for config in configs if config.table in plans)
    return GroupPlan(plans=done, failures=tuple(failures), held=held)


def first_held(context: Context, request: RunRequest, configs: tuple[TableConfig, ...]) -> LeaseHeldError | None:
    """Returns why a group that has handed back its place has to wait still; None if nobody else holds any of its tables.

    Asks the ledger alone. Keeps the leases that this run has, and its place among those who wait.
    """
    for config in _in_order(configs):
        lease = context.store.lease(config.pipeline, config.table)
        if lease is not None:
            try:
                hold(context, request, (config,), live=request.kind is RunKind.INCREMENT)
            except LeaseHeldError as error:
                return error
    return None


def _in_order(configs: tuple[TableConfig, ...]) -> list[TableConfig]:
    return sorted(configs, key=lambda config: str(config.table))


def _forget(context: Context, configs: tuple[TableConfig, ...]) -> None:
    """Keeps the ledger small; here, because every run comes by, also one whose tables are idle or fail."""
    with suppress(LedgerUnavailableError):  # the next run does it; what was planned is worth more
        before = context.store.now() - context.pipeline.runs.run_retention
        for config in configs:
            context.store.prune(config.pipeline, config.table, before)


def hold(context: Context, request: RunRequest, configs: tuple[TableConfig, ...], *, live: bool = True) -> tuple[Lease, ...]:
    """Takes or renews the leases of tables that this run has planned.

    Args:
        context, request, configs: The run and its tables.
        live: Whether it goes before backfills and resyncs where it has to wait.

    Raises:
        LeaseHeldError: a lease had expired, and another holder took it.
    """
    acquire = context.store.acquire
    return tuple(
        acquire(c.pipeline, c.table, request.holder, ttl=context.lease_ttl, live=live, purpose=request.kind.value) for c in configs
    )


def commit_group(
    context: Context, request: RunRequest, configs: tuple[TableConfig, ...], result: StepResult | None
) -> tuple[tuple[TableRun, ...], tuple[TableFailure, ...]]:
    """Settles a group after Spark.

    Args:
        context, request: The run.
        configs: Tables that had operations.
        result: What Spark reported; None if it left no report, then the lake alone decides.

    Returns:
        The tables' lines in the run's record, and the tables that have unfinished operations left, each with the reason.
    """
    reported = {item.table: item for item in result.tables} if result else {}
    runs: list[TableRun] = []
    failures: list[TableFailure] = []
    for config in configs:
        try:
            settled = commit_table(context, request, config, reported.get(config.table), result.phases if result else ())
        except LeaseHeldError as error:
            failures.append(_failed(context, request, config, _lost(config, error, reported.get(config.table))))
            continue
        except CdcError as error:
            failures.append(_failed(context, request, config, error))
            continue
        runs.append(settled.run)
        if settled.error is not None:
            failures.append(TableFailure(config=config, error=settled.error))
    return tuple(runs), tuple(failures)


def _lost(config: TableConfig, held: LeaseHeldError, result: TableResult | None) -> LeaseHeldError:
    """Says what became of a run's work on a table that another run holds by now."""
    written = [item for item in result.operations if item.outcome in _IN_LAKE] if result else []
    done = ", ".join(f"operation {item.op_seq} in Delta version {item.delta_version}" for item in written)
    return LeaseHeldError(
        f"This run lost its lease on {config.table} while it worked. {held.what}",
        why="The lease was not renewed in time, because the process or its machine stood still, or somebody unlocked the table.",
        data=f"Committed, once: {done}. The ledger is brought up to that by the run that holds the table."
        if done
        else "This run committed nothing; what it had read is merged by the run that holds the table.",
        next="Nothing to do: the run that holds the table finishes what is open.",
    )


def _failed(context: Context, request: RunRequest, config: TableConfig, error: CdcError) -> TableFailure:
    with suppress(LedgerUnavailableError):  # the failure itself is what the run reports, with or without a line in the ledger
        record_failure(context, request, config, error)
    return TableFailure(config=config, error=error)


def record_failure(context: Context, request: RunRequest, config: TableConfig, error: CdcError) -> TableRun:
    """Writes into the ledger that a run has failed for a table, and returns that line; what the plan said of the run stays.

    Raises:
        LedgerUnavailableError: the ledger does not answer.
    """
    now = context.store.now()
    opened = context.store.table_run(config.pipeline, config.table, request.run_id)
    line = TableRun(
        pipeline=config.pipeline,
        table=config.table,
        run_id=request.run_id,
        trigger=request.trigger,
        kind=opened.kind if opened else KIND_OF_RUN[request.kind],
        status=TableRunStatus.FAILED,
        timing=replace(opened.timing if opened else RunTiming(started_at=now), finished_at=now),
        result=RunResult(window=opened.result.window if opened else None),  # the lake may have its rows: it leaves no hole
        messages=RunMessages(
            message=str(error),
            alert=opened.messages.alert if opened else "",
            warnings=still_told(context.store, config.pipeline, config.table, request.run_id),
        ),
        events=AssetEvents(silent=opened.events.silent if opened else request.silent),  # a step that is tried again goes by this line
        waits_for=Waiting(missing=opened.waits_for.missing if opened else None, asks=asked_by(error)),
        cost=opened.cost if opened else None,
        max_lag=config.settings.load.max_lag or None,
        wrong_request=request.is_wrong_by(error),
    )
    context.store.record(line)
    return line
