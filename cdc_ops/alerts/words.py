"""Conditions in words: what is wrong, why, what happens to the data, and what to do next. Pure."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, assert_never

from cdc_ops.alerts.lines import Seen
from cdc_ops.alerts.space import Room
from cdc_ops.core.approvals import ApprovalRecord, ApprovalStatus, answer_text
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.text import joined, minute_text, size_text, span_text
from cdc_ops.errors import ConfigError
from cdc_ops.state.notices.alerts import Finding, Subject
from cdc_ops.state.table_run import TableRun

_PART: Final = re.compile(r"  (why|data|next):")
_COMMAND: Final = re.compile(r":? see 'cdc-ops [^']*'")

_DETAIL: Final = 32
"""Characters that the ledger keeps of a subject's detail; ids of questions are as long."""

_DATA: Final = {
    AlertKind.DELETES: "No row was deleted. Increments go on.",
    AlertKind.VERIFICATION: "The comparison wrote nothing; the rows of the lake are as they were.",
    AlertKind.CATALOG: "The rows are in the Delta table; readers by its path are not concerned.",
    AlertKind.LATE_ROWS: "The late rows are merged. Rows that come later than 'lookback' are not seen.",
    AlertKind.SCHEMA_CHANGE: "The run followed its policy 'schema_changes'.",
    AlertKind.FAILURE: "No table of this run was read; the watermarks stay.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something that is wrong, or new, as people read it.

    Args:
        subject: What is wrong with what.
        what: What happened, in one sentence.
        why: The cause as far as it is known.
        data: What happens to the data.
        next: The next command or action.
        since: Since when, as far as known, UTC.
        run_id: The run that it shows in, "" for none.
    """

    subject: Subject
    what: str
    why: str = ""
    data: str = ""
    next: str = ""
    since: datetime | None = None
    run_id: str = ""


def failure(run: TableRun) -> Condition:
    """Returns that a table's run failed."""
    return Condition(
        subject=_subject(run, AlertKind.FAILURE),
        **_texts(run.messages.message or "The run failed without a message.", next=f"cdc-ops status --pipeline {run.pipeline}"),
        since=run.timing.finished_at or run.timing.started_at,
        run_id=run.run_id,
    )


def lost_run(run: TableRun) -> Condition:
    """Returns that a run was ended without a word."""
    return Condition(
        subject=_subject(run, AlertKind.FAILURE),
        what=f"A run planned {run.table} at {minute_text(run.timing.started_at)}, has not ended, and nobody works on it.",
        why="The run was killed or ran into its run_timeout, or a task of it waits for a slot.",
        data="What it had planned is frozen in the ledger and is done once, whether the lake has it by now or not.",
        next=f"cdc-ops status --pipeline {run.pipeline}; the next run of the table goes on there.",
        since=run.timing.started_at,
        run_id=run.run_id,
    )


def gap(run: TableRun) -> Condition:
    """Returns that a table waits at a gap in its archive."""
    return Condition(
        subject=_subject(run, AlertKind.GAP),
        what=run.messages.alert or f"The archive of {run.table} misses events.",
        data="The table is complete up to the gap. No later event is merged until somebody has acted; other tables go on.",
        next=f"cdc-ops gap list --pipeline {run.pipeline}",
        since=run.timing.started_at,
        run_id=run.run_id,
    )


def run_alert(run: TableRun) -> Condition:
    """Returns the alert that a run has raised."""
    return Condition(
        subject=_subject(run, AlertKind.RUN_ALERT),
        what=run.messages.alert,
        data="The run did not fail; what it merged is right.",
        next=f"cdc-ops status --pipeline {run.pipeline}",
        since=run.timing.started_at,
        run_id=run.run_id,
    )


def question(asked: ApprovalRecord, link: str) -> Condition:
    """Returns what a run asks a person.

    Args:
        asked: The question.
        link: The page on which it is answered, "" if it is not known.
    """
    parts = error_parts(without_commands(asked.text))
    who = joined(asked.users) if asked.users else "everybody who may act on the DAG"
    place = link or "Airflow, under Required Actions"
    return Condition(
        subject=subject_of(asked),
        what=f"A run asks about {asked.subject}: {asked.asked.words}?",
        why=" ".join(filter(None, (parts["what"], parts["why"]))),
        data=f"Nothing is done until somebody has answered. Without an answer until {minute_text(asked.expires_at)} it is refused.",
        next=f"Approve or reject it: {place}. May answer: {who}.",
        since=asked.asked_at,
        run_id=asked.run_id,
    )


def answered(asked: ApprovalRecord) -> str:
    """Returns how a question has ended, in a sentence."""
    match asked.status:
        case ApprovalStatus.GRANTED | ApprovalStatus.REFUSED:
            return f"It was {answer_text(asked)}."
        case ApprovalStatus.TIMED_OUT:
            return "Nobody answered in time, which counts as refused."
        case ApprovalStatus.ASKED | ApprovalStatus.WITHDRAWN:
            return "Its run or its time was over before somebody answered, which counts as refused."
        case _:
            assert_never(asked.status)


def subject_of(asked: ApprovalRecord) -> Subject:
    """Returns what a question is told as."""
    return Subject(pipeline=asked.pipeline, table=asked.table, kind=AlertKind.APPROVAL, detail=asked.approval_id[:_DETAIL])


def broken_file(pipeline: str, error: ConfigError) -> Condition:
    """Returns that a pipeline file cannot be used.

    Args:
        pipeline: Its name, as far as it can be made out.
        error: What is wrong with the file.
    """
    data = f"The tables of {pipeline} are not updated as long as the file is as it is; nothing else happens to them."
    subject = Subject(pipeline=pipeline, table=None, kind=AlertKind.PIPELINE_FILE)
    return Condition(subject=subject, **_texts(str(error)) | {"data": data}, since=None)


def no_run(first: Finding, until: datetime) -> Condition:
    """Returns that a pipeline has never run.

    Args:
        first: Since when it is known.
        until: When (UTC) it should have run at the latest.
    """
    name = first.subject.pipeline
    return Condition(
        subject=first.subject,
        what=f"The pipeline {name} has never run.",
        why=f"It is known since {minute_text(first.found_at)}, and should have run before {minute_text(until)}. Its DAG may be paused or"
        " broken, or cron does not call it.",
        data="The lake has no table of it.",
        next=f"In Airflow see whether the DAG cdc_{name} is there and unpaused; by hand: cdc-ops run --pipeline {name}",
        since=until,
    )


def little_space(pipeline: str, room: Room) -> Condition:
    """Returns that a disk is nearly full."""
    free = f"{size_text(room.free)} of {size_text(room.size)} are free"
    if room.files:
        free += f", with room for {room.free_files:,} of {room.files:,} files"
    return Condition(
        subject=Subject(pipeline=pipeline, table=None, kind=AlertKind.SPACE, detail=room.names[0]),
        what=f"The disk with the {joined(room.names)} of {pipeline} is nearly full: {free}.",
        why=f"It is the disk of {room.path} on the machine that looked. Less than {size_text(room.wanted)}, or than 5 % of the files, is"
        " little.",
        data="Nothing is lost: a run that finds no room fails, and moves no watermark.",
        next="Enlarge the disk, or make room on it.",
    )


def lag(seen: Seen, max_lag: timedelta, now: datetime) -> Condition:
    """Returns that a table is further behind than its `max_lag`.

    Args:
        seen: The table, whose state has a lag.
        max_lag: Its limit.
        now: The ledger's clock, UTC.
    """
    state, run = seen.overview.state, seen.finished
    late, complete = state.lag(now), state.progress.fresh_at
    behind = span_text(late.total_seconds()) if late else ""
    last = f"Its last run: {run.status}, at {minute_text(run.timing.started_at)}." if run else "It has no run in the ledger."
    name = f"{state.pipeline} --table {state.table}"
    outlook = "A run works on it now." if seen.overview.lease else "If no run comes, its DAG may be paused or broken."
    return Condition(
        subject=Subject(pipeline=state.pipeline, table=state.table, kind=AlertKind.LAG),
        what=f"{state.table} is {behind} behind its source; its max_lag is {span_text(max_lag.total_seconds())}.",
        why=f"{last} {outlook}",
        data=f"The lake is complete up to {minute_text(complete or now)}. Nothing is lost: the next run continues there.",
        next=f"cdc-ops status --pipeline {state.pipeline}; in Airflow see whether the DAG cdc_{state.pipeline} is paused; by hand:"
        f" cdc-ops run --pipeline {name}",
        since=complete + max_lag if complete else None,
        run_id=run.run_id if run else "",
    )


def finding(found: Finding) -> Condition:
    """Returns what a run or a verification has found."""
    subject = found.subject
    commands = {
        AlertKind.VERIFICATION: f"cdc-ops verify --pipeline {subject.pipeline} --table {subject.table} --repair",
        AlertKind.FAILURE: f"cdc-ops check --pipeline {subject.pipeline}",
        AlertKind.CATALOG: f"cdc-ops register --pipeline {subject.pipeline} --table {subject.table}",
    }
    texts = _texts(
        found.text, data=_DATA.get(subject.kind, ""), next=commands.get(subject.kind, f"cdc-ops status --pipeline {subject.pipeline}")
    )
    return Condition(subject=subject, **texts, since=found.found_at, run_id=found.run_id)


def _texts(text: str, **defaults: str) -> dict[str, str]:
    """Returns the parts of an error's text; a part that it does not have is the default."""
    parts = error_parts(text)
    return {name: parts[name] or defaults.get(name, "") for name in parts}


def error_parts(text: str) -> dict[str, str]:
    r"""Returns the four parts of an error's text, as the ledger keeps it (`CdcError.__str__`); a text of another form is all `what`.

    >>> error_parts("No such table.\n  next: cdc-ops validate")
    {'what': 'No such table.', 'why': '', 'data': '', 'next': 'cdc-ops validate'}
    """
    parts, name = {"what": "", "why": "", "data": "", "next": ""}, "what"
    for line in text.splitlines():
        label, colon, rest = line.strip().partition(":")
        begins = bool(colon) and line.startswith("  ") and label in ("why", "data", "next")
        name, more = (label, rest.strip()) if begins else (name, line)
        parts[name] = f"{parts[name]}\n{more}" if parts[name] else more
    return parts


def without_commands(text: str) -> str:
    r"""Returns an error's text without what somebody at a terminal would do: who is asked in Airflow has an answer to give.

    >>> without_commands("Gap: accept it: see 'cdc-ops gap list'.\n  why:  lost\n  next: Run\n        cdc-ops gap accept")
    'Gap: accept it.\n  why:  lost'
    """
    kept, is_next = list[str](), False
    for line in text.splitlines():
        if part := _PART.match(line):
            is_next = part[1] == "next"
        if not is_next:
            kept.append(_COMMAND.sub("", line))
    return "\n".join(kept)


def _subject(run: TableRun, kind: AlertKind) -> Subject:
    return Subject(pipeline=run.pipeline, table=run.table, kind=kind)
