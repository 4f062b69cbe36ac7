"""A pipeline `shop` with a real MariaDB, a ledger and Airflow runs by `dag.test()`; Spark is either real or the stand-in."""

import gc
import json
import os
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.state.base import StateReader
from cdc_ops.state.sql import open_reader

SALES, LINES = "shop.sales", "shop.order_lines"
FILE = """
pipeline: shop
schedule: "*/10 * * * *"
source: {{kind: mariadb, connection: shop_db}}
target: {{root: {folder}/lake, staging: {folder}/staging}}
spark:
  driver_memory: 1g
  conf:
    spark.sql.shuffle.partitions: "2"
    spark.databricks.delta.snapshotPartitions: "2"
    spark.driver.extraJavaOptions: "-XX:TieredStopAtLevel=1"  # these JVMs end before better machine code would have paid
execution: {execution}
airflow: {{tasks: {{retries: {retries}, retry_delay: 100ms}}}}
lease_wait: 0s
defaults: {{cursor: updated_at, lookback: 0s}}
tables:
  shop.sales: {{}}
  shop.order_*: {{}}
"""
ANALYZE = "ANALYZE TABLE sales, order_lines"
"""Makes the server's estimates of rows exact: the server renews them by itself at any time, in the middle of a load too."""
COLUMNS = "updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at)"


@dataclass(frozen=True)
class Run:
    """One finished run."""

    id: str
    state: str
    tasks: dict[str, str]
    labels: dict[str, str | None]
    tries: dict[str, int]


@dataclass
class Stage:
    """See the module."""

    server: MariaDBServer
    folder: Path
    patch: pytest.MonkeyPatch
    numbers: list[int] = field(default_factory=list)

    def set_up(self, *, execution: str = "separate", retries: int = 0) -> None:
        self.server.create_database("shop")
        self.sql(
            "DROP TABLE IF EXISTS sales",
            "DROP TABLE IF EXISTS order_lines",
            f"CREATE TABLE sales (id INT PRIMARY KEY, name VARCHAR(20), amount DECIMAL(10,2), {COLUMNS})",
            f"CREATE TABLE order_lines (id INT PRIMARY KEY, n INT, {COLUMNS})",
            "INSERT INTO sales SELECT seq, CONCAT('n', seq), seq / 7, NOW(6) - INTERVAL seq MINUTE FROM seq_1_to_100",
            "INSERT INTO order_lines SELECT seq, seq, NOW(6) - INTERVAL seq MINUTE FROM seq_1_to_50",
            ANALYZE,
        )
        pipelines = self.folder / "pipelines"
        pipelines.mkdir(exist_ok=True)
        (pipelines / "shop.yaml").write_text(FILE.format(folder=self.folder, execution=execution, retries=retries))
        self.patch.setenv("CDC_OPS_PIPELINES", str(pipelines))
        self.patch.setenv("CDC_OPS_LEDGER", f"sqlite:///{self.folder}/ledger.db")
        self.connection("SHOP_DB", conn_type="mysql", host=self.server.host, port=self.server.port, login=self.server.user, schema="shop")
        self.connection("SPARK_DEFAULT", conn_type="spark", host="local[2]")

    def use_stub(self) -> None:
        """Puts the stand-in on the PATH under a name that the hook allows."""
        program = self.folder / "bin" / "spark2-submit"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("stub_spark.py")} "$@"\n')
        program.chmod(0o755)
        self.patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        self.patch.setenv("STUB_PLAN", str(self.folder / "plan.json"))
        self.patch.setenv("STUB_CALLS", str(self.folder / "calls.jsonl"))
        self.connection("SPARK_DEFAULT", conn_type="spark", host="local[2]", extra={"spark-binary": "spark2-submit"})
        self.plan({})

    def plan(self, what: dict[str, Any]) -> None:
        """Says what shall go wrong in the stand-in from now on."""
        (self.folder / "plan.json").write_text(json.dumps(what))

    def calls(self) -> list[dict[str, Any]]:
        """Returns the stand-in's starts since the last call of this."""
        path = self.folder / "calls.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    def connection(self, name: str, **parts: Any) -> None:
        """Defines an Airflow connection in the environment; the source's gets the real password unless told otherwise."""
        if parts.get("conn_type") == "mysql":
            parts = {"password": self.server.password, **parts}
        self.patch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(parts))

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(*statements, database="shop")

    def change(self) -> None:
        """Changes a row in each table."""
        self.sql("UPDATE sales SET amount = amount + 1 WHERE id = 7", "UPDATE order_lines SET n = n + 1 WHERE id = 7")

    def run(self, conf: dict[str, Any] | None = None, **options: Any) -> Run:
        """Runs the pipeline's DAG once; the options are those of `dag.test()`."""
        from airflow.dag_processing.dagbag import DagBag

        bag = DagBag(dag_folder=os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
        assert not bag.import_errors
        run = bag.dags["cdc_shop"].test(run_conf=conf, **options)
        close_log_pipes()
        tasks = {task.task_id.removeprefix("tables."): str(task.state) for task in run.get_task_instances()}
        labels = {task.task_id.removeprefix("tables."): task.rendered_map_index for task in run.get_task_instances()}
        tries = {task.task_id.removeprefix("tables."): task.try_number for task in run.get_task_instances()}
        return Run(id=run.run_id, state=str(run.state), tasks=tasks, labels=labels, tries=tries)

    @property
    def ledger(self) -> StateReader:
        return open_reader(f"sqlite:///{self.folder}/ledger.db")

    def watermarks(self) -> dict[str, str]:
        return {name: str(self.ledger.table_state("shop", TableName.parse(name)).progress.watermark) for name in (SALES, LINES)}

    def statuses(self, run: Run) -> dict[str, str]:
        return {str(line.table): line.status.value for line in self.ledger.table_runs("shop", run_id=run.id)}


def close_log_pipes() -> None:
    """Closes the log pipes that `dag.test()` leaves to the garbage collector.

    What is left then, Airflow's modules above all, is never over: frozen, it is not looked at again by each collection, for half a second.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
        gc.freeze()


def handed_on(run: Run) -> list[tuple[str, str, Any]]:
    """What the tasks of a run have handed on by XCom, as it is stored: task, key and value."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        rows = session.scalars(select(XComModel).where(XComModel.run_id == run.id)).all()
        return [(row.task_id.removeprefix("tables."), row.key, XComModel.deserialize_value(row)) for row in rows]


def asset_events(run: Run) -> dict[str, dict[str, Any]]:
    """The asset events of a run: name and extra."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        events = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == run.id)).all()
        return {event.asset.name: dict(event.extra) for event in events}
