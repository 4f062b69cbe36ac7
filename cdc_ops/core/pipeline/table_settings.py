"""The settings of a table: what a pipeline file says of it, in groups by what they decide. Pure."""

import enum
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Final

from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.apply.metadata_columns import DEFAULT_COLUMNS, MetadataColumns
from cdc_ops.core.maintenance import MaintenancePolicy
from cdc_ops.core.pipeline.archive_config import OnBadRecord
from cdc_ops.core.pipeline.grouped import Grouped
from cdc_ops.core.pipeline.tables.dropped_tables import DroppedTables
from cdc_ops.core.run_cost import NO_LIMIT, MaxCost
from cdc_ops.core.schema.schema_evolution import SchemaPolicy
from cdc_ops.core.schema.value_policies import OnOverflow, OnUnstorable, TypePolicies

CHANGE_FEED: Final = "delta.enableChangeDataFeed"
"""The property of a Delta table that records its changes."""


class NullCursor(enum.StrEnum):
    """The policy for rows whose cursor is NULL: no window contains them."""

    IGNORE = "ignore"
    """Only the snapshot reads them."""
    CHECKSUM = "checksum"
    """Each run asks for a checksum over all their columns, and reads all of them if it changed."""


NULLS_UNREAD: Final = "only the snapshot reads such rows, unless 'null_cursor: checksum' is set"
"""What every warning says of rows whose cursor is in no window; it has no place where the setting is made."""


