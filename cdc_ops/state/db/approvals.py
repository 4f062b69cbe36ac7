"""Questions of runs and their answers, in SQL; see state.approvals for what each method promises."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Protocol, TypeVar

from sqlalchemy import Connection, delete, insert, select, update

from cdc_ops.core import json_codec
from cdc_ops.core.approvals import ApprovalRecord, ApprovalStatus
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import RequestError
from cdc_ops.state.approvals import ApprovalReader, ApprovalStore
from cdc_ops.state.db import leases, table_rows
from cdc_ops.state.db.database import Database
from cdc_ops.state.db.schema import approvals

T = TypeVar("T")


class _Reading(Protocol):
    _database: Database

    def _read(self, query: Callable[[Connection], T], empty: T) -> T: ...


class SqlApprovalReader(ApprovalReader):
    """The reading half; a part of `SqlStateReader`."""

    def approvals(
        self: "_Reading", pipeline: str | None = None, table: TableName | None = None, *, run_id: str | None = None, limit: int = 200
    ) -> tuple[ApprovalRecord, ...]:
        """See `ApprovalReader`."""
        query = select(approvals.c.body).order_by(approvals.c.asked_at.desc(), approvals.c.approval_id).limit(limit)
        if pipeline is not None:
            query = query.where(approvals.c.pipeline == pipeline)
        if table is not None:
            query = query.where(approvals.c.table_schema == table.schema, approvals.c.table_name == table.name)
        if run_id is not None:
            query = query.where(approvals.c.run_id == run_id)
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
                record = replace(record, status=status, who=who, decided_at=leases.clock(connection))
                _put(connection, record)
            return record


def use(connection: Connection, frozen: Iterable[Operation]) -> None:
    """Notes that operations are let through by approvals, which let nothing else through from then on."""
    for operation in frozen:
        record = _locked(connection, operation.approval.approval_id) if operation.approval else None
        if record is not None and record.op_seq is None:
            _put(connection, replace(record, op_seq=operation.op_seq))


def prune(connection: Connection, pipeline: str, table: TableName, before: datetime) -> None:
    """Forgets a table's questions from before an instant."""
    connection.execute(delete(approvals).where(table_rows.of_table(approvals, pipeline, table), approvals.c.asked_at < before))


def _locked(connection: Connection, approval_id: str) -> ApprovalRecord | None:
    text = connection.scalar(select(approvals.c.body).where(approvals.c.approval_id == approval_id).with_for_update())
    return None if text is None else json_codec.loads(ApprovalRecord, text)


def _put(connection: Connection, record: ApprovalRecord) -> None:
    connection.execute(update(approvals).where(approvals.c.approval_id == record.approval_id).values(_changing(record)))


def _changing(record: ApprovalRecord) -> dict[str, str]:
    return {"status": record.status.value, "body": json_codec.dumps(record)}
