"""What has been told of a table already: up to where asset events chain up, and which warnings are not new."""

from collections.abc import Iterable, Sequence

from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.base import StateReader
from cdc_ops.state.table_run import TableRun, TableRunStatus

_READS_AGAIN = (OperationKind.BACKFILL, OperationKind.RESYNC, OperationKind.REPLAY)
"""Whoever commits an operation of another kind, which an earlier run has left, tells the DAGs behind the table of it."""


def is_silent(request: RunRequest, operations: Iterable[Operation]) -> bool:
    """True if no asset event goes out when a run commits these operations of a table."""
    return request.silent and all(operation.kind in _READS_AGAIN for operation in operations)


def last_announced_version(lines: Sequence[TableRun], run_id: str) -> int | None:
    """Returns the Delta version up to which earlier runs' asset events have told of a table, None if of nothing.

    Args:
        lines: The table's newest lines, newest first, the run's own among them, and behind them the newest one that committed.
        run_id: The run.
    """
    last = next((line for line in lines if line.result.delta_version is not None), None)
    if last is None:  # the ledger keeps the last line that committed: there was none, although a lost commit step may have left rows
        return None
    # No event goes out for a run that failed, not even if it has committed something, for the command line's, and for silent ones.
    told = last.run_id != run_id and last.status is TableRunStatus.COMMITTED and last.trigger != "cli" and not last.events.silent
    return last.result.delta_version if told else last.events.told_before


def warned_before(reader: StateReader, pipeline: str, table: TableName, run_id: str) -> tuple[str, ...]:
    """Returns the warnings of the run before this one: those among them that still hold are not told again."""
    lines = reader.history(pipeline, table, limit=2)
    return next((line.messages.warnings for line in lines if line.run_id != run_id), ())


def still_told(reader: StateReader, pipeline: str, table: TableName, run_id: str) -> tuple[str, ...]:
    """Returns the warnings that were told before a plan which looks for none: by an earlier try of the run, or by the run before it.

    They go into the run's line, so that the run after it does not tell them as new.
    """
    opened = reader.table_run(pipeline, table, run_id)
    return opened.messages.warnings if opened else warned_before(reader, pipeline, table, run_id)


def unchanged_text(count: int, how: str) -> str:
    """Returns the line that stands for warnings which are not repeated, "" for none; `how` says where they are shown."""
    return f"{count} earlier warning{'s' if count != 1 else ''} unchanged; {how}" if count else ""
