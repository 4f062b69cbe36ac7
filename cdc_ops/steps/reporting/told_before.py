"""What has been told of a table already: up to where asset events chain up, and which warnings are not new."""

from collections.abc import Sequence

from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.base import StateReader
from cdc_ops.state.table_run import TableRun, TableRunStatus


def last_announced_version(lines: Sequence[TableRun], run_id: str, settled: int | None) -> int | None:
    """Returns the Delta version up to which earlier runs' asset events have told of a table, None if of nothing.

    Args:
        lines: The table's lines, newest first, the run's own among them.
        run_id: The run.
        settled: Delta version of the ledger's state before this run settles anything.
    """
    last = next((line for line in lines if line.result.delta_version is not None), None)
    if last is None:  # all that are looked at were idle: what is settled was told long ago
        return settled if len(lines) > 1 else None
    # No event goes out for a run that failed, not even if it has committed something, and none for the command line's.
    told = last.run_id != run_id and last.status is TableRunStatus.COMMITTED and last.trigger != "cli"
    return last.result.delta_version if told else last.told_before


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
