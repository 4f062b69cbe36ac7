"""Up to where those who follow a table have been told of it: asset events chain up, whatever happened between them."""

from collections.abc import Sequence

from cdc_ops.state.base import TableRun, TableRunStatus


def told_before(lines: Sequence[TableRun], run_id: str, settled: int | None) -> int | None:
    """Returns the Delta version up to which earlier runs' asset events have told of a table, None if of nothing.

    Args:
        lines: The table's lines, newest first, the run's own among them.
        run_id: The run.
        settled: Delta version of the ledger's state before this run settles anything.
    """
    last = next((line for line in lines if line.delta_version is not None), None)
    if last is None:  # all that are looked at were idle: what is settled was told long ago
        return settled if len(lines) > 1 else None
    # No event goes out for a run that failed, not even if it has committed something, and none for the command line's.
    told = last.run_id != run_id and last.status is TableRunStatus.COMMITTED and last.trigger != "cli"
    return last.delta_version if told else last.told_before
