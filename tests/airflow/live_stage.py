"""The stage of `test_live_airflow.py`: a whole Airflow, a MariaDB, a Spark Connect server, and pipelines of every kind."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cdc_ops.airflow.alerts.dag import ALERTS_DAG
from cdc_ops.airflow.dag_ids import reconcile_dag_id
from cdc_ops.core.pipeline.pipeline import SparkConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.connect_server import ConnectServer
from cdc_ops.dev.servers import MariaDBServer, PostgresServer
from cdc_ops.lake.spark.session import close_session, open_session
from cdc_ops.state.sql import open_reader
from tests.airflow.conftest import ROOT
from tests.airflow.live_airflow import OPERATOR, LiveAirflow, LiveRun, otel_settings
from tests.conftest import SMALL_SERVER
from tests.declared_world import MAXWELL
from tests.receivers import Collector, Hook, metrics_collector, webhook

FILE = """
pipeline: {name}
source: {{kind: mariadb, connection: live_db}}
target: {{root: {folder}/lake, staging: {folder}/staging}}
spark: {{connect: "{spark}"}}
airflow: {{tasks: {{retries: 1, retry_delay: 100ms}}{airflow}}}
defaults: {{{defaults}}}
tables: {{{name}.orders: {{}}}}
{more}
"""
CLOCK, HAND, KILLED, STALE, ASKING, HURRIED, CLICKED, LANDED, DECLARED = (
    *("clock", "hand", "killed", "stale"),
    *("asking", "hurried", "clicked", "landed", "declared"),
)
RECONCILE = reconcile_dag_id(HAND)
QUERY = "cursor: updated_at, lookback: 0s"
PIPELINES = {
    CLOCK: (QUERY, "", 'schedule: "* * * * *"'),
    HAND: (QUERY, "", 'schedule: "@daily"\nreconcile_schedule: "0 3 1 1 *"'),
    KILLED: (QUERY, "", ""),
    STALE: (f"{QUERY}, max_lag: 1h", "", "notify: {{on_call: {{webhook: on_call_hook, events: [lag]}}}}"),
    ASKING: (QUERY, f", approve: {{decisions: [deletes], users: [{OPERATOR}], timeout: 1h}}", ""),
    HURRIED: (QUERY, f", approve: {{decisions: [deletes], users: [{OPERATOR}], timeout: 1m}}", ""),
    CLICKED: (QUERY, f", approve: {{decisions: [deletes], users: [{OPERATOR}], timeout: 1h}}", ""),
    LANDED: (
        "method: log",
        ", watch_interval: 1s",
        "schedule: archive\n"
        "archive: {{url: {folder}/binlogs, layout: binlog, format: mysql-binlog, min_file_age: 0s, initial_load: snapshot}}",
    ),
}
"""What each adds to the defaults, to the block `airflow`, and to the file."""
WITHOUT_DATABASE = f"""
pipeline: {DECLARED}
schedule: "@daily"
start_date: {datetime.now(UTC):%F}
source: {{kind: none, dialect: mysql, tables: {{{DECLARED}.orders: {{id: int primary key, name: varchar(20)}}}}}}
archive: {{url: "<folder>/events", {MAXWELL}, min_file_age: 0s}}
target: {{root: "<folder>/lake", staging: "<folder>/staging"}}
spark: {{connect: "<spark>"}}
defaults: {{method: log, event_history: true}}
tables: {{{DECLARED}.orders: {{}}}}
"""
EVENTS = "".join(
    f'{{"database":"{DECLARED}","table":"orders","type":"insert","ts":1709283600,"xid":{number},"position":"mysql-bin.000003:{number}00",'
    f'"server_id":1,"thread_id":12,"commit":true,"data":{{"id":{number},"name":"{name}"}}}}\n'
    for number, name in ((1, "one"), (2, "two"))
)
ORDERS = (
    "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20), n INT, updated_at DATETIME(6) NOT NULL, KEY (updated_at))",
    "INSERT INTO orders SELECT seq, CONCAT('n', seq), seq * 7, NOW(6) - INTERVAL seq MINUTE FROM seq_1_to_100",
)


@dataclass(frozen=True)
class Stage:
    """An Airflow, the servers that its pipelines use, and the folder that has their lake."""

    airflow: LiveAirflow
    server: MariaDBServer
    spark: str
    folder: Path
    hook: Hook
    collector: Collector

    def sql(self, name: str, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(*statements, database=name)

    def is_equal(self, name: str) -> bool:
        """True if the lake has the rows of the source, and there are some."""
        source = self.sql(name, "SELECT id, name, n, updated_at FROM orders ORDER BY id")
        lake = self.lake(name, "id", "name", "n", "updated_at")
        return bool(source) and lake == [(number, text, n, at.replace(tzinfo=None)) for number, text, n, at in source]

    def lake(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        """The rows of the Delta table by the first of the columns."""
        session = open_session("test", SparkConfig(connect=self.spark))
        try:
            rows = session.read.format("delta").load(f"{self.folder}/lake/{name}/orders")
            return [tuple(row) for row in rows.select(*columns).orderBy(columns[0]).collect()]
        finally:
            close_session(session)

    def statuses(self, run: LiveRun) -> list[str]:
        """How the ledger says that the table fared in a run."""
        with closing(open_reader(f"sqlite:///{self.folder}/ledger.db")) as ledger:
            return [line.status.value for line in ledger.table_runs(run.dag_id.removeprefix("cdc_").partition(".")[0], run_id=run.run_id)]

    def errors(self, run: LiveRun) -> str:
        """What the ledger and Airflow say of the failures of a run, for messages of tests."""
        with closing(open_reader(f"sqlite:///{self.folder}/ledger.db")) as ledger:
            lines = ledger.table_runs(run.dag_id.removeprefix("cdc_").partition(".")[0], run_id=run.run_id)
        tasks = [f"{task}: {state}" for task, (state, _) in self.airflow.tries(run).items()]
        return "\n".join([*tasks, *(f"{line.status} {line.messages.message} {line.messages.alert}" for line in lines)])

    def watermark(self, name: str) -> str:
        with closing(open_reader(f"sqlite:///{self.folder}/ledger.db")) as ledger:
            return str(ledger.table_state(name, TableName(schema=name, name="orders")).progress.watermark)

    def answers(self, name: str) -> list[tuple[str, str]]:
        """How the questions of a pipeline were answered, by the ledger, the oldest first, and by whom."""
        with closing(open_reader(f"sqlite:///{self.folder}/ledger.db")) as ledger:
            return [(one.status.value, one.who) for one in reversed(ledger.approvals(name))]

    def done(self, name: str, conf: dict[str, Any], dag_id: str = "") -> LiveRun:
        """Triggers a run and waits for its end."""
        dag_id = dag_id or f"cdc_{name}"
        return self.airflow.ended(dag_id, self.airflow.trigger(dag_id, conf))


@contextmanager
def live_stage(folder: Path, mariadb: MariaDBServer, postgres: PostgresServer, jar_folder: Path) -> Iterator[Stage]:
    """Starts all of it, and stops it."""
    for name in ("dags", "pipelines", "home"):
        (folder / name).mkdir()
    shutil.copy(ROOT / "dags" / "cdc_pipelines.py", folder / "dags")
    with ConnectServer(folder / "spark", jars=jar_folder, conf=SMALL_SERVER) as spark, webhook() as hook, metrics_collector() as collector:
        (folder / "binlogs").mkdir()
        for name, (defaults, block, more) in PIPELINES.items():
            mariadb.create_database(name)
            mariadb.execute("DROP TABLE IF EXISTS orders", *ORDERS, database=name)
            text = FILE.format(name=name, folder=folder, spark=spark.url, defaults=defaults, airflow=block, more=more.format(folder=folder))
            (folder / "pipelines" / f"{name}.yaml").write_text(text)
        events = folder / "events" / "t" / "partition=0" / "t+0+0000000000.json"
        events.parent.mkdir(parents=True)
        events.write_text(EVENTS)
        declared = WITHOUT_DATABASE.replace("<folder>", str(folder)).replace("<spark>", spark.url)
        (folder / "pipelines" / f"{DECLARED}.yaml").write_text(declared)
        settings = {
            "CDC_OPS_PIPELINES": str(folder / "pipelines"),
            "CDC_OPS_LEDGER": f"sqlite:///{folder}/ledger.db",
            "CDC_OPS_JARS": str(jar_folder),
            "AIRFLOW_CONN_LIVE_DB": json.dumps(
                {"conn_type": "mysql", "host": mariadb.host, "port": mariadb.port, "login": mariadb.user, "password": mariadb.password}
            ),
            "AIRFLOW_CONN_ON_CALL_HOOK": hook.url,
            **otel_settings(collector.url),
        }
        postgres.create_database("airflow")
        database = postgres.url("airflow").replace("postgresql://", "postgresql+psycopg://")
        with LiveAirflow(folder / "home", folder / "dags", database, settings) as airflow:
            wanted = {ALERTS_DAG, RECONCILE, *(f"cdc_{name}" for name in (*PIPELINES, DECLARED))}
            airflow.wait_until(lambda: wanted <= {dag["dag_id"] for dag in airflow.call("GET", "/dags")["dags"]}, f"the DAGs {wanted}")
            airflow.pause(ALERTS_DAG, True)  # its runs are triggered here
            yield Stage(airflow=airflow, server=mariadb, spark=spark.url, folder=folder, hook=hook, collector=collector)
