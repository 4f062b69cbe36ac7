"""Pipelines as values: what the YAML files mean once they are read, checked and filled with defaults (cdc_ops.config does that)."""

import enum
import fnmatch
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.apply.metadata_columns import DEFAULT_COLUMNS, MetadataColumns
from cdc_ops.core.maintenance import MaintenancePolicy
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, OnBadRecord
from cdc_ops.core.pipeline.dropped_tables import DroppedTables
from cdc_ops.core.pipeline.unknown_tables import KnownTables
from cdc_ops.core.schema.declared_tables import DeclaredTable, TypeDialect
from cdc_ops.core.schema.schema_evolution import SchemaPolicy
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.schema.value_policies import OnOverflow, OnUnstorable, TypePolicies


class SourceKind(enum.StrEnum):
    """Which kind of server a source is."""

    MYSQL = "mysql"
    MARIADB = "mariadb"
    POSTGRES = "postgres"
    NONE = "none"
    """No server at all: tables are fed from an archive alone, and the pipeline file says which columns they have."""


class Execution(enum.StrEnum):
    """How the Spark steps of a run are started."""

    SEPARATE = "separate"
    """extract and merge are Airflow tasks of their own, each retried alone."""
    FUSED = "fused"
    """One Spark application does both: one JVM start less."""


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
class SourceConfig:
    """Where rows come from.

    Args:
        kind: The kind of database server; `none` = no server can be asked, and `tables` declares the columns.
        connection: Airflow connection id; outside Airflow the variable `CDC_OPS_CONN_<ID>` holds its URL. Required unless `kind` is `none`.
        snapshot_connection: The same of a replica that whole tables are read from (first loads, full resyncs, comparisons), to spare the
            source: each time only after it has applied what the source had committed; "" = the source itself. MySQL and MariaDB.
        time_zone: IANA zone or offset in which the application writes zone-less DATETIME cursors; "" = the server's global zone.
        jdbc_driver: `mariadb` (MariaDB Connector/J, streams; for MySQL too) or `mysql` (Connector/J).
        max_threads_running: Chunks of a snapshot wait while the server runs more statements than this (MySQL's `Threads_running`, active
            backends of Postgres); 0 = never.
        max_load_wait: How long a chunk waits for that before its table fails, to be tried again.
        max_connections: Largest number of JDBC connections that one Spark application opens at the same time, over all its tables;
            their `parallelism` cannot exceed it. 0 = no limit.
        dialect: With `kind: none`: the database whose types `tables` uses. Events of Debezium, Maxwell, Canal and DTS need that of their
            source.
        tables: With `kind: none`: the columns of each table, in order, as `name: type`; `not null` and `primary key` follow the type as in
            SQL.
    """

    kind: SourceKind
    connection: str = ""
    time_zone: str = ""
    jdbc_driver: str = "mariadb"
    max_threads_running: int = 0
    max_load_wait: timedelta = timedelta(minutes=30)
    max_connections: int = 0
    snapshot_connection: str = ""
    dialect: TypeDialect = TypeDialect.DELTA
    tables: tuple[DeclaredTable, ...] = ()

    @property
    def is_declared(self) -> bool:
        """True if there is no server to ask: what a pipeline file says of its tables is all that is known."""
        return self.kind is SourceKind.NONE

    @property
    def replica(self) -> "SourceConfig | None":
        """How the replica is reached that whole tables are read from, None if there is none."""
        return replace(self, connection=self.snapshot_connection, snapshot_connection="") if self.snapshot_connection else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetConfig:
    """Where Delta tables live.

    Args:
        root: URI or absolute folder; a table's path is `<root>/<schema>/<table>` unless it has its own. Signs of names that no folder
            may have, or that Spark reads as a pattern, are written as `%2F`.
        staging: URI or absolute folder for landed windows, manifests, job specs and results.
    """

    root: str
    staging: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConfig:
    """How Spark is started.

    Args:
        connection: Airflow connection id for spark-submit; it must exist, because Spark's hook silently goes to YARN without it.
        conf: Spark configuration, never secrets; it goes over the usual settings of cdc-ops, but not over those that values and commits
            depend on (docs/install.md#sparks-settings).
        driver_memory: e.g. `2g`.
        jars: Folder of jars, or "" for the folder in `CDC_OPS_JARS`, else resolved by coordinates at every start.
    """

    connection: str = "spark_default"
    conf: tuple[tuple[str, str], ...] = ()
    driver_memory: str = "2g"
    jars: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """How one table is kept equal; every field can stand in `defaults` and in a table's own entry.

    Args:
        method: Where changes come from: `query` reads the source's rows by JDBC; `log` reads the events in the pipeline's `archive`, and
            the source only for its columns, for reconcile and for resyncs.
        keys: Columns that identify a row; empty = the primary key.
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
        path: Path of the Delta table, instead of the one under the target's root.
        parallelism: JDBC connections that read the table at the same time.
        chunk_rows: Rows of one snapshot operation, about.
        chunk_bytes: Bytes of one snapshot operation as the source stores them, about: what is read again after a crash at worst.
        schema_changes: What to do when columns change at the source: `evolve` follows (new columns are added, types widened), `freeze` goes
            on with the columns that the lake has, `fail` stops the table. Changed keys, and types that the stored one cannot be widened
            to, always stop it.
        renamed: Old and new name of columns that were renamed at the source; without an entry a renamed column is one that is gone and one
            that is new. With `method: log` events from before it, too, fill the column under its new name.
        apply_as_deletes: Spark SQL condition over the table's columns; rows that it is true of are deleted from the lake, never written.
        apply_as_truncates: The same for rows of a table of changes that empty it: of what is older by `sequence_by`, nothing is left.
        previous_key: Columns that hold the key from before its last change, one for each key column and of the same type; NULL = it did not
            change. The MERGE that brings the row under its new key deletes the old one in the lake, unless a row of the source has it.
        deletes: What becomes of rows in the lake that the source has deleted: `hard` deletes them there too, `soft` keeps them with their
            last values and `_deleted = true`, `ignore` leaves them as they are.
        stored_as_scd_type: 1 (one row a key) or 2 (one row a version, with `__START_AT` and `__END_AT`; the current one has no end).
        sequence_by: Columns that order the changes of a row, `COALESCE(a, b)` of columns of one type, or
            `CAST(expression AS type)`: what is older than the row in the lake is left out (type 1) or goes between
            its versions (type 2). Empty = each read is newer than the one before. Tables with `method: log` have their events' order.
        track_history_column_list: With type 2, columns whose changes begin a version; others are brought up to date in the version that is
            there. Empty = all.
        track_history_except_column_list: All but these.
        bad_records: What to do about changes that cannot be placed: `fail` stops the table, `quarantine` sets them aside. With
            `sequence_by`, rows with NULL in a key or in these columns; with `method: log`, as `bad_records` of `archive`, for one table.
        ignore_null_updates: A NULL in an update leaves the value that is there; in a row that is new it is stored. For changes: tables with
            `method: log`, and tables of changes with `sequence_by`.
        ignore_null_updates_column_list: The same in these columns only.
        ignore_null_updates_except_column_list: The same in all but these.
        metadata_columns: Names of the columns that cdc-ops adds to the table; the optional ones are absent without a name.
        tombstone_retention: How long deleted keys are remembered, so that a change that arrives after the delete does not restore the row.
        zero_dates: What becomes of dates and times that are none: zero, partial and impossible ones of MySQL, infinite ones of Postgres.
            `null` counts and reports them, `string` stores the column as the source's own text, `fail` stops the table.
        nan_values: The same for NaN in a Postgres `numeric(p,s)`.
        decimal_overflow: What becomes of columns of more than 38 digits: the source's own text, or `fail` at the plan.
        max_delete_ratio: Share of a table's rows that one comparison with the source may delete without being asked; ten rows always may.
        max_delete_rows: Rows that it may delete at most; 0 = as many as the ratio allows.
        dropped_tables: What to do when a table that was copied is not at the source any more, or the user may no longer see it: `alert`
            (the first run that notices says so, later ones show it as a state), `fail` (every run of the table fails) or `ignore`. Its
            rows in the lake stay in any case.
        change_feed: Record what changes in the Delta table, for `cdc-ops changes` and other readers of Delta's change data feed. `true`
            switches it on in tables that exist, too; `false` leaves those as they are.
        event_history: Keep every event of a table with `method: log` in a Delta table beside the lake, for `cdc-ops as-of` and
            `cdc-ops replay`. The table's `change_feed` is on then, too.
        event_history_retention: How long events are kept; from before that time the history has the rows as they were then.
        properties: Delta table properties, over the package's defaults.
        maintenance: When OPTIMIZE and VACUUM are due.
    """

    method: Method = Method.QUERY
    keys: tuple[str, ...] = ()
    cursor: tuple[str, ...] = ()
    lookback: timedelta = timedelta(seconds=30)
    null_cursor: NullCursor = NullCursor.IGNORE
    long_transaction_alert: timedelta = timedelta(hours=1)
    columns: tuple[str, ...] = ()
    except_column_list: tuple[str, ...] = ()
    path: str = ""
    parallelism: int = 4
    chunk_rows: int = 20_000_000
    chunk_bytes: int = 16 * 1024**3
    schema_changes: SchemaPolicy = SchemaPolicy.EVOLVE
    renamed: tuple[tuple[str, str], ...] = ()
    apply_as_deletes: str = ""
    apply_as_truncates: str = ""
    previous_key: tuple[str, ...] = ()
    deletes: Deletes = Deletes.HARD
    stored_as_scd_type: int = 1
    sequence_by: tuple[str, ...] = ()
    track_history_column_list: tuple[str, ...] = ()
    track_history_except_column_list: tuple[str, ...] = ()
    bad_records: OnBadRecord = OnBadRecord.FAIL
    ignore_null_updates: bool = False
    ignore_null_updates_column_list: tuple[str, ...] = ()
    ignore_null_updates_except_column_list: tuple[str, ...] = ()
    metadata_columns: MetadataColumns = DEFAULT_COLUMNS
    tombstone_retention: timedelta = timedelta(days=7)
    zero_dates: OnUnstorable = OnUnstorable.NULL
    nan_values: OnUnstorable = OnUnstorable.NULL
    decimal_overflow: OnOverflow = OnOverflow.STRING
    max_delete_ratio: float = 0.1
    max_delete_rows: int = 0
    dropped_tables: DroppedTables = DroppedTables.ALERT
    change_feed: bool = False
    event_history: bool = False
    event_history_retention: timedelta = timedelta(days=365)
    properties: tuple[tuple[str, str], ...] = ()
    maintenance: MaintenancePolicy = field(default_factory=MaintenancePolicy)

    @property
    def deleted_column(self) -> str:
        """The column of the Delta table that marks deleted rows, "" if they are deleted."""
        return self.metadata_columns.deleted if self.deletes is Deletes.SOFT else ""

    @property
    def types(self) -> TypePolicies:
        """The policies for values that no stored type holds."""
        return TypePolicies(
            zero_dates=self.zero_dates,
            nan_values=self.nan_values,
            decimal_overflow=self.decimal_overflow,
            ordering=tuple(name.lower() for name in self.cursor),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRule:
    """One entry of `tables:`: an exact name `shop.orders` or a pattern `shop.orders_*`, with its settings (defaults already merged in).

    Args:
        pattern: Name or shell pattern of `schema.table`.
        settings: What applies to the tables that it matches.
        exclude: True takes matching tables out again.
        origin: `file:line` of the entry, for messages.
    """

    pattern: str
    settings: TableSettings
    exclude: bool = False
    origin: str = ""

    @property
    def is_pattern(self) -> bool:
        """True if the entry is a wildcard and not a name."""
        return any(sign in self.pattern for sign in "*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """One pipeline file, complete.

    Args:
        name: Unique; part of the transaction id in every Delta commit, so renaming it starts anew.
        source: Where rows come from.
        target: Where they go.
        tables: Entries in file order; for a table the exact name wins over patterns, an earlier pattern over a later one.
        schedule: Cron expression in UTC, or "" for manual runs only.
        reconcile_schedule: Cron expression in UTC on which all tables are compared with the source by checksums, in a DAG of its own; "" =
            on demand only.
        start_date: First interval of the schedule, UTC.
        execution: Separate Spark applications per step, or one.
        tables_per_job: Tables that share one Spark application.
        archive: Where the change events of tables with `method: log` are.
        spark: How Spark is started.
        retries: Airflow retries of a step after a retryable error.
        lease_wait: How long a run waits for another one that holds a table.
        run_retention: How long the ledger keeps finished runs and operations.
        description, owner, tags: Shown in Airflow.
        origin: Path of the file.
    """

    name: str
    source: SourceConfig
    target: TargetConfig
    tables: tuple[TableRule, ...]
    schedule: str = ""
    reconcile_schedule: str = ""
    start_date: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    execution: Execution = Execution.SEPARATE
    tables_per_job: int = 20
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)
    spark: SparkConfig = field(default_factory=SparkConfig)
    retries: int = 2
    lease_wait: timedelta = timedelta(minutes=30)
    run_retention: timedelta = timedelta(days=90)
    description: str = ""
    owner: str = "cdc-ops"
    tags: tuple[str, ...] = ()
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """One table of a pipeline: its name, its settings, where it lands."""

    pipeline: str
    table: TableName
    settings: TableSettings
    path: str


def known_tables(pipeline: Pipeline) -> KnownTables:
    """Returns which tables the pipeline file speaks of, and what is done about archived records of others."""
    return KnownTables(entries=tuple(rule.pattern for rule in pipeline.tables), policy=pipeline.archive.unknown_tables)


def current_settings(pipeline: Pipeline, table: TableName) -> TableSettings | None:
    """Returns what the pipeline says of a table now, None if no entry is about it any more."""
    rules = sorted((rule for rule in pipeline.tables if not rule.exclude), key=lambda rule: rule.is_pattern)
    return next((rule.settings for rule in rules if matching_names(rule, {str(table): table})), None)


def table_path(pipeline: Pipeline, table: TableName, settings: TableSettings) -> str:
    """Returns the path of a table's Delta folder."""
    return settings.path or f"{pipeline.target.root.rstrip('/')}/{table.folder}"


def reconcile_name(pipeline: str) -> str:
    """Returns the name under which a pipeline's tables are reconciled on a schedule of their own; no other pipeline may have it."""
    return f"{pipeline}_reconcile"


def matching_names(rule: TableRule, names: dict[str, TableName]) -> list[str]:
    """Returns the names that an entry means."""
    if not rule.is_pattern:
        return [rule.pattern] if rule.pattern in names else []
    return [name for name in names if fnmatch.fnmatchcase(name, rule.pattern)]
