"""A source database, a ledger and a lake of one test's own, and the verbs on them: what end-to-end tests are written in."""

import itertools
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cdc_ops.alerts.conditions import read_conditions
from cdc_ops.core.operation.job import JobSpec, StepResult
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableRule, TargetConfig
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import DatabaseServer, PostgresServer
from cdc_ops.jobs import execute
from cdc_ops.sources.base import Source, open_source
from cdc_ops.state.sql import open_reader, open_store
from cdc_ops.steps.context import Context
from cdc_ops.steps.runs.run import RunReport, run_pipeline
from tests.commits import commits
from tests.lake_rows import table_rows
from tests.stores import place

_numbers = itertools.count(1)
ORDERS = """CREATE TABLE orders (
    id BIGINT PRIMARY KEY AUTO_INCREMENT,
    customer VARCHAR(40) NOT NULL,
    amount DECIMAL(12,2) NOT NULL,
    updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6),
    KEY (updated_at, id))"""


def request(**parts: Any) -> RunRequest:
    """A request with a run id of its own."""
    identity = f"test:{uuid.uuid4().hex[:12]}"
    return RunRequest(**{"run_id": identity, "trigger": "test", "holder": identity, **parts}).checked()


@dataclass
class World:
    """One database `shop_N` on a real server, one SQLite ledger and one lake folder.

    Args:
        server: The server; its time zone is taken as it is.
        folder: Where ledger, lake and staging go.
        spark: The shared session; jobs run in sessions of their own below it.
        settings: Settings of all tables unless a rule says otherwise.
        replica: A replica of the server that whole tables are read from.
    """

    server: DatabaseServer
    folder: Path
    spark: SparkSession
    settings: TableSettings = field(
        default_factory=lambda: TableSettings.of(cursor=("updated_at", "id"), lookback=timedelta(0), parallelism=2)
    )
    database: str = field(default_factory=lambda: f"shop_{next(_numbers)}")
    jobs: int = 0
    replica: DatabaseServer | None = None

    def __post_init__(self) -> None:
        self.server.create_database(self.database)
        postgres = isinstance(self.server, PostgresServer)
        self.schema = "public" if postgres else self.database
        self.pipeline = Pipeline.of(
            name="shop",
            source=SourceConfig(
                kind=SourceKind(self.server.name.lower()), connection="shop_db", snapshot_connection="shop_replica" if self.replica else ""
            ),
            target=TargetConfig(root=str(place(self.folder) / "lake"), staging=str(place(self.folder) / "staging")),
            tables=(TableRule(pattern=f"{self.schema}.*", settings=self.settings),),
            lease_wait=timedelta(seconds=0),
        )
        scheme = "postgresql" if postgres else "mysql"
        self.url, self.replica_url = (
            ConnectionUrl.from_parts(scheme, one.host, one.port, one.user, one.password, self.database).render() if one else ""
            for one in (self.server, self.replica)
        )
        self.ledger = f"sqlite:///{self.folder / 'ledger.db'}"

    def sql(self, *statements: str) -> Any:
        """Runs statements on the source, each committed, and returns the rows of the last."""
        return self.server.execute(*statements, database=self.database)

    def name(self, table: str) -> TableName:
        """The full name of a table of this world."""
        return TableName(schema=self.schema, name=table)

    def path(self, table: str) -> str:
        """The folder of a table's Delta table."""
        return f"{self.pipeline.target.root}/{self.schema}/{table}"

    def wrong(self) -> list[AlertKind]:
        """Returns the kinds of what is wrong by the ledger, as `cdc-ops alerts` says it."""
        with open_reader(self.ledger) as reader:
            return [condition.subject.kind for condition in read_conditions(reader, self.pipeline)]

    def context(self) -> Context:
        """A fresh context on the ledger, as another process would have it."""
        return Context(pipeline=self.pipeline, store=open_store(self.ledger), connect=self._connect)

    def configure(self, **changes: Any) -> None:
        """Changes the settings of all tables."""
        self.settings = self.settings.changed(**changes)
        self.pipeline = replace(self.pipeline, tables=(TableRule(pattern=f"{self.schema}.*", settings=self.settings),))

    def run(self, *, execute_with: Callable[[JobSpec], StepResult] | None = None, **parts: Any) -> RunReport:
        """One whole run in this process."""
        context, source = self.context(), self._connect(self.pipeline.source)
        try:
            return run_pipeline(context, source, request(**parts), execute_with or self.execute)
        finally:
            source.close()
            context.store.close()

    def resync(self, mode: ResyncMode, **parts: Any) -> RunReport:
        """One resync."""
        return self.run(kind=RunKind.RESYNC, mode=mode, **parts)

    def execute(self, job: JobSpec) -> StepResult:
        """Runs a job in the shared session, and counts it."""
        self.jobs += 1
        return execute(self.spark, job, self.url, self.replica_url)

    def state(self, table: str) -> TableState:
        """The ledger's state of a table."""
        store = open_store(self.ledger)
        try:
            return store.table_state(self.pipeline.name, self.name(table))
        finally:
            store.close()

    def lake(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """The rows of the Delta table, sorted."""
        return sorted(table_rows(self.spark, self.path(table), columns))

    def source(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """The rows at the source, sorted."""
        return sorted(tuple(row) for row in self.sql(f"SELECT {columns} FROM {table}"))

    def data_commits(self, table: str) -> list[int]:
        """The op_seq of every commit of ours in the Delta log, oldest first."""
        from cdc_ops.core.operation.protocol.commit_json import parse_record

        records = (parse_record(commit["userMetadata"]) for commit in commits(self.path(table)) if commit["userMetadata"])
        return [record.op_seq for record in records if record is not None]

    def _connect(self, config: SourceConfig) -> Source:
        return open_source(config, self.url)
