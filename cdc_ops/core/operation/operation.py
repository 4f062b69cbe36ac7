"""Operations: the frozen plans that Spark executes, and the results of each; `core.operation.job` puts them together.

Everything between Airflow, the ledger and Spark is one of these values as JSON (core.json_codec): a `JobSpec` in, a `StepResult` out. They
carry connection *names*, never credentials.
"""

import enum
from dataclasses import dataclass
from datetime import datetime

from cdc_ops.core.apply.scd import LATEST, TableStorage
from cdc_ops.core.archive.offsets import ArchiveWatermark
from cdc_ops.core.cursor.cursors import Cursor, CursorValue
from cdc_ops.core.cursor.late_rows import NONE_LATE, LateRows, RangeChecksum
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.events.column_drift import NO_DRIFT, ColumnDrift
from cdc_ops.core.events.event_history import Replay
from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.log_batch import LOG_COLUMNS, LogBatch, LogBatchResult
from cdc_ops.core.operation.phases import Phases
from cdc_ops.core.pipeline.unknown_tables import NONE_UNKNOWN, UnknownTables
from cdc_ops.core.reconcile.diff import CompareSpec
from cdc_ops.core.reconcile.key_buckets import BucketSelection
from cdc_ops.core.schema.schema_evolution import SchemaChange
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


