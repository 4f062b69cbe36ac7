"""Questions of a run to a person, between the first and the second try of its refused tables. No Spark here.

lines of the run -> ask -> (a person answers) -> answer -> approved_request -> the second try plans with it
"""

import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from cdc_ops.core.approvals import ApprovalRecord, ApprovalStatus, Decision
from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import RequestError
from cdc_ops.state.base import StateReader, StateStore
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.context import Context


def ask(context: Context, request: RunRequest, configs: Iterable[TableConfig]) -> tuple[ApprovalRecord, ...]:
    """Writes into the ledger what the refused tables of a run ask for, as far as the pipeline wants to be asked.

    A table about which an earlier run still asks is left: its answer is that run's, and this run ends with the error.

    Args:
        context: Pipeline and ledger.
        request: The run, whose first try has ended.
        configs: Its tables.

    Returns:
        The questions of this run, one for each table that asks.
    """
    store, settings = context.store, context.pipeline.airflow.approve
    found: list[ApprovalRecord] = []
    for config in configs:
        line = store.table_run(config.pipeline, config.table, request.run_id)
        if line is None or line.asks is None or line.asks.decision not in settings.decisions or not _waits(line):
            continue
        open_before = _open(store, config)
        if any(record.run_id != request.run_id for record in open_before):
            continue
        if not open_before:  # else this task is tried again
            now = store.now()
            record = ApprovalRecord(
                approval_id=uuid.uuid4().hex,
                pipeline=config.pipeline,
                table=config.table,
                run_id=request.run_id,
                asked=line.asks,
                text=line.messages.message if line.status is TableRunStatus.FAILED else line.messages.alert,
                asked_at=now,
                expires_at=now + settings.timeout,
                users=settings.users,
            )
            store.ask_approval(record)
            open_before = (record,)
        found += open_before[:1]
    return tuple(found)


def _waits(line: TableRun) -> bool:
    return line.status is TableRunStatus.FAILED or line.waits_for_somebody


def _open(store: StateReader, config: TableConfig) -> tuple[ApprovalRecord, ...]:
    now = store.now()
    return tuple(record for record in store.approvals(config.pipeline, config.table) if record.is_open(now))


def question_of(store: StateReader, pipeline: str, table: TableName, run_id: str) -> ApprovalRecord | None:
    """Returns the newest question of a run about a table, None if it asks nothing."""
    return next(iter(store.approvals(pipeline, table, run_id=run_id, limit=1)), None)


def answer(store: StateStore, record: ApprovalRecord, status: ApprovalStatus, who: str) -> ApprovalRecord:
    """Writes an answer into the ledger. Where gaps are let go, they are accepted for this table, as by `cdc-ops gap accept`.

    Args:
        store: The ledger.
        record: The question.
        status: The answer.
        who: Who gave it, "" for nobody.

    Returns:
        The question as it stands now: an earlier answer stays.
    """
    answered = store.answer_approval(record.approval_id, status, who)
    if answered.status is ApprovalStatus.GRANTED and record.table is not None:
        for gap in record.asked.gaps:
            with suppress(RequestError):  # it is closed by now: the files have come
                store.accept_gap(
                    record.pipeline, gap, who=answered.who or "?", why=f"approved in run {record.run_id}", tables=(record.table,)
                )
    return answered


def withdraw(store: StateStore, pipeline: str, run_id: str) -> tuple[ApprovalRecord, ...]:
    """Ends the questions of a run that nobody will answer any more, because it ends; returns all of its questions, as they stand now."""
    found = store.approvals(pipeline, run_id=run_id)
    unanswered = {record.approval_id for record in found if record.status is ApprovalStatus.ASKED}
    for identity in unanswered:
        store.answer_approval(identity, ApprovalStatus.WITHDRAWN)
    return store.approvals(pipeline, run_id=run_id) if unanswered else found


def approved_request(store: StateReader, request: RunRequest, config: TableConfig) -> RunRequest:
    """Returns the request for the second try of a table, with what somebody has granted to it; unchanged if nothing was, or it is used."""
    record = question_of(store, config.pipeline, config.table, request.run_id)
    if record is None or record.approval is None:
        return request
    if record.asked.decision is not Decision.COLUMNS:
        return replace(request, approval=record.approval)
    return RunRequest(
        run_id=request.run_id,
        trigger=request.trigger,
        holder=request.holder,
        kind=RunKind.RESYNC,
        mode=ResyncMode.FULL,
        tables=(str(config.table),),
        accept_cost=request.accept_cost,
        approval=record.approval,
    ).checked()
