"""One table in one run, as the ledger keeps it for people: status, times, counts and messages."""

import enum
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, Final

from cdc_ops.core.approvals import Asked
from cdc_ops.core.archive.completeness import MissingEvents
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.phases import Phases, worked_seconds
from cdc_ops.core.run_cost import RunCost, count_text, rows_words, size_words, span_words
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.text import size_text, span_text


class TableRunStatus(enum.StrEnum):
    """How one table fared in one run."""

    PLANNED = "planned"
    IDLE = "idle"
    LANDED = "landed"
    MERGED = "merged"
    COMMITTED = "committed"
    FAILED = "failed"

    @property
    def has_ended(self) -> bool:
        """False while the run has more to do with the table."""
        return self.is_good or self is TableRunStatus.FAILED

    @property
    def is_good(self) -> bool:
        """True if the run ended well for the table."""
        return self in (TableRunStatus.COMMITTED, TableRunStatus.IDLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTiming:
    """When a run worked on a table.

    Args:
        started_at, finished_at: By the ledger's clock, UTC; `finished_at` is None while the run works.
        phases: What the run spent its time on.
    """

    started_at: datetime
    finished_at: datetime | None = None
    phases: Phases = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run read from a table's source and wrote to the lake.

    Args:
        window: The window that was read, None if none was.
        op_seq: Always None; the stored JSON has it.
        delta_version: Of the table after the run.
        counts: Rows read and written, and what was set aside.
        late_rows: Rows that turned up below the watermark, and were merged.
        max_commit_lag: How far below the watermark the oldest late row was, in seconds; None without late rows, and for numeric cursors.
        fresh_at: Instant (UTC) up to which the table was complete after the run; None while the run works, and of earlier versions.
        files, size_bytes: Data files of the Delta table after the run, and their size together; None where that is not known.
    """

    window: Window | None = None
    op_seq: int | None = None
    delta_version: int | None = None
    counts: Counts = field(default_factory=Counts)
    late_rows: int = 0
    max_commit_lag: float | None = None
    fresh_at: datetime | None = None
    files: int | None = None
    size_bytes: int | None = None


CTRL_C: Final = "Ctrl-C"
"""What a person ends a command by."""

STOPPED: Final = " stopped the run before "
"""Follows what has ended a run, in the message of a table that it had begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMessages:
    """What a run says to people about a table; "" or empty where there is nothing to say.

    Args:
        message: One line: why the table is idle, the error's text, warnings.
        alert: What somebody has to look at although the run goes on.
        advice: Which setting to change because of late rows.
        note: Why rows were committed by something other than this run's own statement.
        warnings: Warnings of the plan; the next run shows only new ones.
        schema_changes: One sentence per change of columns at the source that the run has to report.
        held_by: Who held the bound of the window back below the source's clock, "" if nobody did.
    """

    message: str = ""
    alert: str = ""
    advice: str = ""
    note: str = ""
    warnings: tuple[str, ...] = ()
    schema_changes: tuple[str, ...] = ()
    held_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetEvents:
    """What asset events tell of a table.

    Args:
        told_before: Delta version up to which those of earlier runs have told of the table, None if of nothing.
        silent: None tells of the run's commit: it only read rows again, and whoever asked for it wanted that; or Airflow has dropped the
            event, because the task failed.
    """

    told_before: int | None = None
    silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What a table waits for; None where it waits for nothing.

    Args:
        missing: What the table's archive misses, as the alert says.
        asks: What a person may decide so that the table goes on.
    """

    missing: MissingEvents | None = None
    asks: Asked | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """One table in one run, for people: what was asked, what happened. In its JSON the fields of the groups stand beside the others.

    Args:
        pipeline, table: Which table.
        run_id: The run (Airflow's run id, or the CLI's own).
        trigger: `scheduled`, `manual`, `backfill`, `cli`, ...
        kind: Why the table was written.
        status: How the table fared.
        timing: When the run worked on the table.
        result: What it read and wrote.
        messages: What it says to people.
        events: What asset events tell of the table.
        waits_for: What the table waits for after the run.
        cost: What the plan estimated the run to cost; None for runs that had nothing to do, and of earlier versions.
        max_lag: How far the table may be behind, by the pipeline file that the run knew; None without a limit.
        wrong_request: It failed because somebody asked for what cannot be done; that says nothing of the table.
    """

    JSON_INLINE: ClassVar[tuple[str, ...]] = ("timing", "result", "messages", "events", "waits_for")
    pipeline: str
    table: TableName
    run_id: str
    trigger: str
    kind: OperationKind
    status: TableRunStatus
    timing: RunTiming
    result: RunResult = RunResult()
    messages: RunMessages = RunMessages()
    events: AssetEvents = AssetEvents()
    waits_for: Waiting = Waiting()
    cost: RunCost | None = None
    max_lag: timedelta | None = None
    wrong_request: bool = False

    @property
    def cost_text(self) -> str:
        """What the run was estimated to cost and what it cost, "" if nothing was estimated or it has not worked."""
        counts, seconds = self.result.counts, worked_seconds(self.timing.phases)
        if self.cost is None or not self.status.is_good:
            return ""
        compares = self.kind is OperationKind.RECONCILE
        read = f"{count_text(counts.read)} rows{' differed' if compares else ''}"
        return (
            f"estimated {rows_words(self.cost.rows)}{' to compare' if compares else ''}, {size_words(self.cost.written_bytes)},"
            f" {span_words(self.cost.seconds)}; actual {read}, {size_text(counts.bytes)} written, {span_text(seconds)} of work"
        )

    @property
    def notices(self) -> tuple[str, ...]:
        """What is to be said of the run besides its status, most urgent first."""
        return tuple(text for text in (self.messages.alert, self.messages.advice) if text)

    @property
    def stopped_by_hand(self) -> bool:
        """True if a person has ended the run by Ctrl-C: whoever did it knows, and it says nothing of the table."""
        return self.status is TableRunStatus.FAILED and self.messages.message.startswith(f"{CTRL_C}{STOPPED}")

    @property
    def waits_for_somebody(self) -> bool:
        """True if the table has come through up to a gap in its archive, and goes on only when somebody has acted."""
        return self.waits_for.missing is not None and not self.waits_for.missing.healing


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run of a pipeline over all of its tables, for people.

    Args:
        lines: Its tables, at least one.
    """

    lines: tuple[TableRun, ...]

    @property
    def pipeline(self) -> str:
        """The pipeline."""
        return self.lines[0].pipeline

    @property
    def run_id(self) -> str:
        """The run."""
        return self.lines[0].run_id

    @property
    def trigger(self) -> str:
        """What started it: `scheduled`, `manual`, `backfill`, `cli`, ..."""
        return self.lines[0].trigger

    @property
    def kinds(self) -> tuple[OperationKind, ...]:
        """What it did, or looked for, each once."""
        return tuple(kind for kind in OperationKind if any(line.kind is kind for line in self.lines))

    @property
    def started_at(self) -> datetime:
        """When it began its first table, UTC."""
        return min(line.timing.started_at for line in self.lines)

    @property
    def finished_at(self) -> datetime | None:
        """When it ended its last table, UTC; None while one is at work, or if the run died over it."""
        ends = [line.timing.finished_at for line in self.lines]
        return None if None in ends else max(end for end in ends if end is not None)

    @property
    def counts(self) -> Counts:
        """The rows of all tables together: read, inserted, updated and deleted."""
        done = [line.result.counts for line in self.lines]
        names = ("read", "inserted", "updated", "deleted")
        return Counts(**{name: sum(getattr(one, name) for one in done) for name in names})

    def tables(self, *statuses: TableRunStatus) -> tuple[TableName, ...]:
        """Returns the tables that fared so."""
        return tuple(line.table for line in self.lines if line.status in statuses)
