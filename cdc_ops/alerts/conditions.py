"""What is wrong with a pipeline's tables now, and what is new about them: decided from the ledger's values, pure but for reading them.

states, newest lines, findings -> conditions -> `due` compares them with what was told -> `messages` -> webhook, mail, notifier
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cdc_ops.core.pipeline.dropped_tables import DroppedTables
from cdc_ops.core.pipeline.pipeline import Pipeline, matching_names
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.text import minute_text, span_text
from cdc_ops.state.alerts import Finding, Subject
from cdc_ops.state.base import StateReader, TableOverview
from cdc_ops.state.table_run import TableRun, TableRunStatus

NEWS: Final = timedelta(days=2)
"""How long what happened in a run is news: a receiver that cannot be reached for longer is not told of it any more."""

UNATTENDED: Final = timedelta(hours=1)
"""How long a run may stand still between two tasks, holding no lease; a run that `run_timeout` allows more has as long as that."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A table as the ledger has it.

    Args:
        overview: State, newest line and lease.
        finished: Its newest line that has come to an end: while a run works, what the one before found still holds. A run of which the
            line has not ended, and that cannot go on, has come to an end too.
    """

    overview: TableOverview
    finished: TableRun | None


def read_conditions(reader: StateReader, pipeline: Pipeline) -> tuple[Condition, ...]:
    """Returns what the ledger says of the tables that the pipeline file names, by table, most urgent first."""
    now, patience = reader.now(), max(UNATTENDED, pipeline.airflow.run_timeout)
    seen = [Seen(overview=one, finished=_finished(reader, one, now - patience)) for one in reader.overview(pipeline.name)]
    return conditions_of(pipeline, seen, reader.findings(pipeline.name), now)


def _finished(reader: StateReader, one: TableOverview, unattended: datetime) -> TableRun | None:
    """Returns the newest line of a table that has ended, or whose run was ended without a word; behind another run's line, any has."""
    newest = one.last_run
    if newest is None or newest.status.has_ended or (one.lease is None and newest.timing.started_at < unattended):
        return newest
    lines = reader.history(one.state.pipeline, one.state.table, limit=2)
    return next((line for line in lines if line.run_id != newest.run_id), None)


def conditions_of(pipeline: Pipeline, seen: Iterable[Seen], findings: Iterable[Finding], now: datetime) -> tuple[Condition, ...]:
    """Decides what is wrong, or new.

    Args:
        pipeline: With its current settings: tables that it does not name any more are left out.
        seen: Its tables.
        findings: What runs and verifications found.
        now: The ledger's clock, UTC.
    """
    found, tables = tuple(findings), tuple(seen)
    named = {one.overview.state.table for one in tables} | {one.subject.table for one in found if one.subject.table is not None}
    settings = _settings(pipeline, named)
    known = [(one, settings[one.overview.state.table]) for one in tables if one.overview.state.table in settings]
    conditions = [condition for one, its in known for condition in _of_table(one, its, found, now)]
    lasting = (one for one in found if one.subject.table in settings or (one.subject.table is None and not _went_on(one, tables)))
    conditions += [_of_finding(one) for one in lasting if one.subject.kind.lasts or one.found_at >= now - NEWS]
    order = list(AlertKind)
    return tuple(sorted(conditions, key=lambda one: (str(one.subject.table or ""), order.index(one.subject.kind), one.subject.detail)))


def _of_table(seen: Seen, settings: TableSettings, findings: tuple[Finding, ...], now: datetime) -> Iterator[Condition]:
    run = seen.finished
    if run is not None and run.status is TableRunStatus.FAILED and not _is_refusal(run, findings):
        yield _failure(run)
    if run is not None and not run.status.has_ended:
        yield _left(run)
    if run is not None and run.waits_for_somebody:
        yield _gap(run)
    elif run is not None and run.messages.alert:
        yield _run_alert(run)
    if seen.overview.state.exceeds(settings.load.max_lag, now) and not _is_left_out(seen.overview, settings):
        yield _lag(seen, settings.load.max_lag, now)


def _settings(pipeline: Pipeline, tables: Iterable[TableName]) -> dict[TableName, TableSettings]:
    """Returns the settings of those tables that the pipeline file names and does not take out."""
    exact = {rule.pattern: rule for rule in pipeline.tables if not rule.is_pattern}
    patterns = sorted((rule for rule in pipeline.tables if rule.is_pattern), key=lambda rule: not rule.exclude)
    found = {}
    for table in tables:
        name = {str(table): table}
        rule = exact.get(str(table)) or next((one for one in patterns if matching_names(one, name)), None)
        if rule is not None and not rule.exclude:
            found[table] = rule.settings
    return found


