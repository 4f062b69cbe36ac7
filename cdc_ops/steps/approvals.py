"""Questions of a run to a person, between the first and the second try of its refused tables. No Spark here.

lines of the run -> ask -> (a person answers) -> answer -> approved_request -> the second try plans with it
"""

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Final

from cdc_ops.core.approvals import ApprovalRecord, ApprovalStatus, Asked, Decision, answer_text, asked_by, is_same_question
from cdc_ops.core.archive.completeness import GapRecord
from cdc_ops.core.operation.run_request import Accepts, AskedComparison, ResyncMode, RunKind, RunRequest
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, RequestError
from cdc_ops.state.base import StateReader, StateStore
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.context import Context

logger = logging.getLogger("cdc_ops.plan")

ALL: Final = 100_000
"""More questions than the tables of a pipeline can have open."""

_ANSWERS: Final = (ApprovalStatus.GRANTED, ApprovalStatus.REFUSED)
"""What somebody has said; nobody answers what times out or is withdrawn."""


def nobody_knows(run_id: str) -> bool:
    """Takes every run as one that still waits."""
    return False


def ask(
    context: Context, request: RunRequest, configs: Iterable[TableConfig], *, has_ended: Callable[[str], bool] = nobody_knows
) -> tuple[ApprovalRecord, ...]:
    """Writes into the ledger what the refused tables of a run ask for, as far as the pipeline wants to be asked.

    A table about which an earlier run still asks, or that an earlier run goes on with, is left: the answer is that run's, and this run ends
    with the error. So it is with what somebody has refused before, unless somebody has asked for this run. What this run itself has asked
    before is asked anew if the table's error is another one by now.

    Args:
        context: Pipeline and ledger.
        request: The run, whose first try has ended.
        configs: Its tables.
        has_ended: Whether another run is over, by its id: then nobody can answer it any more, and its questions are withdrawn.

    Returns:
        The questions of this run, one for each table that asks.
    """
    _withdraw_ended(context, request, has_ended)
    return tuple(found for config in configs if (found := _asked_now(context, request, config, has_ended)) is not None)


def _withdraw_ended(context: Context, request: RunRequest, has_ended: Callable[[str], bool]) -> None:
    """Withdraws what is still asked by runs that came to their end without their last task, such as by `run_timeout`."""
    asked = context.store.approvals(context.pipeline.name, status=ApprovalStatus.ASKED, limit=ALL)
    for run_id in dict.fromkeys(record.run_id for record in asked if record.run_id != request.run_id):
        if has_ended(run_id):
            withdraw(context.store, context.pipeline.name, run_id)


def _asked_now(context: Context, request: RunRequest, config: TableConfig, has_ended: Callable[[str], bool]) -> ApprovalRecord | None:
    """Returns the question of a run about a table, which the ledger has then; None if the run may not ask."""
    store = context.store
    waiting, wanted = _open(store, config), _question(context, request, config)
    own = next((record for record in waiting if record.run_id == request.run_id), None)
    if own is not None and wanted is not None and (own.asked, own.text) == (wanted.asked, wanted.text):
        return own
    if own is not None:
        store.answer_approval(own.approval_id, ApprovalStatus.WITHDRAWN)
    if wanted is None or any(record is not own for record in waiting) or _goes_on(store, config, request.run_id, has_ended):
        return None
    if _refused_before(context, request, config.table, wanted.asked, wanted.text) is not None:
        return None
    store.ask_approval(wanted)
    return wanted


def _question(context: Context, request: RunRequest, config: TableConfig) -> ApprovalRecord | None:
    """Returns what a table's line in a run asks for, newer than all that the run has asked of it; None if it asks nothing."""
    store, settings = context.store, context.pipeline.airflow.approve
    line = store.table_run(config.pipeline, config.table, request.run_id)
    asks = line.waits_for.asks if line is not None else None
    if line is None or asks is None or asks.decision not in settings.decisions or not _waits(line):
        return None
    now, before = store.now(), question_of(store, config.pipeline, config.table, request.run_id)
    asked_at = now if before is None else max(now, before.asked_at + timedelta(microseconds=1))
    return ApprovalRecord(
        approval_id=uuid.uuid4().hex,
        pipeline=config.pipeline,
        table=config.table,
        run_id=request.run_id,
        asked=asks,
        text=_text(line),
        asked_at=asked_at,
        expires_at=now + settings.timeout,
        users=settings.users,
    )


def _waits(line: TableRun) -> bool:
    return line.status is TableRunStatus.FAILED or line.waits_for_somebody


def _text(line: TableRun) -> str:
    return line.messages.message if line.status is TableRunStatus.FAILED else line.messages.alert


