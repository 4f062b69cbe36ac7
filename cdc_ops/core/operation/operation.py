"""Operations: the frozen plans that Spark executes, and the results of each; `core.operation.job` puts them together.

Everything between Airflow, the ledger and Spark is one of these values as JSON (core.json_codec): a `JobSpec` in, a `StepResult` out. They
carry connection *names*, never credentials.
"""

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, assert_never

from cdc_ops.core.apply.apply_spec import ApplyMode, ApplySpec, Landing
from cdc_ops.core.approvals import Approval
from cdc_ops.core.cursor.cursors import Cursor
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.log_batch import LOG_COLUMNS
from cdc_ops.core.operation.protocol.table_progress import TableProgress
from cdc_ops.core.operation.reads import ArchiveRead, ChunkRead, CompareRead, KeysRead, Read, ReplayRead, WindowRead
from cdc_ops.core.schema.table_identity import NO_IDENTITY, TableIdentity
from cdc_ops.core.schema.tables import Column, TableName, TableSchema


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
        cluster_by: Columns that it is clustered by; () = as it is.
        partition_by: Columns that it is partitioned by, if it has to be created or replaced.
        version: The Delta version that the plan saw, up to which changes by others are known
            (`core.operation.protocol.ledger_and_lake.check_base`).
    """

    path: str
    staging: str
    properties: tuple[tuple[str, str], ...] = ()
    cluster_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumns:
    """The columns of the source, as the plan saw them. They may change between tries, until the rows are landed.

    Args:
        schema: Columns, each with the type in which it is stored.
        cursor: The table's cursor.
        hidden: What is read besides the columns because changes are ordered or deleted by it; it is not stored.
        fingerprint: Of the source's schema, with the source's own types.
        identity: The table of which the lake has the rows once the operation has committed.
    """

    schema: TableSchema
    cursor: Cursor
    hidden: tuple[Column, ...] = ()
    fingerprint: str = ""
    identity: TableIdentity = NO_IDENTITY


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """Who planned an operation.

    Args:
        run_id: The run; a later one may finish the operation.
        planned_at: When, by the source's clock, UTC.
    """

    run_id: str
    planned_at: datetime


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
        plan: Who planned it, and when.
        kind: Why it is done.
        generation: Goes up when the whole table is replaced.
        target: The table that is written.
        source: The columns that are read.
        before: The table as the plan saw it: what its commit record has to say for this operation to be applied on top of it
            (`core.operation.protocol.ledger_and_lake.check_base`).
        after: The table once this operation has committed.
        apply: What is done with the rows.
        read: What is read.
        approval: Who has let it through although a guard had refused it, and how far; None for most operations.
    """

    JSON_INLINE: ClassVar[tuple[str, ...]] = ("plan",)
    pipeline: str
    table: TableName
    op_seq: int
    operation_id: str
    plan: Planning
    kind: OperationKind
    generation: int
    target: Target
    source: SourceColumns
    before: TableProgress
    after: TableProgress
    apply: ApplySpec
    read: Read
    approval: Approval | None = None

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
        by_query = isinstance(self.read, WindowRead | ChunkRead | KeysRead)
        return self.apply.landing is Landing.STAGED and by_query and not self.apply.unique_keys

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
