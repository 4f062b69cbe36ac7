"""What runs have done with a table since the ledger began to count: sums that only grow, however old lines of runs are forgotten."""

from dataclasses import dataclass
from datetime import datetime

from cdc_ops.core.json_codec import group_of
from cdc_ops.core.pipeline.grouped import Grouped
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.table_run import TableRun, TableRunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSums:
    """How often a run came to an end with the table. A run that failed, was tried again and committed has come to two.

    Args:
        committed_runs, idle_runs, failed_runs: By how it ended.
        run_seconds: How long they took together.
    """

    committed_runs: int = 0
    idle_runs: int = 0
    failed_runs: int = 0
    run_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSums:
    """What runs read for the table, and what they wrote.

    Args:
        read_rows, inserted_rows, updated_rows, deleted_rows: Rows that runs read, and what they did to the table.
        late_rows: Rows that turned up below the watermark, and were merged.
        quarantined_records: Records that were set aside.
        written_bytes: What was written to the Delta table.
    """

    read_rows: int = 0
    inserted_rows: int = 0
    updated_rows: int = 0
    deleted_rows: int = 0
    late_rows: int = 0
    quarantined_records: int = 0
    written_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSums:
    """Questions to people about the table, and their ends."""

    asked: int = 0
    granted: int = 0
    refused: int = 0
    timed_out: int = 0
    withdrawn: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(Grouped):
    """The sums of a table, or what one run adds to them. In the ledger the sums of all groups are columns beside each other.

    Args:
        pipeline, table: Of which table; None = questions of the pipeline as a whole.
        runs, data, questions: The sums.
        succeeded_at: When a run last committed the table or found nothing new, UTC; None if none has. Of runs before the ledger began to
            count, when the run began.
    """

    JSON_INLINE = ("runs", "data", "questions")
    pipeline: str
    table: TableName | None
    runs: RunSums = RunSums()
    data: DataSums = DataSums()
    questions: QuestionSums = QuestionSums()
    succeeded_at: datetime | None = None

    @property
    def sums(self) -> dict[str, float]:
        """All sums by their names."""
        return {name: getattr(getattr(self, group), name) for name, group in group_of(Totals).items()}


def added_by(run: TableRun, before: TableRun | None) -> Totals | None:
    """Returns what a line adds to the sums of its table, None while its run works.

    A line that is written again adds what it has more than before: the end of a run is counted once, and so are its rows.

    Args:
        run: The line.
        before: The line that it replaces, None if it is new.
    """
    if not run.status.has_ended:
        return None
    is_new = not _same_end(run, before)
    counts, known = run.result.counts, before.result.counts if before else None

    def more(name: str) -> int:
        return max(0, int(getattr(counts, name)) - (int(getattr(known, name)) if known else 0))

    return Totals.of(
        pipeline=run.pipeline,
        table=run.table,
        committed_runs=int(is_new and run.status is TableRunStatus.COMMITTED),
        idle_runs=int(is_new and run.status is TableRunStatus.IDLE),
        failed_runs=int(is_new and run.status is TableRunStatus.FAILED),
        run_seconds=_seconds(run, before) if is_new else 0.0,
        read_rows=more("read"),
        inserted_rows=more("inserted"),
        updated_rows=more("updated"),
        deleted_rows=more("deleted"),
        late_rows=max(0, run.result.late_rows - (before.result.late_rows if before else 0)),
        quarantined_records=more("quarantined"),
        written_bytes=more("bytes"),
        succeeded_at=run.timing.finished_at if is_new and run.status.is_good else None,
    )


def _same_end(run: TableRun, before: TableRun | None) -> bool:
    """True if a line tells of the end that the one before told of; a run can fail more than once, at different instants."""
    if before is None or before.status is not run.status:
        return False
    return run.status.is_good or before.timing.finished_at == run.timing.finished_at


def _seconds(run: TableRun, before: TableRun | None) -> float:
    since = (before.timing.finished_at if before else None) or run.timing.started_at
    return 0.0 if run.timing.finished_at is None else max(0.0, (run.timing.finished_at - since).total_seconds())