class ApplyMode(enum.StrEnum):
    """How the rows enter the Delta table, always as one statement."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"


class Landing(enum.StrEnum):
    """Where rows stop between source and table."""

    STAGED = "staged"
    """As Parquet in the staging area: extract and merge are separately retryable, and the source is read once."""
    DIRECT = "direct"
    """Nowhere: one append or overwrite reads the source once and commits; a retry reads again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotProgress:
    """How far a snapshot is; it travels in every commit until the last chunk, and its size does not grow with the number of chunks.

    The chunks themselves are frozen in the ledger, as operations. If it is lost, `rest` is all that another run needs: what is left is
    cut anew, and no row lies on both sides of that border or on none.

    Args:
        bound: The safe bound taken before the first chunk; it becomes the watermark with the last one.
        done: Chunks committed.
        total: Chunks planned.
        chunks: SQL predicates of all chunks, in older records; empty since what is left is kept as `rest`.
        rest: SQL predicate of the rows that are still to be read.
        rows_done: Estimated rows of the chunks committed.
        rows_total: Estimated rows of all chunks.
        started_at: When the first chunk was planned, by the source's clock, UTC.
    """

    bound: CursorValue
    done: int
    total: int
    chunks: tuple[str, ...] = ()
    rest: str = ""
    rows_done: int = 0
    rows_total: int = 0
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSpec:
    """One frozen operation on one table: everything that Spark needs, and nothing that may change between tries.

    Args:
        pipeline, table: Whose rows.
        op_seq: The table's next number, drawn under its lease; it is the Delta txnVersion.
        operation_id: Unique for this plan; two operations that drew the same number (a lost ledger) are told apart by it.
        run_id: The run that planned it; a later run may finish it.
        kind: Why it is done.
        generation: Goes up when the whole table is replaced.
        planned_at: The source's clock at the plan, UTC.
        path: The Delta table.
        staging: The operation's own folder in the staging area.
        schema: Columns as the plan saw them, each with the type in which it is stored.
        keys: Key columns, as the lake's rows are matched: where the source compares loosely, the columns that stand for its own.
        cursor: The table's cursor.
        window: What is read, for increments, backfills and ranges.
        slices: WHERE conditions in the source's dialect, disjoint and together the whole; each is read over its own connection.
        expected_rows: Row count or estimate at the plan, for progress and partitioning.
        mode, landing: How rows are applied, and where they stop in between.
        delete_missing_where: Spark SQL condition on the target; rows that match it and are not in the batch are deleted ("" = none).
        delete_where: Spark SQL condition on a row that was read; such rows are deleted from the table and not inserted ("" = none).
        truncate_where: Spark SQL condition on a row that was read; one that it is true of empties the table of what is older ("" = none).
        watermark_before, snapshot_before, delta_version_before: The table as the plan saw it: what its commit record has to say for this
            operation to be applied on top of it, and the Delta version up to which changes by others were seen
            (`core.operation.table_state.check_base`).
        watermark_after: The table's watermark once this operation has committed, None while a snapshot is unfinished.
        snapshot_after: Snapshot progress once it has committed, None when there is none unfinished.
        properties: Delta table properties for a table that has to be created.
        bound_method: How the window's upper bound was found.
        fresh_at: Instant (UTC) up to which the table is complete once a live operation has committed, or one that compares everything.
        schema_changes: What is altered in the Delta table before the statement, unless it has been altered already.
        source_fingerprint: Of the source's schema at the plan, with the source's own types.
        replaces_schema: True if the rows replace the table's columns too.
        update_only: Columns that are set in rows that are there; then nothing is inserted and no other column changed.
        compare: For operations that compare source and lake and bring over only what differs.
        band: What is read again although an earlier operation has read it; of its rows only those are merged that the lake does not have
            as they are now. None if nothing is.
        with_nulls: Rows whose cursor is NULL are read too, all of them.
        nulls_after: Checksum that the plan saw over all columns of those rows, "" if it did not look.
        seen_after: What the plan saw at the source of what the lake will then hold, for the next plan's band.
        deleted_column: Column of the Delta table, and not of the source, that is set to true in deleted rows; "" = they are deleted.
        hidden: What is read besides the columns because changes are ordered or deleted by it; it is not stored.
        before: What is read besides the columns, one for each key column: the row's old key, if the source has no row with it any more.
        log: What is read of an archive; None for operations that read the source.
        stored_as: How the table stores what is applied to it.
        quarantine: Delta table for rows that are read by query and have NULL in a key or in `sequence_by`, "" = they stop the operation.
        replay: Which events of the table's history are applied again; None for operations that read source or archive.
        archive_after: The table's watermark in its archive once this operation has committed: the one before it, unless it reads the
            archive; then it is known when the files have been read. None for tables without an archive.
    """

    pipeline: str
    table: TableName
    op_seq: int
    operation_id: str
    run_id: str
    kind: OperationKind
    generation: int
    planned_at: datetime
    path: str
    staging: str
    schema: TableSchema
    keys: tuple[str, ...]
    cursor: Cursor
    slices: tuple[str, ...]
    mode: ApplyMode
    landing: Landing
    window: Window | None = None
    expected_rows: int = 0
    delete_missing_where: str = ""
    delete_where: str = ""
    truncate_where: str = ""
    watermark_before: CursorValue | None = None
    snapshot_before: SnapshotProgress | None = None
    delta_version_before: int | None = None
    watermark_after: CursorValue | None = None
    snapshot_after: SnapshotProgress | None = None
    properties: tuple[tuple[str, str], ...] = ()
    bound_method: str = ""
    fresh_at: datetime | None = None
    schema_changes: tuple[SchemaChange, ...] = ()
    source_fingerprint: str = ""
    replaces_schema: bool = False
    update_only: tuple[str, ...] = ()
    compare: CompareSpec | None = None
    band: Window | None = None
    seen_after: RangeChecksum | None = None
    with_nulls: bool = False
    nulls_after: str = ""
    deleted_column: str = ""
    hidden: tuple[Column, ...] = ()
    before: tuple[Column, ...] = ()
    log: LogBatch | None = None
    archive_after: ArchiveWatermark | None = None
    stored_as: TableStorage = LATEST
    quarantine: str = ""
    replay: Replay | None = None

    @property
    def reads_before(self) -> bool:
        """True if old keys are read with the rows and deleted by their MERGE; a comparison sees by itself what is gone."""
        return bool(self.before) and self.mode is ApplyMode.MERGE and self.compare is None and not self.update_only

    @property
    def extent(self) -> str:
        """How much is to be read, in words: rows of the source, or files of an archive."""
        if self.replay is not None:
            return "its event history"
        if self.log is not None and self.log.again:
            return "its records in quarantine"
        if self.log is None:
            return f"about {self.expected_rows:,} rows"
        count = len(self.log.files)
        return f"{count:,} archived file{'s' if count != 1 else ''} with {sum(file.size for file in self.log.files):,} bytes"

    @property
    def words(self) -> str:
        """What it is, in words: `increment`, or `snapshot, part 2 of 3`."""
        progress = self.snapshot_after or self.snapshot_before
        if not self.kind.is_snapshot or progress is None:
            return self.kind.words
        part = progress.total if self.snapshot_after is None else progress.done
        return f"{self.kind.words}, part {part:,} of {progress.total:,}"

    @property
    def full_schema(self) -> TableSchema:
        """The columns of a row that are read: those that are stored, and behind them those that are not."""
        return self.schema.extended(self.hidden)

    @property
    def read_schema(self) -> TableSchema:
        """What is read and landed: the columns, and behind them the old keys, or what events say of a row besides its values."""
        return self.full_schema.extended(LOG_COLUMNS if self.log is not None else self.before if self.reads_before else ())

    @property
    def source_keys(self) -> tuple[str, ...]:
        """The key columns of the source, for people and for its own SQL."""
        named = {column.name: column.normalises for column in self.schema.columns if column.normalises}
        return tuple(named.get(key, key) for key in self.keys)

    @property
    def reads_everything(self) -> bool:
        """True if it reads whole tables, or may: what a replica of the source is there for."""
        if self.replay is not None:
            return False
        whole = self.mode is ApplyMode.OVERWRITE or (bool(self.update_only) and self.window is None)
        return self.kind.is_snapshot or self.compare is not None or whole


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
class Manifest:
    """The last file of a landed window: it is written only when everything else is there.

    Args:
        operation_id: Whose rows.
        attempt: Folder name of the attempt that finished.
        rows, bytes, files: What was landed.
        schema_fingerprint: Of the schema that was read.
        key_ranges: Per key column that can be pruned by.
        null_keys: Rows with NULL in a key column.
        nulled: Values that became NULL because nothing stored can hold them.
        scope: The part of the table that was found to differ and was read, for operations that compare.
        log: What reading an archive showed, for operations that do.
        quarantined: Rows that are to be set aside (`OperationSpec.quarantine`).
        feed_files, feed_bytes: What was landed of the feed, if the merge reads that too; 0 if it does not.
        reread: Why the window was read again although it had been landed before, "" if it had not.
    """

    operation_id: str
    attempt: str
    rows: int
    bytes: int
    schema_fingerprint: str
    key_ranges: tuple[KeyRange, ...] = ()
    null_keys: int = 0
    files: int = 0
    nulled: NullifiedValues = NOTHING_NULLIFIED
    scope: BucketSelection | None = None
    log: LogBatchResult | None = None
    quarantined: int = 0
    feed_files: int = 0
    feed_bytes: int = 0
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
