"""Pipelines as values: the YAML files after cdc_ops.config has read and checked them and filled in defaults."""

import enum
import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final, Protocol

from cdc_ops.core.pipeline.airflow_settings import AirflowSettings
from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.pipeline.grouped import Grouped
from cdc_ops.core.pipeline.receivers import Receiver
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.pipeline.tables.unknown_tables import KnownTables
from cdc_ops.core.run_cost import NO_LIMIT, MaxCost
from cdc_ops.core.schema.declared_tables import DeclaredTable, TypeDialect
from cdc_ops.core.schema.tables import TableName

ARCHIVE: Final = "archive"
"""In `schedule` and `start_on`: new files in the archive."""


class SourceKind(enum.StrEnum):
    """The kind of a source."""

    MYSQL = "mysql"
    MARIADB = "mariadb"
    POSTGRES = "postgres"
    NONE = "none"
    """No server: the tables follow an archive, and the pipeline file declares their columns."""


class Reader(enum.StrEnum):
    """How Spark's tasks read rows of a source."""

    JDBC = "jdbc"
    """By Spark's JDBC reader."""
    NATIVE = "native"
    """By Python, from the server's own protocol, decoded by compiled functions; a run fails where that is not possible."""
    AUTO = "auto"
    """`native` where that is possible, else `jdbc`; the run says why."""