def _open(store: StateReader, config: TableConfig) -> tuple[ApprovalRecord, ...]:
    now = store.now()
    asked = store.approvals(config.pipeline, config.table, status=ApprovalStatus.ASKED)
    return tuple(record for record in asked if record.is_open(now))


def _goes_on(store: StateReader, config: TableConfig, run_id: str, has_ended: Callable[[str], bool]) -> bool:
    """True if an earlier run was let through and has not used that yet: it is about to."""
    granted = store.approvals(config.pipeline, config.table, status=ApprovalStatus.GRANTED)
    return any(record.approval is not None and record.run_id != run_id and not has_ended(record.run_id) for record in granted)


def not_refused_before(context: Context, request: RunRequest, errors: Mapping[str, CdcError]) -> dict[str, CdcError]:
    """Returns the errors of tables without those that ask for what somebody has refused before; these are logged.

    Args:
        context, request: The run.
        errors: By the tables' names.
    """
    left = {}
    for name, error in errors.items():
        asked, table = asked_by(error), TableName.parse(name)
        refused = None if asked is None else _refused_before(context, request, table, asked, str(error))
        if refused is None:
            left[name] = error
        else:
            logger.warning(f"{name}: {error}\n{refused_text(refused)}")
    return left


def refusal_of(context: Context, request: RunRequest, line: TableRun) -> ApprovalRecord | None:
    """Returns the answer of somebody who has refused, in an earlier run, just what a table's line asks for; None if nobody has.

    Args:
        context, request: The run. One that somebody has asked for asks again.
        line: The table's line of the run.
    """
    asks = line.waits_for.asks
    return None if asks is None or not _waits(line) else _refused_before(context, request, line.table, asks, _text(line))


def refused_text(refused: ApprovalRecord) -> str:
    """Returns why an error is no failure of a run, and is not asked about."""
    return (
        f"This was {answer_text(refused)}, in run {refused.run_id}: the table stays as it is, and nobody is asked again until that changes,"
        " or somebody triggers a run."
    )


def _refused_before(context: Context, request: RunRequest, table: TableName, asked: Asked, text: str) -> ApprovalRecord | None:
    """Returns the last answer to this decision about a table, if it is a refusal of the same question in another run."""
    if request.is_by_hand or asked.decision not in context.pipeline.airflow.approve.decisions:
        return None
    records = context.store.approvals(context.pipeline.name, table)
    last = next((one for one in records if one.status in _ANSWERS and one.asked.decision is asked.decision), None)
    if last is None or last.status is not ApprovalStatus.REFUSED or last.run_id == request.run_id:
        return None
    return last if is_same_question(last, asked, text) else None


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


def accept_gaps(store: StateStore, pipeline: str, request: RunRequest, who: str) -> tuple[GapRecord, ...]:
    """Accepts the gaps that somebody has named for a run, for its tables, as `cdc-ops gap accept` does; again, it changes nothing.

    Args:
        store: The ledger.
        pipeline: Whose archive.
        request: The run.
        who: Who asked for it; kept with the decision.

    Raises:
        RequestError: a table of the run has no such gap: its files may have come.
    """
    tables = tuple(map(TableName.parse, request.tables))
    return tuple(
        record
        for gap in request.accepts.gaps
        for record in store.accept_gap(pipeline, gap, who=who or "?", why=request.accepts.why, tables=tables)
    )


def withdraw(store: StateStore, pipeline: str, run_id: str) -> tuple[ApprovalRecord, ...]:
    """Ends the questions of a run that nobody will answer any more, because it ends; returns all of its questions, as they stand now."""
    for record in store.approvals(pipeline, run_id=run_id, status=ApprovalStatus.ASKED, limit=ALL):
        store.answer_approval(record.approval_id, ApprovalStatus.WITHDRAWN)
    return store.approvals(pipeline, run_id=run_id, limit=ALL)


def approved_request(store: StateReader, request: RunRequest, config: TableConfig) -> RunRequest:
    """Returns the request for the second try of a table, with what somebody has granted to it; unchanged if nothing was, or it is used.

    A change of columns is followed by a full resync, with the options of the run that do not say which rows it reads.
    """
    record = question_of(store, config.pipeline, config.table, request.run_id)
    if record is None or record.approval is None:
        return request
    if record.asked.decision is not Decision.COLUMNS:
        return replace(request, accepts=replace(request.accepts, approval=record.approval))
    return replace(
        request,
        kind=RunKind.RESYNC,
        mode=ResyncMode.FULL,
        tables=(str(config.table),),
        since=None,
        until=None,
        keys=(),
        columns=(),
        compare=AskedComparison(),
        accepts=Accepts(cost=request.accepts.cost, approval=record.approval),
    ).checked()
