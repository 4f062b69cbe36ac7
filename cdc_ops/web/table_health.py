"""How a table stands: what holds its watermark, its last comparison with the source, its questions and changed columns. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from cdc_ops.core.approvals import ApprovalRecord, answer_text, question_text
from cdc_ops.core.archive.completeness import GapRecord, GapStatus
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.table_state import Phase
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.text import plural
from cdc_ops.state.base import OpenNumber
from cdc_ops.state.notices.alerts import Finding
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.web.view import TableRow
from cdc_ops.web.words import instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChange:
    """A change of columns at the source, as a run has reported it.

    Args:
        at: When that run began, UTC.
        words: What has changed, and what became of it.
    """

    at: datetime
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a comparison of source and lake has come to.

    Args:
        at: When, UTC.
        words: What it found, or why it found nothing out.
        is_verdict: It has compared, and says how the two stood.
        is_bad: They differ still, or nobody knows.
    """

    at: datetime
    words: str
    is_verdict: bool = False
    is_bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a run has asked a person about a table.

    Args:
        at: When, UTC.
        run_id: The run.
        words: What would be done.
        answer: How it was answered, by whom and when; or until when an answer is waited for.
        is_open: Somebody may still answer.
        text: The whole text of what would happen.
    """

    at: datetime
    run_id: str
    words: str
    answer: str
    is_open: bool
    text: str


def questions(records: Iterable[ApprovalRecord], now: datetime) -> tuple[Question, ...]:
    """Returns what runs have asked about a table, in the order of the records.

    Args:
        records: Of the ledger.
        now: The ledger's clock, UTC.
    """
    return tuple(
        Question(
            at=one.asked_at,
            run_id=one.run_id,
            words=one.asked.words,
            answer=question_text(one) if one.is_open(now) else answer_text(one),
            is_open=one.is_open(now),
            text=one.text,
        )
        for one in records
    )


def holds(row: TableRow, gaps: Iterable[GapRecord], unfinished: Sequence[OpenNumber]) -> tuple[str, ...]:
    """Returns what keeps the watermark from moving, most urgent first; () if the next run carries it on.

    Args:
        row: The table.
        gaps: Gaps of its archive; those that somebody has accepted hold nothing.
        unfinished: Its operations that are planned and not committed.
    """
    state, run, lease = row.overview.state, row.overview.last_run, row.overview.lease
    found = []
    if row.error:
        found.append(f"The last run failed: {row.error.splitlines()[0]}")
    if state.missing_since is not None:
        found.append(f"The source has not shown the table since {instant(state.missing_since)}.")
    found += [f"The archive has a gap: {gap.gap}." for gap in gaps if gap.status is GapStatus.OPEN]
    if run is not None and run.messages.held_by:
        found.append(f"At the source, {run.messages.held_by} has been open: rows that it commits may lie below its start.")
    if unfinished:
        numbers = ", ".join(str(item.op_seq) for item in unfinished[:5])
        found.append(f"{plural(len(unfinished), 'operation')} planned and not committed yet ({numbers}): the next run finishes them first.")
    if lease is not None:
        until = f"its lease, renewed while it works, runs until {instant(lease.expires_at)}"
        found.append(f"{lease.holder_name} holds the table ({lease.purpose or 'work'}); {until}.")
    if state.phase is Phase.SNAPSHOT:
        found.append("The snapshot is not complete: the watermark begins with its last part.")
    if row.info.paused:
        found.append("The DAG is paused: no run is scheduled.")
    return tuple(found)


def comparisons(row: TableRow, runs: Iterable[TableRun], findings: Iterable[Finding]) -> tuple[Comparison, ...]:
    """Returns the last comparison of source and lake that came to a verdict, and behind it what was tried since, newest first.

    A verification that finds the table equal leaves nothing in the ledger but that the finding of the one before it is gone.

    Args:
        row: The table.
        runs: Its runs, newest first.
        findings: Of its pipeline.
    """
    reconciled = [_reconciled(run) for run in runs if run.kind is OperationKind.RECONCILE]
    verified = [
        Comparison(at=one.found_at, words=f"verify: {one.text.splitlines()[0]}", is_verdict=True, is_bad=True)
        for one in findings
        if one.subject.kind is AlertKind.VERIFICATION and one.subject.table == row.overview.state.table
    ]
    compared_at = row.overview.state.compared_at
    whole = (
        Comparison(at=compared_at, words="compared as a whole, because the table has no cursor", is_verdict=True) if compared_at else None
    )
    known = sorted([*reconciled, *verified, *([whole] if whole else [])], key=lambda one: one.at, reverse=True)
    last = next((number for number, one in enumerate(known) if one.is_verdict), len(known) - 1)
    return tuple(known[: last + 1])


def _reconciled(run: TableRun) -> Comparison:
    at, counts = run.timing.finished_at or run.timing.started_at, run.result.counts
    match run.status:
        case TableRunStatus.IDLE:
            return Comparison(at=at, words="reconcile found no difference", is_verdict=True)
        case TableRunStatus.COMMITTED:
            rows = counts.inserted + counts.updated + counts.deleted
            words = f"reconcile found {plural(rows, 'row')} that differed, and repaired {'it' if rows == 1 else 'them'}"
            return Comparison(at=at, words=words, is_verdict=True)
        case TableRunStatus.FAILED:
            first = (run.messages.message.splitlines() or ["the line of the run does not say why"])[0]
            return Comparison(at=at, words=f"reconcile failed: {first}", is_bad=True)
        case _:
            return Comparison(at=at, words="reconcile has begun, and has not ended")


def column_changes(runs: Iterable[TableRun]) -> tuple[ColumnChange, ...]:
    """Returns the changes of columns that runs have reported, newest first, each where it was reported first.

    Args:
        runs: Newest first.
    """
    first: dict[str, ColumnChange] = {}
    for run in reversed(tuple(runs)):
        for text in run.messages.schema_changes:
            first.setdefault(text, ColumnChange(at=run.timing.started_at, words=text))
    return tuple(sorted(first.values(), key=lambda change: change.at, reverse=True))


def run_summary(lines: Sequence[TableRun]) -> str:
    """Returns what one run did, in a sentence.

    Args:
        lines: The tables of the run.
    """
    counts = [line.result.counts for line in lines]
    status = [line.status for line in lines]
    parts = ", ".join(f"{status.count(one):,} {one}" for one in TableRunStatus if one in status)
    rows = [sum(getattr(each, name) for each in counts) for name in ("inserted", "updated", "deleted")]
    return f"{plural(len(lines), 'table')}: {parts}. Rows: {rows[0]:,} inserted, {rows[1]:,} updated, {rows[2]:,} deleted."


def worst_first(lines: Iterable[TableRun]) -> tuple[TableRun, ...]:
    """Returns the tables of a run: those that failed, those with something to say, the others; each by name."""
    return tuple(sorted(lines, key=lambda line: (line.status is not TableRunStatus.FAILED, not line.notices, line.table)))
