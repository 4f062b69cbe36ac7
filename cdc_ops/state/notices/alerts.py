"""What the ledger keeps for alerts: findings that no later line of a run shows any more, and what each receiver has been told.

All else that an alert is about stands in the tables' states and in their newest lines.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.table_run import TableRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is wrong with what: for each there is one finding, and for each receiver one memory of what it was told.

    Args:
        pipeline: Of the table.
        table: None for the pipeline as a whole.
        kind: What is wrong, or new.
        detail: Tells apart what can happen to a table in several ways: the hash of a change of columns; "" for other kinds.
    """

    pipeline: str
    table: TableName | None
    kind: AlertKind
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a run or a verification has found.

    Args:
        subject: What is wrong with what.
        text: For people, in the form of an error's text: what, and lines `why:`, `data:` and `next:` as far as there are any.
        found_at: By the ledger's clock, UTC.
        run_id: The run that found it, "" for none.
    """

    subject: Subject
    text: str
    found_at: datetime
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifiedAlert:
    """What a receiver was told.

    Args:
        receiver: Its name in the pipeline file.
        subject: What it was told of.
        what: The first line of that.
        first_at, last_at: When it was told first, and last, by the ledger's clock, UTC.
        run_id: The run that was named last, "" for none.
    """

    receiver: str
    subject: Subject
    what: str
    first_at: datetime
    last_at: datetime
    run_id: str = ""


class AlertReader(ABC):
    """Reads what is kept for alerts."""

    @abstractmethod
    def findings(self, pipeline: str) -> tuple[Finding, ...]:
        """Returns the findings of a pipeline, by table and kind."""

    @abstractmethod
    def notified_alerts(self, pipeline: str) -> tuple[NotifiedAlert, ...]:
        """Returns what the receivers of a pipeline have been told and not yet been told to be over."""


class AlertStore(AlertReader):
    """Writes it. It needs no lease: nothing that it holds decides what is read or written of a table."""

    @abstractmethod
    def put_finding(self, finding: Finding) -> None:
        """Writes a finding, or replaces the one of the same subject."""

    @abstractmethod
    def drop_findings(self, pipeline: str, table: TableName | None, kind: AlertKind, *, detail: str | None = None) -> None:
        """Forgets the findings of a kind about a table, or about the pipeline as a whole; only those of a detail, if one is given."""

    @abstractmethod
    def put_notified(self, notified: Iterable[NotifiedAlert]) -> None:
        """Writes what a receiver was told, or replaces what it was told of the same subject, all in one transaction."""

    @abstractmethod
    def forget_notified(self, notified: Iterable[NotifiedAlert]) -> None:
        """Forgets what a receiver was told, all in one transaction."""


def findings_of(run: TableRun) -> tuple[Finding, ...]:
    """Returns what a line of a run says that the next line will not: late rows, and changes of columns."""
    found = run.timing.finished_at or run.timing.started_at
    late, changes = run.result.late_rows, run.messages.schema_changes
    findings = []
    if late:
        text = run.messages.advice or f"{late:,} late rows were found below the watermark and merged"
        what = Subject(pipeline=run.pipeline, table=run.table, kind=AlertKind.LATE_ROWS)
        findings.append(Finding(subject=what, text=text, found_at=found, run_id=run.run_id))
    if changes:
        text = "; ".join(changes)
        detail = hashlib.sha256(text.encode()).hexdigest()[:32]
        what = Subject(pipeline=run.pipeline, table=run.table, kind=AlertKind.SCHEMA_CHANGE, detail=detail)
        findings.append(Finding(subject=what, text=text, found_at=found, run_id=run.run_id))
    return tuple(findings)
