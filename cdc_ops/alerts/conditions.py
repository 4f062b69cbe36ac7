"""What is wrong with a pipeline's tables now, and what is new about them: decided from the ledger's values, pure but for reading them.

states, newest lines, findings -> conditions -> `due` compares them with what was told -> `messages` -> webhook, mail, notifier
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from cdc_ops.alerts import words
from cdc_ops.alerts.first_run import waited_until
from cdc_ops.alerts.host import Host
from cdc_ops.alerts.lines import Seen, see
from cdc_ops.alerts.space import AGAIN, PLACES, Room, rooms_of
from cdc_ops.alerts.words import Condition
from cdc_ops.core.approvals import ApprovalRecord, ApprovalStatus
from cdc_ops.core.pipeline.pipeline import Pipeline, matching_names
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.pipeline.tables.dropped_tables import DroppedTables
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.base import StateReader, TableOverview
from cdc_ops.state.notices.alerts import Finding, Subject
from cdc_ops.state.table_run import TableRun, TableRunStatus

NEWS: Final = timedelta(days=2)
"""How long what happened in a run is news: a receiver that cannot be reached for longer is not told of it any more."""

MOST_QUESTIONS: Final = 100_000
"""More than the tables of a pipeline can have open."""

_REFUSALS: Final = frozenset((AlertKind.FAILURE, AlertKind.GAP, AlertKind.DELETES))
"""What a question is told in place of."""

UNATTENDED: Final = timedelta(hours=1)
"""How long a run may stand still between two tasks, holding no lease; a run that `run_timeout` allows more has as long as that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is wrong with a pipeline, or new, and what cannot be said now.

    Args:
        conditions: What is wrong, or new, by table, most urgent first.
        undecided: Of this nobody knows whether it is over: the run that will say is at work, or failed before it came so far.
        tables: The tables that the pipeline file names and the ledger knows.
    """

    conditions: tuple[Condition, ...]
    undecided: frozenset[Subject] = frozenset()
    tables: frozenset[TableName] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a pipeline at one moment.

    Args:
        now: The ledger's clock, UTC.
        seen: Its tables.
        findings: What runs and verifications found.
        questions: What a person is asked and may still answer.
        at_work: Runs that have not ended, as far as that can be told and somebody has to know it.
        rooms: The disks that were looked at; None if none was.
        host: What else the process knows.
    """

    now: datetime
    seen: tuple[Seen, ...] = ()
    findings: tuple[Finding, ...] = ()
    questions: tuple[ApprovalRecord, ...] = ()
    at_work: frozenset[str] = frozenset()
    rooms: tuple[Room, ...] | None = None
    host: Host = field(default_factory=Host)


def read_conditions(reader: StateReader, pipeline: Pipeline, host: Host | None = None) -> tuple[Condition, ...]:
    """Returns what the ledger says of the tables that the pipeline file names, by table, most urgent first."""
    return judge(reader, pipeline, host or Host()).conditions


def judge(reader: StateReader, pipeline: Pipeline, host: Host) -> Verdict:
    """Reads the ledger and decides what is wrong with a pipeline, or new.

    Args:
        reader: The ledger.
        pipeline: With its current settings: tables that it does not name any more are left out.
        host: What this process knows besides.

    Raises:
        LedgerUnavailableError: the ledger does not answer.
    """
    now, unattended = reader.now(), max(UNATTENDED, pipeline.airflow.limits.run_timeout)
    is_at_work = cache(host.is_at_work)
    findings, asked = reader.findings(pipeline.name), reader.approvals(pipeline.name, status=ApprovalStatus.ASKED, limit=MOST_QUESTIONS)
    refusals = {one.run_id for one in findings if one.subject.kind is AlertKind.DELETES}
    facts = Facts(
        now=now,
        seen=tuple(see(reader, one, is_at_work, now - unattended) for one in reader.overview(pipeline.name)),
        findings=findings,
        questions=tuple(one for one in asked if one.is_open(now) and is_at_work(one.run_id) is not False),
        at_work=frozenset(run_id for run_id in refusals if is_at_work(run_id)),
        rooms=None if host.places is None else tuple(rooms_of(host.places)),
        host=host,
    )
    return verdict_of(pipeline, facts)


