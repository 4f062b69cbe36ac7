"""What a Delta commit of ours says of itself, and what a table's log tells of itself and of others."""

from dataclasses import dataclass, replace
from typing import ClassVar

from cdc_ops.core.apply.metadata_columns import DEFAULT_COLUMNS, MetadataColumns
from cdc_ops.core.approvals import Approval
from cdc_ops.core.archive.watermarks import ArchiveWatermark
from cdc_ops.core.cursor.late_rows import NONE_LATE, LateRows
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.protocol.table_progress import NO_PROGRESS, TableProgress
from cdc_ops.core.schema.collated_keys import rules_of
from cdc_ops.core.schema.table_identity import NO_IDENTITY, TableIdentity
from cdc_ops.core.schema.tables import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedColumns:
    """What a commit says of the columns of its table.

    Args:
        keys: Columns by which the rows are told apart.
        cursor: What the watermark is a value of; empty for a table that is compared as a whole, None in older records.
        schema_fingerprint: Of the source's schema that the operation was planned with.
        deleted_column: Column that marks deleted rows, "" if they are deleted.
        key_rules: For key columns that stand for loosely compared ones, their name and the source's rule, e.g. a collation.
        own: What the columns of the table are called that the source has not.
        identity: The table at the source of which these are the rows.
    """

    keys: tuple[str, ...] = ()
    cursor: tuple[str, ...] | None = None
    schema_fingerprint: str = ""
    deleted_column: str = ""
    key_rules: tuple[tuple[str, str], ...] = ()
    own: MetadataColumns = DEFAULT_COLUMNS
    identity: TableIdentity = NO_IDENTITY


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCounts:
    """The counts that Delta's own metrics of the commit do not have.

    Args:
        rows: Rows in the batch as far as known before the statement ran, else None.
        late: Late rows among them.
        marked: Rows that this commit's MERGE marks as deleted and that were not before, as far as it counts them as updated.
    """

    rows: int | None = None
    late: LateRows = NONE_LATE
    marked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """What every data commit says of itself, as JSON in Delta's userMetadata. The newest one carries the whole state of the table.

    Args:
        pipeline, table, generation, op_seq, operation_id, run_id, kind, window: As in the operation.
        progress: The table's watermark after this commit, in its archive too, or its snapshot's progress; the rest of it is not recorded.
        package_version: Version of cdc-ops that wrote it.
        counts: Rows of the batch.
        columns: The table's columns, as far as a later plan has to know them.
        approval: As in the operation: who has let it through, and how far.
    """

    JSON_INLINE: ClassVar[tuple[str, ...]] = ("progress", "counts", "columns")
    pipeline: str
    table: TableName
    generation: int
    op_seq: int
    operation_id: str
    run_id: str
    kind: OperationKind
    package_version: str
    window: Window | None = None
    progress: TableProgress = NO_PROGRESS
    counts: RecordedCounts = RecordedCounts()
    columns: RecordedColumns = RecordedColumns()
    approval: Approval | None = None


def commit_record(
    operation: Operation,
    *,
    rows: int | None,
    package_version: str,
    late: LateRows = NONE_LATE,
    marked: int = 0,
    archive: ArchiveWatermark | None = None,
) -> CommitRecord:
    """Returns the record that an operation's commit carries.

    Args:
        operation: The frozen operation.
        rows: Rows that were read, if known.
        package_version: Of the package that commits.
        late: Late rows among them.
        marked: Rows that the commit marks as deleted.
        archive: Up to where the table has everything of its archive, as reading its files showed; None if no files were read.
    """
    after = operation.after if archive is None else replace(operation.after, archive=archive)
    return CommitRecord(
        pipeline=operation.pipeline,
        table=operation.table,
        generation=operation.generation,
        op_seq=operation.op_seq,
        operation_id=operation.operation_id,
        run_id=operation.plan.run_id,
        kind=operation.kind,
        package_version=package_version,
        window=operation.window,
        progress=after.position,
        counts=RecordedCounts(rows=rows, late=late, marked=marked),
        columns=RecordedColumns(
            keys=operation.apply.keys,
            cursor=tuple(column.name for column in operation.source.cursor.columns),
            schema_fingerprint=operation.source.fingerprint,
            deleted_column=operation.apply.deleted_column,
            key_rules=rules_of(operation.source.schema),
            own=operation.apply.stored_as.own,
            identity=operation.source.identity,
        ),
        approval=operation.approval,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignChange:
    """A commit that changed the table's rows and is none of ours.

    Args:
        version: Its Delta version.
        operation: Delta's name for it, e.g. `DELETE`, `RESTORE`.
    """

    version: int
    operation: str

    @property
    def undoes_commits(self) -> bool:
        """True if rows that our commits wrote may be gone again as a whole: the table was rewound or replaced."""
        return self.operation == "RESTORE" or "REPLACE TABLE" in self.operation or "CLONE" in self.operation


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeHead:
    """What a Delta log says of a table, read without Spark.

    Args:
        version: Newest Delta version.
        txn_version: The recorded txnVersion of our appId, None if it has none.
        record: The newest commit record of this pipeline's table that still counts, None if there is none (never written, pruned, or
            restored to a version that the log does not name). After a RESTORE it is the newest one at the version restored to: its
            watermark is the one that the rows stand for, while `txn_version` stays as it was.
        record_version: Delta version of that record.
        foreign_app_ids: appIds of other cdc-ops pipelines found in the table.
        columns: Name and type of the stored columns, in order.
        partition_by: The columns by which it is partitioned.
        created_by_us: The table was made by this pipeline for this table and holds no rows of anybody: a first load may begin, or
            begin again.
        foreign_changes: Changes by others since the record (or since creation), newest first.
        exact_bounds: False if an earlier version may have written bounds of decimals wrong: the table's maintenance is due.
        records_changes: Delta records the changes of the table, whoever has switched that on.
    """

    version: int
    txn_version: int | None
    record: CommitRecord | None
    record_version: int | None
    foreign_app_ids: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    partition_by: tuple[str, ...] = ()
    created_by_us: bool = False
    foreign_changes: tuple[ForeignChange, ...] = ()
    exact_bounds: bool = True
    records_changes: bool = False

    @property
    def own(self) -> MetadataColumns:
        """What the columns are called that the source has not, as far as a record says."""
        return self.record.columns.own if self.record else DEFAULT_COLUMNS


def with_rows(head: LakeHead | None) -> LakeHead | None:
    """Returns what is to be followed of a table: nothing of one that a first load made and left without a row.

    Its columns are those of a plan that failed. The first batch makes it anew as the pipeline file says then.
    """
    return None if head is None or head.created_by_us else head
