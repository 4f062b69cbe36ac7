"""A run that was told to end (Ctrl-C, SIGTERM): the lake says what it has committed, and the leases that it holds are given back.

What was planned stays frozen in the ledger, as after any other end. A lease stays where Spark may still commit: then it runs out by itself.
"""

import time
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, LedgerUnavailableError, RunStoppedError, Stopped
from cdc_ops.state.lease import Lease
from cdc_ops.state.table_run import STOPPED, TableRun
from cdc_ops.steps.commit import commit_table
from cdc_ops.steps.context import Context
from cdc_ops.steps.runs.table_groups import TableFailure

SETTLE_SECONDS: Final = 4.0
"""After these, leases are given back without a look at the lake: the next run of the table has that look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedTables:
    """What became of the tables of a run that was told to end.

    Args:
        runs: Their lines in the run's record; a table without one was not begun.
        failures: Those that the run had begun and that are not committed, each with the reason.
    """

    runs: tuple[TableRun, ...]
    failures: tuple[TableFailure, ...]


def settle_stopped(context: Context, request: RunRequest, configs: tuple[TableConfig, ...], stop: Stopped) -> StoppedTables:
    """Settles the tables of a run that ends now, by what the lake has, and gives back every lease that the run holds.

    Args:
        context, request, configs: The run and its tables, on which nothing works any more unless `stop.may_commit`.
        stop: Who ended it.
    """
    held: dict[TableName, Lease] = {}
    failures: list[TableFailure] = []
    end = time.monotonic() + SETTLE_SECONDS
    try:
        held = _held(context, request)
        for config in configs:
            if config.table in held and (error := _settle(context, request, config, stop, held[config.table], end)) is not None:
                failures.append(TableFailure(config=config, error=error))
        return StoppedTables(runs=_lines(context, request, len(configs)), failures=tuple(failures))
    except LedgerUnavailableError:
        told = {failure.config.table for failure in failures}
        left = [config for config in configs if config.table in held and config.table not in told]
        failures += [TableFailure(config=config, error=_kept(config, stop, held[config.table])) for config in left]
        return StoppedTables(runs=(), failures=tuple(failures))


def _held(context: Context, request: RunRequest) -> dict[TableName, Lease]:
    rows = context.store.overview(context.pipeline.name)
    return {row.state.table: row.lease for row in rows if row.lease is not None and row.lease.holder == request.holder}


def _lines(context: Context, request: RunRequest, tables: int) -> tuple[TableRun, ...]:
    return context.store.table_runs(context.pipeline.name, run_id=request.run_id, limit=tables + 1)


def _settle(context: Context, request: RunRequest, config: TableConfig, stop: Stopped, lease: Lease, end: float) -> CdcError | None:
    """Returns why a table is not committed, None if it is or if the run had planned nothing for it."""
    if stop.may_commit:
        return _kept(config, stop, lease)
    store = context.store
    line = store.table_run(config.pipeline, config.table, request.run_id)
    if line is None or line.status.has_ended:  # it was being planned, or kept in order
        store.release(lease)
        return None
    if time.monotonic() > end:
        store.release(lease)
        return _unfinished(context, config, stop)
    try:
        settled = commit_table(context, request, config, None, lost=_unfinished(context, config, stop))
    except LedgerUnavailableError:
        raise
    except CdcError as error:
        return error
    return None if settled.error is None else _unfinished(context, config, stop)


def _unfinished(context: Context, config: TableConfig, stop: Stopped) -> RunStoppedError:
    """Returns the error of a table whose operations are not all committed."""
    parts = context.store.table_state(config.pipeline, config.table).progress.snapshot
    done = f"{parts.done} of {parts.total} parts of its first load are committed; " if parts is not None and parts.done else ""
    return RunStoppedError(
        f"{stop.by}{STOPPED}{config.table} was committed.",
        data=f"{done}{'w' if done else 'W'}hat is left is planned, and the next run finishes it.",
        next=f"cdc-ops run --pipeline {config.pipeline}",
    )


def _kept(config: TableConfig, stop: Stopped, lease: Lease) -> RunStoppedError:
    """Returns the error of a table whose lease runs out by itself."""
    why = "It is not certain that Spark has ended its work on it." if stop.may_commit else "The ledger did not answer any more."
    return RunStoppedError(
        f"{stop.by}{STOPPED}it was known whether {config.table} was committed.",
        held_until=lease.expires_at,
        why=why,
        data=f"It is committed once or not at all. Its lease was not given back: it runs out at {lease.expires_at:%Y-%m-%d %H:%M:%S} UTC.",
        next=f"cdc-ops run --pipeline {config.pipeline}, which finds what was committed and finishes the rest.",
    )
