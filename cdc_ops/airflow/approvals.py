"""Approvals in Airflow: the task that asks, and the task that waits for a person, for each refused table of a run.

    [ first try ] x groups -> ask -> [ approve -> plan -> sync -> commit ] x questions -> outcome

`approve` waits as `awaiting_input`: it takes no slot of a worker and needs no triggerer. Where nothing was refused, the tasks behind `ask`
are skipped.
"""

import logging
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk import Context, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskAwaitingInput

from cdc_ops.airflow.alerts.run_end import airflow_host, notify_after_run
from cdc_ops.airflow.exceptions import translated
from cdc_ops.airflow.run_states import ended_runs
from cdc_ops.airflow.task_context import ASK, TaskContext, label, opened
from cdc_ops.alerts.words import without_commands
from cdc_ops.core.approvals import ApprovalRecord, ApprovalStatus, answer_text
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.core.text import minute_text
from cdc_ops.steps.approvals import answer, ask

log = logging.getLogger("cdc_ops.airflow")

GRANT, REFUSE = ApprovalOperator.APPROVE, ApprovalOperator.REJECT

_IN_TIME: Final = (ApprovalStatus.GRANTED, ApprovalStatus.REFUSED)


def ask_task(pipeline: Pipeline, **options: Any) -> Any:
    """Adds the task that finds out which tables of the run ask for a decision; it returns each as a group of one."""

    @task(task_id=ASK, trigger_rule="all_done", **options)
    def ask_for_approval() -> list[list[str]]:
        """Lists the refused tables that a person may let through, and tells the receivers what is asked, whom, and until when."""
        context = get_current_context()
        groups = context["ti"].xcom_pull(task_ids="discover")
        if not groups:
            return []
        with translated(), opened(pipeline, context, [name for group in groups for name in group]) as here:
            questions = ask(here.context, here.request, here.configs, has_ended=ended_runs(pipeline, context["ti"]))
            for question in questions:
                log.warning("%s waits for an answer until %s:\n%s", question.subject, minute_text(question.expires_at), question.text)
            if questions:
                notify_after_run(pipeline, here.context.store, airflow_host(pipeline, context["ti"], ending=here.request.run_id))
            return [[str(question.table)] for question in questions]

    return ask_for_approval()


class CdcApprovalOperator(HITLOperator):
    """Waits for the answer to a table's question, and writes it into the ledger. A refusal, or no answer in time, skips the second try.

    Args:
        pipeline: The pipeline, as parsed; it is not serialized.
        tables: The table's name, as a list (templated).
        **kwargs: As for every operator.
    """

    template_fields: Sequence[str] = ("tables", "subject", "body")

    def __init__(self, *, pipeline: Pipeline, tables: Any, **kwargs: Any) -> None:
        settings = pipeline.airflow.approve
        super().__init__(
            subject="Let a refused table go on?",
            options=[GRANT, REFUSE],
            assigned_users=[{"id": name, "name": name} for name in settings.users],
            response_timeout=settings.timeout,
            **kwargs,
        )
        self.pipeline = pipeline
        self.tables = tables

    def execute(self, context: Context) -> None:
        """Parks the task with the question until its time in the ledger is over, unless it is answered already."""
        with translated(), opened(self.pipeline, context, self.tables) as here:
            question = _question(here)
            _show(context, label(self.tables))
            left = question.expires_at - here.context.store.now()
            if question.status is ApprovalStatus.ASKED and left <= timedelta(0):
                question = answer(here.context.store, question, ApprovalStatus.TIMED_OUT, "")
            if question.status is not ApprovalStatus.ASKED:
                return self._go_on(context, answer(here.context.store, question, question.status, question.who))
        self.subject = title_of(question)
        self.body = body_of(question)
        self.response_timeout = left
        try:
            super().execute(context)
        except TaskAwaitingInput as parked:
            parked.kwargs = {"approval_id": question.approval_id}
            raise

    def execute_complete(self, context: Context, event: dict[str, Any], approval_id: str = "") -> None:
        """Takes the answer, or that nobody gave one in time.

        Args:
            context: Airflow's.
            event: The answer.
            approval_id: The question that was shown; "" for a task that an older version has parked.
        """
        status, who = answer_in(event)
        with translated(), opened(self.pipeline, context, self.tables) as here:
            question = answer(here.context.store, _question(here, approval_id), status, who)
        if question.status is ApprovalStatus.TIMED_OUT and status in _IN_TIME:
            text = "%s: the answer of %s (%s) came after %s, by the ledger's clock: it counts as none."
            log.warning(text, question.subject, who or "?", status.words, minute_text(question.expires_at))
        self._go_on(context, question)

    def _go_on(self, context: Context, question: ApprovalRecord) -> None:
        _show(context, label(self.tables, question.status.words))
        log.info("%s: %s", question.subject, answer_text(question))
        if question.status is not ApprovalStatus.GRANTED:
            raise AirflowSkipException(f"{answer_text(question).capitalize()}: nothing was written, and the error stands.")


def answer_in(event: dict[str, Any]) -> tuple[ApprovalStatus, str]:
    """Returns the answer in Airflow's event, and who gave it.

    Raises:
        AirflowFailException: the event has neither an answer nor a time-out.
    """
    if event.get("error_type") == "timeout" or event.get("timedout"):
        return ApprovalStatus.TIMED_OUT, ""
    if "error" in event:
        raise AirflowFailException(f"Airflow could not take the answer: {event['error']}")
    user = event.get("responded_by_user") or {}
    granted = list(event["chosen_options"]) == [GRANT]
    return ApprovalStatus.GRANTED if granted else ApprovalStatus.REFUSED, str(user.get("name") or user.get("id") or "")


def title_of(question: ApprovalRecord) -> str:
    """Returns the question in one line."""
    return f"{question.subject}: {question.asked.words}?"


def body_of(question: ApprovalRecord) -> str:
    """Returns what somebody has to know for the answer, as Markdown."""
    return (
        f"{_lines(without_commands(question.text))}\n\n"
        f"**{GRANT}**: this run tries the table once more, and lets through what is asked here and no more: {question.asked.words}.\n\n"
        f"**{REFUSE}**, or no answer until {minute_text(question.expires_at)}: the run ends with this error, and nothing is written."
    )


def _lines(text: str) -> str:
    """Returns a text as Markdown that Airflow shows line by line: it joins the lines of a fenced block.

    Values of rows may have backticks, too, and none ends the frame of its line.
    """
    marked = []
    for line in filter(None, map(str.strip, text.splitlines())):
        longest = max(map(len, re.findall("`+", line)), default=0)
        frame, space = "`" * (longest + 1), " " if longest else ""
        marked.append(f"{frame}{space}{line}{space}{frame}")
    return "\\\n".join(marked)


def _question(here: TaskContext, approval_id: str = "") -> ApprovalRecord:
    """Returns the question of a run about its table: the one with this id, or else the newest."""
    [config] = here.configs
    asked = here.context.store.approvals(config.pipeline, config.table, run_id=here.request.run_id)
    found = next((record for record in asked if approval_id in ("", record.approval_id)), None)
    if found is None:
        raise AirflowFailException(f"The ledger has no question of {config.table} in this run: it was rebuilt. Run again.")
    return found


def _show(context: Context, text: str) -> None:
    context["label"] = text  # type: ignore[typeddict-unknown-key]