def _went_on(finding: Finding, tables: tuple[Seen, ...]) -> bool:
    """True if the command line has come to a table since. Airflow's runs say when they end whether it is over; those do not."""
    lines = (one.overview.last_run for one in tables)
    return any(line is not None and line.trigger == "cli" and line.timing.started_at > finding.found_at for line in lines)


def _is_refusal(run: TableRun, findings: tuple[Finding, ...]) -> bool:
    """True if a run failed because of deletes over the guard, which is told by itself."""
    refused = (one for one in findings if one.subject.kind is AlertKind.DELETES and one.subject.table == run.table)
    return any(one.run_id == run.run_id for one in refused)


def _is_left_out(one: TableOverview, settings: TableSettings) -> bool:
    return one.state.missing_since is not None and settings.apply.dropped_tables is DroppedTables.IGNORE


def _failure(run: TableRun) -> Condition:
    return Condition(
        subject=_subject(run, AlertKind.FAILURE),
        **_texts(run.messages.message or "The run failed without a message.", next=f"cdc-ops status --pipeline {run.pipeline}"),
        since=run.timing.finished_at or run.timing.started_at,
        run_id=run.run_id,
    )


def _left(run: TableRun) -> Condition:
    return Condition(
        subject=_subject(run, AlertKind.FAILURE),
        what=f"A run planned {run.table} at {minute_text(run.timing.started_at)}, has not ended, and nobody works on it.",
        why="The run was killed or ran into its run_timeout, or a task of it waits for a slot.",
        data="What it had planned is frozen in the ledger and is done once, whether the lake has it by now or not.",
        next=f"cdc-ops status --pipeline {run.pipeline}; the next run of the table goes on there.",
        since=run.timing.started_at,
        run_id=run.run_id,
    )


def _gap(run: TableRun) -> Condition:
    return Condition(
        subject=_subject(run, AlertKind.GAP),
        what=run.messages.alert or f"The archive of {run.table} misses events.",
        data="The table is complete up to the gap. No later event is merged until somebody has acted; other tables go on.",
        next=f"cdc-ops gap list --pipeline {run.pipeline}",
        since=run.timing.started_at,
        run_id=run.run_id,
    )


def _run_alert(run: TableRun) -> Condition:
    return Condition(
        subject=_subject(run, AlertKind.RUN_ALERT),
        what=run.messages.alert,
        data="The run did not fail; what it merged is right.",
        next=f"cdc-ops status --pipeline {run.pipeline}",
        since=run.timing.started_at,
        run_id=run.run_id,
    )


def _lag(seen: Seen, max_lag: timedelta, now: datetime) -> Condition:
    state, run = seen.overview.state, seen.finished
    lag, complete = state.lag(now), state.progress.fresh_at
    behind = span_text(lag.total_seconds()) if lag else ""
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


_DATA: Final = {
    AlertKind.DELETES: "No row was deleted. Increments go on.",
    AlertKind.VERIFICATION: "The comparison wrote nothing; the rows of the lake are as they were.",
    AlertKind.CATALOG: "The rows are in the Delta table; readers by its path are not concerned.",
    AlertKind.LATE_ROWS: "The late rows are merged. Rows that come later than 'lookback' are not seen.",
    AlertKind.SCHEMA_CHANGE: "The run followed its policy 'schema_changes'.",
    AlertKind.FAILURE: "No table of this run was read; the watermarks stay.",
}


def _of_finding(finding: Finding) -> Condition:
    subject = finding.subject
    commands = {
        AlertKind.VERIFICATION: f"cdc-ops verify --pipeline {subject.pipeline} --table {subject.table} --repair",
        AlertKind.FAILURE: f"cdc-ops check --pipeline {subject.pipeline}",
        AlertKind.CATALOG: f"cdc-ops register --pipeline {subject.pipeline} --table {subject.table}",
    }
    texts = _texts(
        finding.text, data=_DATA.get(subject.kind, ""), next=commands.get(subject.kind, f"cdc-ops status --pipeline {subject.pipeline}")
    )
    return Condition(subject=subject, **texts, since=finding.found_at, run_id=finding.run_id)


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


def _subject(run: TableRun, kind: AlertKind) -> Subject:
    return Subject(pipeline=run.pipeline, table=run.table, kind=kind)