def verdict_of(pipeline: Pipeline, facts: Facts) -> Verdict:
    """Decides what is wrong with a pipeline, or new; pure.

    Args:
        pipeline: With its current settings: tables that it does not name any more are left out.
        facts: What is known of it.
    """
    named = {one.overview.state.table for one in facts.seen}
    named |= {one.subject.table for one in facts.findings if one.subject.table is not None}
    settings = _settings(pipeline, named)
    known = [(one, settings[one.overview.state.table]) for one in facts.seen if one.overview.state.table in settings]
    questions = {one.table: one for one in facts.questions if one.table in settings}
    conditions = [condition for one, its in known for condition in _of_table(one, its, facts)]
    conditions += [words.finding(one) for one in facts.findings if _is_told(one, facts, settings)]
    conditions = [one for one in conditions if not _is_asked(one, questions)]
    conditions += [words.question(one, facts.host.answer_link(one)) for one in questions.values()]
    conditions += [*_no_run(pipeline, facts), *(words.little_space(pipeline.name, room) for room in facts.rooms or () if room.is_little())]
    order = list(AlertKind)
    conditions.sort(key=lambda one: (str(one.subject.table or ""), order.index(one.subject.kind), one.subject.detail))
    undecided = {subject for one, its in known for subject in _undecided(one, its, facts, questions.get(one.overview.state.table))}
    return Verdict(
        conditions=tuple(conditions), undecided=frozenset(undecided | _undecided_space(pipeline, facts)), tables=frozenset(settings)
    )


def _is_told(finding: Finding, facts: Facts, settings: dict[TableName, TableSettings]) -> bool:
    """True if a finding is a condition: it is of the pipeline's, still counts, and its run will not do otherwise."""
    subject = finding.subject
    if subject.kind is AlertKind.NO_RUN or (subject.table is not None and subject.table not in settings):
        return False
    if subject.table is None and _went_on(finding, facts.seen):
        return False
    if subject.kind is AlertKind.DELETES and finding.run_id in facts.at_work:
        return False
    return subject.kind.lasts or finding.found_at >= facts.now - NEWS


def _is_asked(condition: Condition, asked: dict[TableName, ApprovalRecord]) -> bool:
    """True for what a run asks a person about: until the answer, the question is told in its place."""
    question = asked.get(condition.subject.table) if condition.subject.table is not None else None
    return question is not None and question.run_id == condition.run_id and condition.subject.kind in _REFUSALS


def _undecided(seen: Seen, settings: TableSettings, facts: Facts, question: ApprovalRecord | None) -> Iterator[Subject]:
    """Yields what may be wrong with a table still, or not: nobody is told that it is over."""
    run, state = seen.finished, seen.overview.state
    kinds = set[AlertKind]()
    if seen.undecided or run is None or not run.status.is_good:  # what fails may have failed before it looked; refused deletes do, too
        kinds |= {AlertKind.FAILURE, AlertKind.GAP, AlertKind.RUN_ALERT}
    if state.missing_since is not None and settings.apply.dropped_tables is DroppedTables.ALERT:
        kinds.add(AlertKind.RUN_ALERT)  # only the run that noticed it first has told it
    if question is not None:
        kinds |= _REFUSALS
    for finding in facts.findings:
        if finding.subject.table == state.table and finding.subject.kind is AlertKind.DELETES and finding.run_id in facts.at_work:
            kinds.add(AlertKind.DELETES)
    yield from (Subject(pipeline=state.pipeline, table=state.table, kind=kind) for kind in kinds)


def _of_table(seen: Seen, settings: TableSettings, facts: Facts) -> Iterator[Condition]:
    run = seen.finished
    if run is not None and run.status is TableRunStatus.FAILED and not _is_refusal(run, facts.findings):
        yield words.failure(run)
    if run is not None and not run.status.has_ended:
        yield words.lost_run(run)
    if run is not None and run.waits_for_somebody:
        yield words.gap(run)
    elif run is not None and run.messages.alert:
        yield words.run_alert(run)
    if seen.overview.state.exceeds(settings.load.max_lag, facts.now) and not _is_left_out(seen.overview, settings):
        yield words.lag(seen, settings.load.max_lag, facts.now)


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


def _no_run(pipeline: Pipeline, facts: Facts) -> Iterator[Condition]:
    """Yields that a pipeline has never run, if it should have by now; that its runs come to no table is told by itself."""
    first = next((one for one in facts.findings if one.subject.kind is AlertKind.NO_RUN), None)
    failed = any(one.subject.table is None and one.subject.kind is AlertKind.FAILURE for one in facts.findings)
    until = None if first is None or facts.seen or failed else waited_until(pipeline, first.found_at)
    if first is not None and until is not None and until < facts.now:
        yield words.no_run(first, until)


def _undecided_space(pipeline: Pipeline, facts: Facts) -> set[Subject]:
    """Returns the disks of which it is not over that they are nearly full, although they may not be."""
    if facts.rooms is None:
        return {_of_space(pipeline, name) for name in PLACES}
    looked = {name for room in facts.rooms for name in room.names}
    still = {name for room in facts.rooms if room.is_little(AGAIN) for name in room.names}
    return {_of_space(pipeline, name) for name in PLACES if name in still or name not in looked}


def _of_space(pipeline: Pipeline, name: str) -> Subject:
    return Subject(pipeline=pipeline.name, table=None, kind=AlertKind.SPACE, detail=name)
