"""What the ledger forgets after a while: lines of old runs, and operations that were settled long ago. Never what is open or abandoned.

Abandoned operations stay: a commit of theirs may still turn up in a lake. Each call removes a bounded number of rows, so that a ledger that
was never pruned is not locked for long; the rest goes with the next runs.
"""

from datetime import datetime
from typing import Final

from sqlalchemy import Connection, delete, select

from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.db import table_rows
from cdc_ops.state.db.operations import OperationStatus
from cdc_ops.state.db.schema import operations, runs
from cdc_ops.state.table_run import TableRunStatus

AT_ONCE: Final = 500
"""Rows of each kind that one call removes, at most."""

SETTLED: Final = (OperationStatus.COMMITTED.value, OperationStatus.DISCARDED.value)
"""What is forgotten when it is old."""


def old_runs(connection: Connection, pipeline: str, table: TableName, before: datetime) -> tuple[str, ...]:
    """Returns the runs of a table that began before an instant, oldest first; its newest and the newest that committed are not among them.

    Where its next asset event begins stands in the line of its last commit, however long it has been idle since.
    """
    mine = table_rows.of_table(runs, pipeline, table)
    old = connection.scalars(select(runs.c.run_id).where(mine, runs.c.started_at < before).order_by(runs.c.started_at).limit(AT_ONCE)).all()
    if not old:
        return ()
    newest = select(runs.c.run_id).where(mine).order_by(runs.c.started_at.desc(), runs.c.run_id).limit(1)
    kept = (connection.scalar(newest), connection.scalar(newest.where(runs.c.status == TableRunStatus.COMMITTED.value)))
    return tuple(run_id for run_id in old if run_id not in kept)


def old_operations(connection: Connection, pipeline: str, table: TableName, before: datetime) -> tuple[str, ...]:
    """Returns the operations of a table that were committed or discarded before an instant, lowest numbers first."""
    expired: list[str] = []
    for status in SETTLED:
        mine = (table_rows.of_table(operations, pipeline, table), operations.c.status == status)
        lowest = select(operations.c.operation_id, operations.c.settled_at).where(*mine).order_by(operations.c.op_seq).limit(AT_ONCE)
        expired += [row.operation_id for row in connection.execute(lowest) if row.settled_at is not None and row.settled_at < before]
    return tuple(expired)


def remove(connection: Connection, pipeline: str, table: TableName, run_ids: tuple[str, ...], operation_ids: tuple[str, ...]) -> None:
    """Removes lines and operations by their ids."""
    if run_ids:
        connection.execute(delete(runs).where(table_rows.of_table(runs, pipeline, table), runs.c.run_id.in_(run_ids)))
    if operation_ids:
        connection.execute(delete(operations).where(operations.c.operation_id.in_(operation_ids), operations.c.status.in_(SETTLED)))
