"""Operations: the frozen plans that Spark executes, and the results of each; `core.operation.job` puts them together.

Everything between Airflow, the ledger and Spark is one of these values as JSON (core.json_codec): a `JobSpec` in, a `StepResult` out. They
carry connection *names*, never credentials.
"""

import enum
from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from cdc_ops.core.apply.apply_spec import ApplyMode, ApplySpec, Landing
from cdc_ops.core.cursor.cursors import Cursor
from cdc_ops.core.cursor.late_rows import NONE_LATE, LateRows
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.events.column_drift import NO_DRIFT, ColumnDrift
from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.log_batch import LOG_COLUMNS, LogBatchResult
from cdc_ops.core.operation.progress import TableProgress
from cdc_ops.core.operation.reads import ArchiveRead, ChunkRead, CompareRead, KeysRead, Read, ReplayRead, WindowRead
from cdc_ops.core.phases import Phases
from cdc_ops.core.pipeline.grouped import Grouped
from cdc_ops.core.pipeline.unknown_tables import NONE_UNKNOWN, UnknownTables
from cdc_ops.core.reconcile.key_buckets import BucketSelection
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.core.schema.value_policies import NOTHING_NULLIFIED, NullifiedValues


class OperationKind(enum.StrEnum):
    """Why a table is written; one sequence of numbers per table across all kinds."""

    SNAPSHOT_CHUNK = "snapshot-chunk"
    INCREMENT = "increment"
    BACKFILL = "backfill"
    RESYNC = "resync"
    RECONCILE = "reconcile"
    REPLAY = "replay"

    @property
    def words(self) -> str:
        """The kind as people read it."""
        return "snapshot" if self is OperationKind.SNAPSHOT_CHUNK else str(self)

    @property
    def is_snapshot(self) -> bool:
        """True for the chunks of a first read."""
        return self is OperationKind.SNAPSHOT_CHUNK

    @property
    def is_live(self) -> bool:
        """True for the kinds that carry the table forward; the others leave the watermark as it is."""
        return self in (OperationKind.SNAPSHOT_CHUNK, OperationKind.INCREMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The Delta table that an operation writes.

    Args:
        path: The table.
        staging: The operation's own folder in the staging area.
        properties: Delta table properties for a table that has to be created.
        version: The Delta version that the plan saw, up to which changes by others are known (`core.operation.table_state.check_base`).
    """

    path: str
    staging: str
    properties: tuple[tuple[str, str], ...] = ()
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumns:
    """The columns of the source, as the plan saw them. They may change between tries, until the rows are landed.

    Args:
        schema: Columns, each with the type in which it is stored.
        cursor: The table's cursor.
        hidden: What is read besides the columns because changes are ordered or deleted by it; it is not stored.
        fingerprint: Of the source's schema, with the source's own types.
    """

    schema: TableSchema
    cursor: Cursor
    hidden: tuple[Column, ...] = ()
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One frozen operation on one table: everything that Spark needs.

    It is frozen before its first try. Until its rows are landed, three functions may change how they are read: `rebase_on_current_columns`
    (the columns that the source has now), `with_current_settings` (how the archive is read now) and `with_current_quarantine`. Number and
    identity stay.

    Args:
        pipeline, table: Whose rows.
        op_seq: The table's next number, drawn under its lease; it is the Delta txnVersion.
        operation_id: Unique for this plan; two operations that drew the same number (a lost ledger) are told apart by it.
        run_id: The run that planned it; a later run may finish it.
        kind: Why it is done.
        generation: Goes up when the whole table is replaced.
        planned_at: The source's clock at the plan, UTC.
        target: The table that is written.
        source: The columns that are read.
        before: The table as the plan saw it: what its commit record has to say for this operation to be applied on top of it
            (`core.operation.table_state.check_base`).
        after: The table once this operation has committed.
        apply: What is done with the rows.
        read: What is read.
    """

    pipeline: str
    table: TableName
    op_seq: int
    operation_id: str
    run_id: str
    kind: OperationKind
    generation: int
    planned_at: datetime
    target: Target
    source: SourceColumns
    before: TableProgress
    after: TableProgress
    apply: ApplySpec
    read: Read

    @property
    def window(self) -> Window | None:
        """The range of the cursor that is read, None for other reads."""
        return self.read.window if isinstance(self.read, WindowRead) else None

    @property
    def slices(self) -> tuple[str, ...]:
        """The conditions by which the source is read, () where it is not."""
        return () if isinstance(self.read, ArchiveRead | ReplayRead) else self.read.slices

    @property
    def expected_rows(self) -> int:
        """About how many rows are read from the source."""
        return 0 if isinstance(self.read, ArchiveRead | ReplayRead) else self.read.expected_rows

    @property
    def lands_rows(self) -> bool:
        """True if rows of the source are landed by query: a key may be among them more than once, and rows may be changes."""
        return self.apply.landing is Landing.STAGED and isinstance(self.read, WindowRead | ChunkRead | KeysRead)

    @property
    def reads_before(self) -> bool:
        """True if old keys are read with the rows and deleted by their MERGE; a comparison sees by itself what is gone."""
        merges = self.apply.mode is ApplyMode.MERGE and not self.apply.update_only
        return bool(self.apply.previous_keys) and merges and not isinstance(self.read, CompareRead)

    @property
    def extent(self) -> str:
        """How much is to be read, in words: rows of the source, or files of an archive."""
        match self.read:
            case ReplayRead():
                return "its event history"
            case ArchiveRead(batch=batch) if batch.again:
                return "its records in quarantine"
            case ArchiveRead(batch=batch):
                count = len(batch.files)
                return f"{count:,} archived file{'s' if count != 1 else ''} with {sum(file.size for file in batch.files):,} bytes"
            case WindowRead() | ChunkRead() | KeysRead() | CompareRead() as read:
                return f"about {read.expected_rows:,} rows"
            case _:
                assert_never(self.read)

    @property
    def words(self) -> str:
        """What it is, in words: `increment`, or `snapshot, part 2 of 3`."""
        progress = self.after.snapshot or self.before.snapshot
        if not self.kind.is_snapshot or progress is None:
            return self.kind.words
        part = progress.total if self.after.snapshot is None else progress.done
        return f"{self.kind.words}, part {part:,} of {progress.total:,}"

    @property
    def full_schema(self) -> TableSchema:
        """The columns of a row that are read: those that are stored, and behind them those that are not."""
        return self.source.schema.extended(self.source.hidden)

    @property
    def read_schema(self) -> TableSchema:
        """What is read and landed: the columns, and behind them the old keys, or what events say of a row besides its values."""
        if isinstance(self.read, ArchiveRead):
            return self.full_schema.extended(LOG_COLUMNS)
        return self.full_schema.extended(self.apply.previous_keys if self.reads_before else ())

    @property
    def source_keys(self) -> tuple[str, ...]:
        """The key columns of the source, for people and for its own SQL."""
        named = {column.name: column.normalises for column in self.source.schema.columns if column.normalises}
        return tuple(named.get(key, key) for key in self.apply.keys)

    @property
    def reads_everything(self) -> bool:
        """True if it reads whole tables, or may: what a replica of the source is there for."""
        match self.read:
            case ChunkRead() | CompareRead():
                return True
            case WindowRead() | KeysRead() | ArchiveRead() | ReplayRead():
                return False
            case _:
                assert_never(self.read)


def app_id(pipeline: str, table: TableName) -> str:
    """Returns the Delta txnAppId of a table: the same for all kinds and generations."""
    return f"cdc-ops/{pipeline}/{table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Smallest and largest value of a key column in a batch, as Spark SQL literals, for file pruning."""

    column: str
    low: str
    high: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedFiles:
    """How much was landed.

    Args:
        rows, bytes, files: The rows.
        feed_files, feed_bytes: The feed of events, if the merge reads that too; 0 if it does not.
    """

    rows: int
    bytes: int
    files: int = 0
    feed_files: int = 0
    feed_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Grouped):
    """The last file of a landed window: it is written only when everything else is there.

    Args:
        operation_id: Whose rows.
        attempt: Folder name of the attempt that finished.
        landed: How much was landed.
        schema_fingerprint: Of the schema that was read.
        key_ranges: Per key column that can be pruned by.
        null_keys: Rows with NULL in a key column.
        nulled: Values that became NULL because nothing stored can hold them.
        scope: The part of the table that was found to differ and was read, for operations that compare.
        log: What reading an archive showed, for operations that do.
        quarantined: Rows that are to be set aside (`Operation.quarantine`).
        reread: Why the window was read again although it had been landed before, "" if it had not.
    """

    JSON_INLINE = ("landed",)
    operation_id: str
    attempt: str
    landed: LandedFiles
    schema_fingerprint: str
    key_ranges: tuple[KeyRange, ...] = ()
    null_keys: int = 0
    nulled: NullifiedValues = NOTHING_NULLIFIED
    scope: BucketSelection | None = None
    log: LogBatchResult | None = None
    quarantined: int = 0
    reread: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Rows of one operation: read, what they did to the table, which values became NULL, what was set aside, came late or lacks columns.

    `reread` has, for each window that was read again although it had been landed, why.
    """

    read: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    bytes: int = 0
    nulled: NullifiedValues = NOTHING_NULLIFIED
    quarantined: int = 0
    behind: int = 0
    columns: ColumnDrift = NO_DRIFT
    unknown: UnknownTables = NONE_UNKNOWN
    reread: tuple[str, ...] = ()
    blank: int = 0

    def with_landed(self, manifest: Manifest) -> "Counts":
        """Returns the counts of a commit with what landing its rows has shown; of events, what was read is the events."""
        again = (manifest.reread,) if manifest.reread else ()
        counts = replace(self, nulled=manifest.nulled, quarantined=manifest.quarantined, reread=again)
        if manifest.log is None:
            return counts
        events, log = manifest.log.counts, manifest.log
        counts = replace(counts, read=events.events, quarantined=events.quarantined, behind=events.behind, blank=events.blank)
        return replace(counts, unknown=log.unknown, columns=log.columns)

    @property
    def warning(self) -> str:
        """What the run says of values and records that are not in the table as they came, "" if there is nothing to say."""
        aside = f"{self.quarantined:,} records are in quarantine: 'cdc-ops quarantine list' says why" if self.quarantined else ""
        behind = f"{self.behind:,} events are older than the newest that the table had, and changed nothing newer" if self.behind else ""
        reread = "; ".join(f"the landed rows were damaged ({why}), so the same window was read again" for why in self.reread)
        lines = "line of the files is" if self.blank == 1 else "lines of the files are"
        blank = f"{self.blank:,} {lines} empty, where the tool writes none: they count as records and change nothing" if self.blank else ""
        return "; ".join(filter(None, (reread, self.nulled.warning, aside, behind, blank, self.unknown.warning, self.columns.warning)))


class Outcome(enum.StrEnum):
    """How an operation ended in the lake."""

    LANDED = "landed"
    """Extracted to staging; nothing committed yet."""
    APPLIED = "applied"
    """This try committed it."""
    ALREADY_APPLIED = "already-applied"
    """An earlier try had committed it; the table was left alone."""
    UNCHANGED = "unchanged"
    """Source and lake were compared and are the same: there is no commit, and the number is burnt."""
    NUMBER_TAKEN = "number-taken"
    """Another operation had committed under the same number: this one is discarded, and the state is rebuilt from the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """What Spark did with one operation."""

    op_seq: int
    operation_id: str
    outcome: Outcome
    delta_version: int | None = None
    counts: Counts = Counts()
    stats: TableStats | None = None
    seconds: float = 0.0
    late: LateRows = NONE_LATE
    phases: Phases = ()
    """What the seconds were spent on."""
