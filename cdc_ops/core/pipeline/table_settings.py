"""The settings of a table: what a pipeline file says of it, in groups by what they decide. Pure."""

import enum
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import timedelta
from typing import Any, Final

from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.apply.metadata_columns import DEFAULT_COLUMNS, MetadataColumns
from cdc_ops.core.maintenance import MaintenancePolicy
from cdc_ops.core.pipeline.archive_config import OnBadRecord
from cdc_ops.core.pipeline.dropped_tables import DroppedTables
from cdc_ops.core.schema.schema_evolution import SchemaPolicy
from cdc_ops.core.schema.value_policies import OnOverflow, OnUnstorable, TypePolicies


class NullCursor(enum.StrEnum):
    """What is done about rows whose cursor is NULL, which are in no window."""

    IGNORE = "ignore"
    """They come with the snapshot only."""
    CHECKSUM = "checksum"
    """Each run asks for a checksum over all their columns, and reads all of them when it has changed."""


class Method(enum.StrEnum):
    """Where a table's changes come from."""

    QUERY = "query"
    """The source's rows, by JDBC."""
    LOG = "log"
    """Archived change events of the source's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """Which rows and columns are read at the source, and how.

    Args:
        cursor: Columns that order changes: one temporal or auto-increment column, or `(updated_at, id)`; for a column also
            `COALESCE(updated_at, created_at)`; `[]` = every run compares the whole table with the source.
        lookback: How far below the watermark each run looks for late rows. Also how far the upper bound of a window stays behind the
            source's clock if the user cannot see open transactions.
        null_cursor: What to do about rows whose cursor is NULL. `ignore`: only the snapshot reads them. `checksum`: each run computes a
            checksum of all of them, and reads them when it has changed; an index on the cursor makes that cheap.
        long_transaction_alert: How long an open transaction at the source may hold the watermark back before the run raises an alert. The
            watermark waits for the transaction in any case.
        columns: Columns to copy; empty = all.
        except_column_list: Columns to leave out.
        parallelism: JDBC connections that read the table at the same time.
        chunk_rows: Rows of one snapshot operation, about.
        chunk_bytes: Bytes of one snapshot operation as the source stores them, about: what is read again after a crash at worst.
    """

    cursor: tuple[str, ...] = ()
    lookback: timedelta = timedelta(seconds=30)
    null_cursor: NullCursor = NullCursor.IGNORE
    long_transaction_alert: timedelta = timedelta(hours=1)
    columns: tuple[str, ...] = ()
    except_column_list: tuple[str, ...] = ()
    parallelism: int = 4
    chunk_rows: int = 20_000_000
    chunk_bytes: int = 16 * 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderSettings:
    """In which order the changes of a row count.

    Args:
        previous_key: Columns that hold the key from before its last change, one for each key column and of the same type; NULL = it did not
            change. The MERGE that brings the row under its new key deletes the old one in the lake, unless a row of the source has it.
        sequence_by: Columns that order the changes of a row, `COALESCE(a, b)` of columns of one type, or
            `CAST(expression AS type)`: what is older than the row in the lake is left out (type 1) or goes between
            its versions (type 2). Empty = each read is newer than the one before. Tables with `method: log` have their events' order.
        bad_records: What to do about changes that cannot be placed: `fail` stops the table, `quarantine` sets them aside. With
            `sequence_by`, rows with NULL in a key or in these columns; with `method: log`, as `bad_records` of `archive`, for one table.
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
        apply_as_deletes: Spark SQL condition over the table's columns; rows that it is true of are deleted from the lake, never written.
        apply_as_truncates: The same for rows of a table of changes that empty it: of what is older by `sequence_by`, nothing is left.
        deletes: What becomes of rows in the lake that the source has deleted: `hard` deletes them there too, `soft` keeps them with their
            last values and `_deleted = true`, `ignore` leaves them as they are.
        ignore_null_updates: A NULL in an update leaves the value that is there; in a row that is new it is stored. For changes: tables with
            `method: log`, and tables of changes with `sequence_by`.
        ignore_null_updates_column_list: The same in these columns only.
        ignore_null_updates_except_column_list: The same in all but these.
        max_delete_ratio: Share of a table's rows that one comparison with the source may delete without being asked; ten rows always may.
        max_delete_rows: Rows that it may delete at most; 0 = as many as the ratio allows.
        dropped_tables: What to do when a table that was copied is not at the source any more, or the user may no longer see it: `alert`
            (the first run that notices says so, later ones show it as a state), `fail` (every run of the table fails) or `ignore`. Its
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
        schema_changes: What to do when columns change at the source: `evolve` follows (new columns are added, types widened), `freeze` goes
            on with the columns that the lake has, `fail` stops the table. Changed keys, and types that the stored one cannot be widened
            to, always stop it.
        renamed: Old and new name of columns that were renamed at the source; without an entry a renamed column is one that is gone and one
            that is new. With `method: log` events from before it, too, fill the column under its new name.
        zero_dates: What becomes of dates and times that are none: zero, partial and impossible ones of MySQL, infinite ones of Postgres.
            `null` counts and reports them, `string` stores the column as the source's own text, `fail` stops the table.
        nan_values: The same for NaN in a Postgres `numeric(p,s)`.
        decimal_overflow: What becomes of columns of more than 38 digits: the source's own text, or `fail` at the plan.
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
        stored_as_scd_type: 1 (one row a key) or 2 (one row a version, with `__START_AT` and `__END_AT`; the current one has no end).
        track_history_column_list: With type 2, columns whose changes begin a version; others are brought up to date in the version that is
            there. Empty = all.
        track_history_except_column_list: All but these.
        change_feed: Record what changes in the Delta table, for `cdc-ops changes` and other readers of Delta's change data feed. `true`
            switches it on in tables that exist, too; `false` leaves those as they are.
        event_history: Keep every event of a table with `method: log` in a Delta table beside the lake, for `cdc-ops as-of` and
            `cdc-ops replay`. The table's `change_feed` is on then, too.
        event_history_retention: How long events are kept; from before that time the history has the rows as they were then.
    """

    stored_as_scd_type: int = 1
    track_history_column_list: tuple[str, ...] = ()
    track_history_except_column_list: tuple[str, ...] = ()
    change_feed: bool = False
    event_history: bool = False
    event_history_retention: timedelta = timedelta(days=365)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepSettings:
    """How the Delta table itself is kept.

    Args:
        path: Path of the Delta table, instead of the one under the target's root.
        metadata_columns: Names of the columns that cdc-ops adds to the table; the optional ones are absent without a name.
        properties: Delta table properties, over the package's defaults.
        maintenance: When OPTIMIZE and VACUUM are due.
    """

    path: str = ""
    metadata_columns: MetadataColumns = DEFAULT_COLUMNS
    properties: tuple[tuple[str, str], ...] = ()
    maintenance: MaintenancePolicy = field(default_factory=MaintenancePolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """How one table is kept equal; every field can stand in `defaults` and in a table's own entry.

    A pipeline file writes the fields of all groups beside each other.

    Args:
        method: Where changes come from: `query` reads the source's rows by JDBC; `log` reads the events in the pipeline's `archive`, and
            the source only for its columns, for reconcile and for resyncs.
        keys: Columns that identify a row; empty = the primary key.
        load: Which rows and columns are read at the source, and how.
        order: In which order the changes of a row count.
        apply: What rows that were read do to the table.
        values: How columns and values are stored.
        history: Which older states of rows are kept.
        upkeep: How the Delta table itself is kept.
    """

    method: Method = Method.QUERY
    keys: tuple[str, ...] = ()
    load: LoadSettings = field(default_factory=LoadSettings)
    order: OrderSettings = field(default_factory=OrderSettings)
    apply: ApplySettings = field(default_factory=ApplySettings)
    values: ValueSettings = field(default_factory=ValueSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    upkeep: UpkeepSettings = field(default_factory=UpkeepSettings)

    @classmethod
    def of(cls, **values: Any) -> "TableSettings":
        """Returns settings made of their names in a pipeline file, whatever group they are in; others have their defaults.

        >>> TableSettings.of(keys=("id",), deletes=Deletes.SOFT).apply.deletes
        <Deletes.SOFT: 'soft'>
        """
        return cls().changed(**values)

    def changed(self, **values: Any) -> "TableSettings":
        """Returns the settings with others in their place, by the same names.

        Raises:
            TypeError: there is no setting of such a name.
        """
        groups: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            groups.setdefault(_GROUPS.get(name, ""), {})[name] = value
        own = groups.pop("", {})
        return replace(self, **own, **{name: replace(getattr(self, name), **inner) for name, inner in groups.items()})

    @property
    def deleted_column(self) -> str:
        """The column of the Delta table that marks deleted rows, "" if they are deleted."""
        return self.upkeep.metadata_columns.deleted if self.apply.deletes is Deletes.SOFT else ""

    @property
    def types(self) -> TypePolicies:
        """The policies for values that no stored type holds."""
        return TypePolicies(
            zero_dates=self.values.zero_dates,
            nan_values=self.values.nan_values,
            decimal_overflow=self.values.decimal_overflow,
            ordering=tuple(name.lower() for name in self.load.cursor),
        )


_GROUPS: Final = {inner.name: outer.name for outer in fields(TableSettings) if is_dataclass(outer.type) for inner in fields(outer.type)}
"""Which group a setting is in."""