class Method(enum.StrEnum):
    """The origin of a table's changes."""

    QUERY = "query"
    """The source's rows, by JDBC."""
    LOG = "log"
    """Archived change events of the source's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """Which rows and columns are read at the source, and how.

    Args:
        cursor: Columns that order changes: one temporal or auto-increment column, or both as `[updated_at, id]`. An entry may be
            `COALESCE(updated_at, created_at)`. `[]` = each run compares the whole table with the source.
        lookback: How far below the watermark each run looks for late rows. It is also how far a window's upper bound stays behind the
            source's clock where open transactions are not visible (missing grant, replica).
        null_cursor: What to do about rows whose cursor is NULL, or a zero or infinite date. `ignore`: only the snapshot reads them.
            `checksum`: each run computes a checksum of all of them, and reads them when it has changed; an index on the cursor makes that
            cheap.
        long_transaction_alert: How long an open transaction at the source may hold the watermark back before the run raises an alert. The
            watermark waits for the transaction in any case.
        max_lag: How far the table may be behind its source before it counts as late and `notify` tells of it. 0 = no limit.
        columns: Columns to copy. Empty = all columns.
        except_column_list: Columns that are not copied.
        parallelism: Number of JDBC connections that read the table at the same time.
        chunk_rows: Approximate number of rows in one snapshot operation.
        chunk_bytes: Approximate size of one snapshot operation, in bytes as the source stores them. It limits how much is read again after
            a crash.
        max_cost: What one run may begin of this table, by its estimate. A table above it is refused before anything is read, and the others
            go on (docs/run.md#what-a-run-may-cost).
    """

    cursor: tuple[str, ...] = ()
    lookback: timedelta = timedelta(seconds=30)
    null_cursor: NullCursor = NullCursor.IGNORE
    long_transaction_alert: timedelta = timedelta(hours=1)
    max_lag: timedelta = timedelta(0)
    columns: tuple[str, ...] = ()
    except_column_list: tuple[str, ...] = ()
    parallelism: int = 4
    chunk_rows: int = 20_000_000
    chunk_bytes: int = 16 * 1024**3
    max_cost: MaxCost = NO_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderSettings:
    """In which order the changes of a row count.

    Args:
        previous_key: Columns that hold the row's key from before its last change: one for each key column, with the same type; NULL = the
            key did not change. The MERGE that writes the row under its new key deletes the row under the old key, unless the source has a
            row with that key.
        sequence_by: Columns that order the changes of a row, `COALESCE(a, b)` of columns of one type, or `CAST(expression AS type)`. A
            change that is older than the row in the lake is skipped (type 1) or inserted between its versions (type 2). Empty = each read
            is newer than the one before. Tables with `method: log` use the order of their events.
        bad_records: What to do with changes that cannot be ordered or read: `fail` stops the table, `quarantine` sets them aside. With
            `sequence_by`: rows with NULL in a key or in a column of `sequence_by`. With `method: log`: as `bad_records` of `archive`, for
            one table.
        tombstone_retention: How long deleted keys are remembered, so that a change that arrives after the delete does not restore the row.
    """

    previous_key: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    bad_records: OnBadRecord = OnBadRecord.FAIL
    tombstone_retention: timedelta = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplySettings:
    """What rows that were read do to the table.

    Args:
        apply_as_deletes: Spark SQL condition over the table's columns. Rows for which it is true are deleted from the lake and never
            written.
        apply_as_truncates: Spark SQL condition over the columns of a table of changes. A row for which it is true empties the table: all
            rows that are older by `sequence_by` are deleted.
        deletes: What to do with rows of the lake that were deleted at the source. `hard` deletes them. `soft` keeps their last values and
            sets `_deleted = true`. `ignore` leaves them unchanged.
        ignore_null_updates: A NULL in an update keeps the stored value; in a new row it is stored. Only for changes: tables with `method:
            log`, and tables of changes with `sequence_by`.
        ignore_null_updates_column_list: Like `ignore_null_updates`, for these columns only.
        ignore_null_updates_except_column_list: Like `ignore_null_updates`, for all columns but these.
        max_delete_ratio: Largest share of the table's rows that one comparison with the source may delete without confirmation, e.g. `0.1`
            = 10 %. Ten rows are always allowed, unless they are the whole table.
        max_delete_rows: Largest number of rows that one comparison may delete without confirmation. 0 = only the ratio limits it.
        dropped_tables: What to do when the source does not show a copied table any more (dropped, or the grant is gone). `alert`: the first
            run that notices raises an alert; later runs show it as a state. `fail`: every run of the table fails. `ignore`: nothing. The
            rows in the lake stay in any case.
    """

    apply_as_deletes: str = ""
    apply_as_truncates: str = ""
    deletes: Deletes = Deletes.HARD
    ignore_null_updates: bool = False
    ignore_null_updates_column_list: tuple[str, ...] = ()
    ignore_null_updates_except_column_list: tuple[str, ...] = ()
    max_delete_ratio: float = 0.1
    max_delete_rows: int = 0
    dropped_tables: DroppedTables = DroppedTables.ALERT


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSettings:
    """How columns and values are stored.

    Args:
        schema_changes: What to do when columns change at the source. `evolve` adds new columns and widens types. `freeze` continues with
            the columns that the lake has. `fail` stops the table. A changed key, or a type that the stored type cannot be widened to,
            always stops the table.
        renamed: Columns that were renamed at the source, as `old_name: new_name`. Without an entry, a renamed column counts as one dropped
            and one new column. With `method: log`, events from before the rename fill the new column too.
        zero_dates: What to do with dates and times that the lake cannot store: zero, partial and impossible ones of MySQL, infinite ones of
            Postgres. `null` stores NULL and counts them. `string` stores the column as the source's own text. `fail` stops the table.
        nan_values: What to do with NaN in decimal columns (`numeric(p,s)` of Postgres, decimals of MongoDB): `null`, `string` or `fail`, as
            for `zero_dates`.
        decimal_overflow: What to do with columns of more than 38 digits. `string` stores the source's own text. `fail` stops the table at
            the plan.
    """

    schema_changes: SchemaPolicy = SchemaPolicy.EVOLVE
    renamed: tuple[tuple[str, str], ...] = ()
    zero_dates: OnUnstorable = OnUnstorable.NULL
    nan_values: OnUnstorable = OnUnstorable.NULL
    decimal_overflow: OnOverflow = OnOverflow.STRING


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """Which older states of rows are kept.

    Args:
        stored_as_scd_type: 1 = one row for each key. 2 = one row for each version, with `__START_AT` and `__END_AT`; `__END_AT` of the
            current version is NULL.
        track_history_column_list: Type 2 only: columns whose changes begin a new version. A change of another column updates the existing
            version. Empty = all columns.
        track_history_except_column_list: Type 2 only: all columns but these begin a new version.
        change_feed: Record the changes of the Delta table, for `cdc-ops changes` and for other readers of Delta's change data feed. `true`
            also switches it on for existing tables; `false` does not switch it off.
        event_history: Keep every event of a table with `method: log` in a second Delta table, for `cdc-ops as-of` and `cdc-ops replay`. It
            switches `change_feed` on.
        event_history_retention: How long single events are kept. What is older is condensed: the history keeps the rows as they were at
            that point.
    """

    stored_as_scd_type: int = 1
    track_history_column_list: tuple[str, ...] = ()
    track_history_except_column_list: tuple[str, ...] = ()
    change_feed: bool = False
    event_history: bool = False
    event_history_retention: timedelta = timedelta(days=365)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """How the Delta table itself is kept.

    Args:
        path: Path of the Delta table, if it is not `<root>/<schema>/<table>`.
        catalog_name: Name of the table in Spark's catalog, if it is not the one that `target.catalog` gives it; `{schema}` and `{table}` as
            there.
        metadata_columns: Names of the columns that cdc-ops adds to the table. An optional column without a name is not added.
        properties: Delta table properties; they override the defaults of cdc-ops.
        cluster_by: Columns by which OPTIMIZE sorts the rows (liquid clustering), at most four. It can be changed; what is there stays as it
            is until OPTIMIZE takes it. Removing it leaves the table clustered.
        partition_by: Columns of whose values the table has a folder each, e.g. a column of dates. Set when the table is made; a full resync
            changes it.
        maintenance: When OPTIMIZE and VACUUM are due.
    """

    path: str = ""
    catalog_name: str = ""
    metadata_columns: MetadataColumns = DEFAULT_COLUMNS
    properties: tuple[tuple[str, str], ...] = ()
    cluster_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    maintenance: MaintenancePolicy = field(default_factory=MaintenancePolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings(Grouped):
    """How one table is kept equal; every field can stand in `defaults` and in a table's own entry.

    A pipeline file writes the fields of all groups beside each other.

    Args:
        method: Where changes come from. `query` reads the rows of the source by JDBC. `log` reads the change events in the pipeline's
            `archive`; it reads the source only for columns, reconcile and resyncs.
        keys: Columns that identify a row. Empty = the primary key.
        load: Which rows and columns are read at the source, and how.
        order: In which order the changes of a row count.
        apply: What rows that were read do to the table.
        values: How columns and values are stored.
        history: Which older states of rows are kept.
        storage: How the Delta table itself is kept.
    """

    JSON_INLINE: ClassVar[tuple[str, ...]] = ("load", "order", "apply", "values", "history", "storage")

    method: Method = Method.QUERY
    keys: tuple[str, ...] = ()
    load: LoadSettings = field(default_factory=LoadSettings)
    order: OrderSettings = field(default_factory=OrderSettings)
    apply: ApplySettings = field(default_factory=ApplySettings)
    values: ValueSettings = field(default_factory=ValueSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    storage: StorageSettings = field(default_factory=StorageSettings)

    @property
    def deleted_column(self) -> str:
        """The column of the Delta table that marks deleted rows, "" if they are deleted."""
        return self.storage.metadata_columns.deleted if self.apply.deletes is Deletes.SOFT else ""

    @property
    def records_changes(self) -> bool:
        """True if Delta records the changes of the table."""
        chosen = dict(self.storage.properties).get(CHANGE_FEED, "")
        return self.history.change_feed or self.history.event_history or chosen.lower() == "true"

    @property
    def types(self) -> TypePolicies:
        """The policies for values that no stored type holds."""
        return TypePolicies(
            zero_dates=self.values.zero_dates,
            nan_values=self.values.nan_values,
            decimal_overflow=self.values.decimal_overflow,
            ordering=tuple(name.lower() for name in self.load.cursor),
        )
