"""Questions of runs and their answers, in SQL; see state.approvals for what each method promises."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol, TypeVar

from sqlalchemy import Connection, delete, insert, select, update

from cdc_ops.core import json_codec
from cdc_ops.core.approvals import ApprovalRecord, ApprovalStatus
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import RequestError, StaleStateError
from cdc_ops.state.db import leases, table_rows, totals
from cdc_ops.state.db.database import Database
from cdc_ops.state.db.schema import approvals
from cdc_ops.state.notices.approvals import ApprovalReader, ApprovalStore

T = TypeVar("T")

_BY_PEOPLE: Final = (ApprovalStatus.GRANTED, ApprovalStatus.REFUSED)
"""Answers that have to come in time."""


class _Reading(Protocol):
    _database: Database

    def _read(self, query: Callable[[Connection], T], empty: T) -> T: ...


class SqlApprovalReader(ApprovalReader):
    """The reading half; a part of `SqlStateReader`."""

    def approvals(
        self: "_Reading",
        pipeline: str | None = None,
        table: TableName | None = None,
        *,
        run_id: str | None = None,
        status: ApprovalStatus | None = None,
        limit: int = 200,
    ) -> tuple[ApprovalRecord, ...]:
        """See `ApprovalReader`."""
        query = select(approvals.c.body).order_by(approvals.c.asked_at.desc(), approvals.c.approval_id).limit(limit)
        if pipeline is not None:
            query = query.where(approvals.c.pipeline == pipeline)
        if table is not None:
            query = query.where(approvals.c.table_schema == table.schema, approvals.c.table_name == table.name)
        if run_id is not None:
            query = query.where(approvals.c.run_id == run_id)
        if status is not None:
            query = query.where(approvals.c.status == status.value)
        return self._read(lambda connection: tuple(json_codec.loads(ApprovalRecord, text) for text in connection.scalars(query)), ())


class SqlApprovalStore(SqlApprovalReader, ApprovalStore):
    """The writing half; a part of `SqlStateStore`."""

    def ask_approval(self: "_Reading", record: ApprovalRecord) -> None:
        """See `ApprovalStore`."""
        names = {"table_schema": "", "table_name": ""} if record.table is None else {}  # '' is the name of no table
        place = table_rows.key(record.pipeline, record.table) if record.table else {"pipeline": record.pipeline, **names}
        told = {"approval_id": record.approval_id, "run_id": record.run_id, "asked_at": record.asked_at}
        with self._database.write() as connection:
            connection.execute(insert(approvals).values(place | told | _changing(record)))
            totals.add_question(connection, record)

    def answer_approval(self: "_Reading", approval_id: str, status: ApprovalStatus, who: str = "") -> ApprovalRecord:
        """See `ApprovalStore`."""
        with self._database.write() as connection:
            record = _locked(connection, approval_id)
            if record is None:
                raise RequestError(
                    f"The ledger has no question {approval_id!r}.",
                    why="It was forgotten after 'run_retention', or the ledger was rebuilt.",
                    data="Nothing was changed.",
                    next="Run again: a table that is still refused asks again.",
                )
            if record.status is ApprovalStatus.ASKED:
                now = leases.clock(connection)
                if status in _BY_PEOPLE and not record.is_open(now):
                    status, who = ApprovalStatus.TIMED_OUT, ""
                record = replace(record, status=status, who=who, decided_at=now)
                _put(connection, record)
                totals.add_question(connection, record)
            return record


def use(connection: Connection, frozen: Iterable[Operation]) -> None:
    """Notes that the operations of one plan are let through by approvals, which let nothing else through from then on.

    Raises:
        StaleStateError: an approval was not granted to an operation's table and run, or has let through another plan.
    """
    together: dict[str, int] = {}
    for operation in frozen:
        if operation.approval is None:
            continue
        identity = operation.approval.approval_id
        record = _granted(_locked(connection, identity), operation, together.get(identity))
        if record.op_seq is None:
            together[identity] = operation.op_seq
            _put(connection, replace(record, op_seq=operation.op_seq))


def _granted(record: ApprovalRecord | None, operation: Operation, together: int | None) -> ApprovalRecord:
    """Returns the record of an operation's approval, if it lets the operation through.

    Args:
        record: What the ledger has of it.
        operation: The operation.
        together: Number of an operation of the same plan that it lets through, None if this is the first.
    """
    if record is None:
        raise _does_not_count(operation, "The ledger has no such question.")
    if (record.pipeline, record.table, record.run_id) != (operation.pipeline, operation.table, operation.plan.run_id):
        raise _does_not_count(operation, f"It was asked about {record.subject} in run {record.run_id}.")
    if record.status is not ApprovalStatus.GRANTED:
        raise _does_not_count(operation, f"It was not granted: it is {record.status.words}.")
    if record.op_seq not in (None, together):
        raise _does_not_count(operation, f"It has let operation {record.op_seq} through, and counts once.")
    return record


def _does_not_count(operation: Operation, why: str) -> StaleStateError:
    return StaleStateError(
        f"No approval lets operation {operation.op_seq} ({operation.kind}) of {operation.table} through.",
        why=why,
        data="Nothing was frozen or written; the watermark stays.",
        next="Nothing to do: the plan is made again without it, and goes on with what was let through, or is refused as before.",
    )


def prune(connection: Connection, pipeline: str, table: TableName, before: datetime) -> None:
    """Forgets a table's questions from before an instant, but none that may be answered yet, or was granted since and is not used."""
    old = (table_rows.of_table(approvals, pipeline, table), approvals.c.asked_at < before)
    alive = approvals.c.status.in_((ApprovalStatus.ASKED.value, ApprovalStatus.GRANTED.value))
    now, kept = leases.clock(connection), []
    for text in connection.scalars(select(approvals.c.body).where(*old, alive)):
        record = json_codec.loads(ApprovalRecord, text)
        if record.is_open(now) or (record.approval is not None and record.approval.at >= before):
            kept.append(record.approval_id)
    connection.execute(delete(approvals).where(*old, approvals.c.approval_id.not_in(kept)))


def _locked(connection: Connection, approval_id: str) -> ApprovalRecord | None:
    text = connection.scalar(select(approvals.c.body).where(approvals.c.approval_id == approval_id).with_for_update())
    return None if text is None else json_codec.loads(ApprovalRecord, text)


def _put(connection: Connection, record: ApprovalRecord) -> None:
    connection.execute(update(approvals).where(approvals.c.approval_id == record.approval_id).values(_changing(record)))


def _changing(record: ApprovalRecord) -> dict[str, str]:
    return {"status": record.status.value, "body": json_codec.dumps(record)}
