"""Pipelines as values: what the YAML files mean once they are read, checked and filled with defaults (cdc_ops.config does that)."""

import enum
import fnmatch
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.pipeline.unknown_tables import KnownTables
from cdc_ops.core.schema.declared_tables import DeclaredTable, TypeDialect
from cdc_ops.core.schema.tables import TableName


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
    return settings.upkeep.path or f"{pipeline.target.root.rstrip('/')}/{table.folder}"


def reconcile_name(pipeline: str) -> str:
    """Returns the name under which a pipeline's tables are reconciled on a schedule of their own; no other pipeline may have it."""
    return f"{pipeline}_reconcile"


def matching_names(rule: TableRule, names: dict[str, TableName]) -> list[str]:
    """Returns the names that an entry means."""
    if not rule.is_pattern:
        return [rule.pattern] if rule.pattern in names else []
    return [name for name in names if fnmatch.fnmatchcase(name, rule.pattern)]
