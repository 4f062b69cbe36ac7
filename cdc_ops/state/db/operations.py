"""Frozen operations: written once before their first try, then only their status and number of tries move."""

import enum
import json
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from cdc_ops.core import json_codec
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import OperationResult
from cdc_ops.core.reconcile.diff import AbandonedOperation
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import StaleStateError, StateError
from cdc_ops.state.base import OpenNumber
from cdc_ops.state.db import table_rows
from cdc_ops.state.db.schema import operations, utc_now


class OperationStatus(enum.StrEnum):
    """How an operation stands in the ledger."""

    OPEN = "open"
    """Frozen; it holds its table until it is settled."""
    COMMITTED = "committed"
    """The lake holds it."""
    ABANDONED = "abandoned"
    """Given up, or compared and found nothing to do (then its result says so); its number is burnt."""
    DISCARDED = "discarded"
    """Its number was drawn by a ledger that did not know the lake; the state was rebuilt from the lake."""


def open_specs(connection: Connection, pipeline: str, table: TableName) -> tuple[Operation, ...]:
    """Returns the open operations of a table in op_seq order.

    Raises:
        StateError: one of them was frozen by a version of cdc-ops that writes plans otherwise.
    """
    query = select(operations.c.spec).where(_with_status(pipeline, table, OperationStatus.OPEN)).order_by(operations.c.op_seq)
    try:
        return tuple(json_codec.loads(Operation, text) for text in connection.scalars(query))
    except StateError as error:
        raise StateError(
            f"An open operation of {table} cannot be read from the ledger.",
            why=f"Another version of cdc-ops planned it: {error.why}",
            data="Nothing was read or written; the Delta table and its watermark are as they were.",
            next=f"cdc-ops state rebuild --pipeline {pipeline} --table {table}   # discards open operations; the next run plans them again",
        ) from error


def open_numbers(connection: Connection, pipeline: str, table: TableName) -> tuple[OpenNumber, ...]:
    """Returns the numbers of the open operations of a table, also of those that cannot be read."""
    open_here = _with_status(pipeline, table, OperationStatus.OPEN)
    query = select(operations.c.op_seq, operations.c.operation_id).where(open_here).order_by(operations.c.op_seq)
    return tuple(OpenNumber(op_seq=row.op_seq, operation_id=row.operation_id) for row in connection.execute(query))


def abandoned_ids(connection: Connection, pipeline: str, table: TableName) -> frozenset[str]:
    """Returns the operation ids of a table that were given up."""
    query = select(operations.c.operation_id).where(_with_status(pipeline, table, OperationStatus.ABANDONED))
    return frozenset(connection.scalars(query))


def last_abandoned(connection: Connection, pipeline: str, table: TableName, *, above: int) -> AbandonedOperation | None:
    """Returns the last operation of a table that was given up under a number above `above`; a comparison that found nothing was not."""
    here = (_with_status(pipeline, table, OperationStatus.ABANDONED), operations.c.result.is_(None), operations.c.op_seq > above)
    text = connection.scalar(select(operations.c.spec).where(*here).order_by(operations.c.op_seq.desc()).limit(1))
    if text is None:
        return None
    plan = json.loads(text)  # only what every version of cdc-ops writes of a plan
    return json_codec.from_data(AbandonedOperation, {name: plan[name] for name in ("op_seq", "operation_id", "run_id", "kind")})


def attempts(connection: Connection, operation: Operation) -> int:
    """Returns the tries of an operation so far, 0 for one that the ledger does not know."""
    query = select(operations.c.attempts).where(operations.c.operation_id == operation.operation_id)
    return connection.scalar(query) or 0


def last_open_number(connection: Connection, pipeline: str, table: TableName) -> int | None:
    """Returns the largest op_seq among a table's open operations."""
    query = select(func.max(operations.c.op_seq)).where(_with_status(pipeline, table, OperationStatus.OPEN))
    number: int | None = connection.scalar(query)
    return number


def status_of(connection: Connection, operation: Operation) -> OperationStatus | None:
    """Returns an operation's status, None if the ledger does not know it."""
    status = connection.scalar(select(operations.c.status).where(operations.c.operation_id == operation.operation_id))
    return None if status is None else OperationStatus(status)


def freeze(connection: Connection, specs: tuple[Operation, ...]) -> None:
    """Writes operations as open."""
    if specs:
        connection.execute(insert(operations).values(frozen_at=utc_now()), [_row(operation) for operation in specs])


def refreeze(connection: Connection, operation: Operation) -> None:
    """Replaces the plan of an open operation.

    Raises:
        StaleStateError: the operation is not open under this number.
    """
    same = (operations.c.operation_id == operation.operation_id, operations.c.op_seq == operation.op_seq)
    is_open = operations.c.status == OperationStatus.OPEN.value
    changed = connection.execute(update(operations).where(*same, is_open).values(spec=json_codec.dumps(operation)))
    if changed.rowcount != 1:
        raise not_open(operation, status_of(connection, operation))


def count_attempt(connection: Connection, operation: Operation) -> int:
    """Counts a try.

    Raises:
        StaleStateError: the operation is not open.
    """
    is_open = (operations.c.operation_id == operation.operation_id, operations.c.status == OperationStatus.OPEN.value)
    changed = connection.execute(update(operations).where(*is_open).values(attempts=operations.c.attempts + 1))
    if changed.rowcount != 1:
        raise not_open(operation, status_of(connection, operation))
    return attempts(connection, operation)


def settle(connection: Connection, operation: Operation, status: OperationStatus, result: OperationResult | None) -> None:
    """Ends an open operation."""
    ended = {"status": status.value, "settled_at": utc_now(), "result": None if result is None else json_codec.dumps(result)}
    connection.execute(update(operations).where(operations.c.operation_id == operation.operation_id).values(ended))


def discard_open(connection: Connection, pipeline: str, table: TableName) -> None:
    """Discards what is open."""
    ended = {"status": OperationStatus.DISCARDED.value, "settled_at": utc_now()}
    connection.execute(update(operations).where(_with_status(pipeline, table, OperationStatus.OPEN)).values(ended))


def not_open(operation: Operation, status: OperationStatus | None) -> StaleStateError:
    """Returns the error for an operation that cannot be tried or settled any more."""
    return StaleStateError(
        f"Operation {operation.op_seq} ({operation.kind}) of {operation.table} is not open: it is {status or 'unknown to the ledger'}.",
        why="Another run finished it in the meantime, or the ledger was rebuilt.",
        data="Delta never applies an operation twice; this step did not change the watermark.",
        next="Nothing to do: the next run creates a new plan.",
    )


def _with_status(pipeline: str, table: TableName, status: OperationStatus) -> ColumnElement[bool]:
    return table_rows.of_table(operations, pipeline, table) & (operations.c.status == status.value)


def _row(operation: Operation) -> dict[str, Any]:
    fixed = {"op_seq": operation.op_seq, "status": OperationStatus.OPEN.value, "attempts": 0, "spec": json_codec.dumps(operation)}
    return table_rows.key(operation.pipeline, operation.table) | {"operation_id": operation.operation_id} | fixed