class Execution(enum.StrEnum):
    """How a run starts its Spark steps."""

    FUSED = "fused"
    """One Spark application extracts and merges, in one Airflow task."""
    SEPARATE = "separate"
    """extract and merge are separate Airflow tasks, each with a Spark application and retries of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """The source of the rows.

    Args:
        kind: Kind of the database server. `none` = there is no server to ask: the tables are loaded from the archive, and `tables` declares
            their columns.
        connection: Airflow connection id; outside Airflow, the variable `CDC_OPS_CONN_<ID>` holds the URL. Required unless `kind` is
            `none`.
        snapshot_connection: Connection id of a replica that serves full reads (first loads, full resyncs, comparisons), to take load off
            the source. Each read waits until the replica has applied what the source had committed. "" = read the source itself. MySQL and
            MariaDB only.
        writers: Connection ids of the other nodes that write the same tables (Galera, Group Replication with several primaries), each
            reached directly. Windows then end below what is open on any node. MySQL and MariaDB only.
        replication_lag: For a source that does not show who else writes its rows (a secondary of Group Replication, a reader of Aurora, a
            subscriber of logical replication, a proxy): the longest time after which a row that was stamped anywhere can be read here.
            Windows stay that far behind. 0 = such a source is refused.
        time_zone: Time zone in which the application writes DATETIME cursors (values without a zone): an IANA name or an offset. "" = the
            server's global time zone.
        jdbc_driver: `mariadb` (MariaDB Connector/J, streams rows; also for MySQL) or `mysql` (MySQL Connector/J).
        reader: `jdbc` reads rows by Spark's JDBC reader, `native` by Python with compiled functions from the server's own protocol; both
            give the same values. `native` needs Spark's tasks on the driver's machine. `auto` takes it where it
            is possible, else `jdbc`, and the run says why (docs/run.md#two-readers).
        max_threads_running: Chunks of a snapshot wait while the server runs more statements than this: `Threads_running` of MySQL and
            MariaDB, active backends of Postgres. 0 = never wait.
        max_load_wait: How long a chunk waits for `max_threads_running` before its table fails; the next run tries again.
        max_connections: Largest number of JDBC connections that one Spark application reads with at the same time, over all its tables; it
            also caps `parallelism`. 0 = no limit.
        dialect: With `kind: none`: the database whose types `tables` uses. Events of Debezium, Maxwell, Canal and DTS need that of their
            source.
        tables: With `kind: none`: the columns of each table, in order, as `name: type`; `not null` and `primary key` follow the type as in
            SQL.
    """

    kind: SourceKind
    connection: str = ""
    time_zone: str = ""
    jdbc_driver: str = "mariadb"
    reader: Reader = Reader.JDBC
    max_threads_running: int = 0
    max_load_wait: timedelta = timedelta(minutes=30)
    max_connections: int = 0
    snapshot_connection: str = ""
    writers: tuple[str, ...] = ()
    replication_lag: timedelta = timedelta(0)
    dialect: TypeDialect = TypeDialect.DELTA
    tables: tuple[DeclaredTable, ...] = ()

    @property
    def is_declared(self) -> bool:
        """True if there is no server: the pipeline file declares the tables."""
        return self.kind is SourceKind.NONE

    @property
    def replica(self) -> "SourceConfig | None":
        """The configuration of the replica from which whole tables are read, None if there is none."""
        return replace(self, connection=self.snapshot_connection, snapshot_connection="", writers=()) if self.snapshot_connection else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetConfig:
    """The location of the Delta tables.

    Args:
        root: URI or absolute path of the lake. A table's path is `<root>/<schema>/<table>`, unless the table sets `path`. Characters that a
            folder name cannot have, or that Spark reads as a pattern, are escaped like `%2F`.
        staging: URI or absolute path for temporary data: extracted rows, manifests, job specs and results. It must not be the same place as
            `root`.
        catalog: Name of each table in Spark's catalog, as `{schema}.{table}` or `catalog.{schema}.{table}`. A run that commits registers
            the tables that are not there yet; which catalog it is, `spark.conf` says (docs/catalog.md). "" = none is registered.
    """

    root: str
    staging: str
    catalog: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConfig:
    """The Spark settings.

    Args:
        connection: Airflow connection id for spark-submit. It must exist: without it, Airflow's Spark hook uses YARN and does not say so.
        conf: Spark configuration, never secrets. It overrides the defaults of cdc-ops, except the settings that values and commits depend
            on (docs/install.md#sparks-settings).
        driver_memory: Memory of the Spark driver, e.g. `2g`.
        jars: Folder of the jars. "" = the folder in `CDC_OPS_JARS`; without it, Spark resolves the jars by their coordinates at every
            start.
        connect: Address of a Spark Connect server that runs all the time: `sc://127.0.0.1:15002`, or `sc://host:443/;use_ssl=true` on
            another machine. Runs then start no JVM. "" = each run starts Spark itself (docs/install.md#a-spark-server-that-lives-on).
    """

    connection: str = "spark_default"
    conf: tuple[tuple[str, str], ...] = ()
    driver_memory: str = "2g"
    jars: str = ""
    connect: str = ""


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
        """True if the entry is a pattern, not a name."""
        return any(sign in self.pattern for sign in "*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineInfo:
    """What Airflow shows of a pipeline.

    Args:
        description, owner, tags: Shown in Airflow.
    """

    description: str = ""
    owner: str = "cdc-ops"
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What starts runs of a pipeline besides its schedule, and how they are carried out.

    Args:
        start_on: What else starts a run, alone or beside a schedule: assets of other DAGs by name or URI, such as
            `cdc/crm/crm.customers`; `archive` means new files of the archive. Any of them starts one.
        execution: `fused` runs extract and merge in one Spark application. `separate` runs them in two, each retried alone: the start of
            a JVM, and what it has to warm up for, is paid twice. A retry does not read again what has landed, either way.
        tables_per_job: Largest number of tables that share one Spark application.
        lease_wait: How long a run waits for another run that holds the table. In Airflow `plan` waits without a worker slot, in the state
            `up_for_reschedule`.
        run_retention: How long the ledger keeps finished runs and operations.
        max_cost: What all tables of one run may begin together, by their estimates. A run above it is refused before anything is read,
            unless somebody accepts its cost (docs/run.md#what-a-run-may-cost).
    """

    start_on: tuple[str, ...] = ()
    execution: Execution = Execution.FUSED
    tables_per_job: int = 20
    lease_wait: timedelta = timedelta(minutes=30)
    run_retention: timedelta = timedelta(days=90)
    max_cost: MaxCost = NO_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline(Grouped):
    """One pipeline file, complete.

    A pipeline file writes the fields of `info` and `runs` beside the others.

    Args:
        name: Unique name. It is part of the transaction id in every Delta commit, so a renamed pipeline is refused at the tables of its old
            name until `cdc-ops adopt` takes them over.
        source: The source of the rows.
        target: Where they go.
        tables: Entries in file order; for a table the exact name wins over patterns, an earlier pattern over a later one.
        info: What Airflow shows of it.
        schedule: Cron expression in `airflow.time_zone`, by default UTC; or `archive`: files that land in the archive start the runs
            (docs/archives.md#start-when-files-land). "" = manual runs only, and those of `start_on`.
        reconcile_schedule: Cron expression, in the same zone, for a second DAG, which compares all tables with the source by checksums and
            corrects what differs. "" = on demand only.
        start_date: Start of the schedule's first interval, UTC.
        runs: How its runs are carried out.
        archive: Where the change events of tables with `method: log` are.
        spark: The Spark settings.
        notify: Who is told when something is wrong, by name.
        airflow: How Airflow runs it.
        origin: Path of the file.
    """

    JSON_INLINE: ClassVar[tuple[str, ...]] = ("info", "runs")

    name: str
    source: SourceConfig
    target: TargetConfig
    tables: tuple[TableRule, ...]
    info: PipelineInfo = field(default_factory=PipelineInfo)
    schedule: str = ""
    reconcile_schedule: str = ""
    start_date: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    runs: RunSettings = field(default_factory=RunSettings)
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)
    spark: SparkConfig = field(default_factory=SparkConfig)
    notify: tuple[Receiver, ...] = ()
    airflow: AirflowSettings = field(default_factory=AirflowSettings)
    origin: str = ""

    @property
    def cron(self) -> str:
        """The times at which runs start, "" if only assets, files or people start them."""
        return "" if self.schedule == ARCHIVE else self.schedule

    @property
    def watches_archive(self) -> bool:
        """True if new files in the archive start runs."""
        return ARCHIVE in (self.schedule, *self.runs.start_on)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """A table of a pipeline: name, settings and path."""

    pipeline: str
    table: TableName
    settings: TableSettings
    path: str


def known_tables(pipeline: Pipeline) -> KnownTables:
    """Returns the tables that the pipeline file names, and its policy for archived records of other tables."""
    return KnownTables(entries=tuple(rule.pattern for rule in pipeline.tables), policy=pipeline.archive.unknown_tables)


def current_settings(pipeline: Pipeline, table: TableName) -> TableSettings | None:
    """Returns the current settings of a table, None if no entry matches it any more."""
    rules = sorted((rule for rule in pipeline.tables if not rule.exclude), key=lambda rule: rule.is_pattern)
    return next((rule.settings for rule in rules if matching_names(rule, {str(table): table})), None)


def table_path(pipeline: Pipeline, table: TableName, settings: TableSettings) -> str:
    """Returns the path of a table's Delta folder."""
    return settings.storage.path or f"{pipeline.target.root.rstrip('/')}/{table.folder}"


def reconcile_name(pipeline: str) -> str:
    """Returns the name of the DAG that reconciles a pipeline's tables; no other pipeline may have it."""
    return f"{pipeline}_reconcile"


class Entry(Protocol):
    """An entry of `tables:`, as far as it says which tables it is about."""

    @property
    def pattern(self) -> str:
        """Name or shell pattern of `schema.table`."""

    @property
    def exclude(self) -> bool:
        """True if it takes tables out again."""

    @property
    def is_pattern(self) -> bool:
        """True if it is a pattern, not a name."""


def matching_names(rule: Entry, names: Mapping[str, TableName]) -> list[str]:
    """Returns the names that an entry matches."""
    if not rule.is_pattern:
        return [rule.pattern] if rule.pattern in names else []
    return [name for name in names if fnmatch.fnmatchcase(name, rule.pattern)]
