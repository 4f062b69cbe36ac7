"""A real cluster: a master, two workers and their executors are processes; lake and staging area on S3, the ledger on Postgres.

The jobs run in an application of their own on that cluster, as those of `cdc-ops run` and of Airflow do. Its executors find no Python,
unless a test gives it to them. What is killed is killed while tasks run on it: executors are stopped first, so that no task can end before
the kill.
"""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from cdc_ops.core import json_codec
from cdc_ops.core.operation.job import JobSpec, Step, StepResult
from cdc_ops.core.operation.run_request import AskedComparison, RunKind
from cdc_ops.core.pipeline.pipeline import Reader, TargetConfig
from cdc_ops.core.reconcile.diff import CompareLevel
from cdc_ops.dev.object_store import LOGIN, ObjectStore
from cdc_ops.dev.processes import wait_until
from cdc_ops.dev.servers import MariaDBServer, PostgresServer
from cdc_ops.dev.spark_cluster import SparkCluster
from cdc_ops.errors import EnvironmentSetupError
from cdc_ops.lake.spark.conf import store_conf
from cdc_ops.lake.spark.jars import jar_list
from cdc_ops.lake.spark.server import spark_home
from cdc_ops.steps.runs.run import RunReport
from tests.conftest import ROOT
from tests.integration.test_log_method import ITEMS, change, log_world
from tests.world import ORDERS, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.local_store
PATIENCE = 180.0
NO_SESSION = cast("SparkSession", None)
NO_PYTHON = "/nowhere/python3"
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=128m -XX:MetaspaceSize=256m -Xms700m -Xmn300m"
BLANKS = 250_000
"""After each event: what ten of them weigh is more than the driver reads itself."""
DRIVER_READS = "this process reads all files, because Spark's executors cannot"
FILL = "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq / 7 FROM seq_1_to_300"


@dataclass
class Application:
    """A process with a session on the cluster."""

    cluster: SparkCluster
    environment: dict[str, str]
    conf: dict[str, str]
    folder: Path
    kill: Callable[[dict[str, Any]], bool] | None = None
    killed: list[str] = field(default_factory=list)
    process: subprocess.Popen[str] | None = None

    def ask(self, command: str, given: Any) -> Any:
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({command: given}), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer, (self.folder / "client.log").read_text()[-5000:]
        return json.loads(answer)

    def open(self) -> None:
        """Starts the process, unless it runs."""
        if self.process is not None:
            return
        path = self.folder / "conf.json"
        path.write_text(json.dumps(self.conf))
        with (self.folder / "client.log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.cluster_client", str(path)],
                cwd=self.folder, env={**self.environment, "PYTHONPATH": str(ROOT)}, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate()
            self.process = None

    def jobs_of(self, world: World) -> Callable[[JobSpec], StepResult]:
        """Returns what runs a job of a world: extract and merge apart if something is to be killed in one of them."""

        def execute(job: JobSpec) -> StepResult:
            if job.step is Step.SYNC and self.kill is not None:
                landed = self._execute(replace(job, step=Step.EXTRACT), world.url)
                assert not [table.error for table in landed.tables if table.error]
                return self._execute(replace(job, step=Step.MERGE), world.url)
            return self._execute(job, world.url)

        self.open()
        return execute

    def _execute(self, job: JobSpec, url: str) -> StepResult:
        """Runs a job; what is to be killed is killed while it is at work."""
        spec, result = (self.folder / f"{uuid.uuid4().hex}{suffix}.json" for suffix in ("", ".result"))
        spec.write_text(json_codec.dumps(replace(job, result_path=str(result))))
        look = self.ask("start", [str(spec), url])
        began, ends = look["jobs"], time.monotonic() + PATIENCE
        while not look["done"]:
            assert time.monotonic() < ends, self.log()
            if self.kill is not None and self.kill({**look, "step": job.step, "jobs": look["jobs"] - began}):
                self.kill = None
            time.sleep(0.1)
            look = self.ask("look", 0)
        assert not look["error"], look["error"]
        return json_codec.loads(StepResult, result.read_text())

    def log(self) -> str:
        return (self.folder / "client.log").read_text()

    def kill_busy(self, step: Step, jobs: int, kill: Callable[[str, int], None]) -> None:
        """Has an executor killed that has a running task, in a step of which some of Spark's jobs have begun."""
        stopped: dict[str, int] = {}

        def look_and_kill(look: dict[str, Any]) -> bool:
            if look["step"] is not step or look["jobs"] < jobs:
                return False
            if not stopped:
                stopped.update(self.cluster.executors())
                assert len(stopped) == 2
                for pid in stopped.values():
                    os.kill(pid, signal.SIGSTOP)
                return False
            busy = [name for name in stopped if look["tasks"].get(name)]
            if not busy:
                return False
            kill(busy[0], stopped[busy[0]])
            self.killed.append(busy[0])
            for pid in stopped.values():
                if pid != stopped[busy[0]]:
                    os.kill(pid, signal.SIGCONT)
            return True

        self.kill = look_and_kill


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory, jar_folder: Path, object_store: ObjectStore) -> Iterator[Application]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "driver").mkdir()
    variables = {**LOGIN, "AWS_ENDPOINT_URL": object_store.endpoint, "PATH": "/usr/bin:/bin", "JAVA_HOME": os.environ.get("JAVA_HOME", "")}
    variables = {name: value for name, value in variables.items() if value}
    with SparkCluster(folder, cores=2, environment=variables) as cluster:
        conf = {
            "spark.master": cluster.url,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": JVM,
            "spark.executor.memory": "800m",
            "spark.executor.extraJavaOptions": JVM,
            "spark.cores.max": "4",
            "spark.jars": jar_list(jar_folder),
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.codegen.wholeStage": "false",
        }
        environment = {
            **os.environ, "AWS_ENDPOINT_URL": object_store.endpoint, "PYSPARK_PYTHON": NO_PYTHON, "PYSPARK_DRIVER_PYTHON": sys.executable,
        }  # fmt: skip
        running = Application(cluster=cluster, environment=environment, conf=conf, folder=folder / "driver")
        yield running
        running.close()


@pytest.fixture(scope="module", autouse=True)
def endpoint(object_store: ObjectStore) -> Iterator[None]:
    """This process lists archive and staging area too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", object_store.endpoint)
        yield


@pytest.fixture(scope="module")
def orders(mariadb: MariaDBServer, postgres: PostgresServer, object_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A table whose first load is the first run of whichever test comes first."""
    world = placed(World(mariadb, tmp_path_factory.mktemp("orders"), NO_SESSION), object_store, postgres)
    world.sql(ORDERS, FILL)
    return world


def placed(world: World, store: ObjectStore, ledger: PostgresServer) -> World:
    """A world with lake and staging area on S3 and its ledger on Postgres."""
    place = f"s3a://{store.bucket}/{uuid.uuid4().hex[:8]}"
    world.pipeline = replace(world.pipeline, target=TargetConfig(root=f"{place}/lake", staging=f"{place}/staging"))
    name = f"ledger_{uuid.uuid4().hex[:12]}"
    ledger.create_database(name)
    world.ledger = ledger.url(name)
    return world


def run(world: World, application: Application, **parts: Any) -> RunReport:
    report = world.run(execute_with=application.jobs_of(world), **parts)
    assert not report.failures, [str(failure.error) for failure in report.failures]
    assert application.kill is None
    return report


def assert_equal(world: World, application: Application, table: str, columns: str) -> None:
    application.open()
    lake = application.ask("rows", [world.path(table), columns])["rows"]
    source = sorted([str(value) for value in row] for row in world.sql(f"SELECT {columns} FROM {table}"))
    assert source
    assert lake == source


def change_rows(world: World, *, new: int) -> None:
    world.sql(
        f"UPDATE orders SET amount = amount + {new} WHERE id % 3 = 0",
        f"INSERT INTO orders (customer, amount) SELECT 'n{new}', seq FROM seq_1_to_{new}",
    )


@pytest.mark.long
def test_spark_submit_ships_jars_and_package_as_documented(orders: World, application: Application, jar_folder: Path) -> None:
    """As Airflow starts it: a driver here, no Python on executors, jars from the driver's folder, settings of the pipeline file."""
    folder = application.folder
    application.close()
    size = {"spark.cores.max": "2", "spark.executor.cores": "2"}  # one executor is enough

    def submit(job: JobSpec) -> StepResult:
        spec, result = folder / "job.json", folder / "result.json"
        spec.write_text(json_codec.dumps(replace(job, result_path=str(result))))
        conf = {
            name: value for name, value in application.conf.items() if name.startswith(("spark.driver", "spark.executor", "spark.cores"))
        }
        settings = [
            part for name, value in (conf | size | store_conf(application.environment)).items() for part in ("--conf", f"{name}={value}")
        ]
        jars = ("--master", application.cluster.url, "--jars", jar_list(jar_folder))
        command = [str(spark_home() / "bin" / "spark-submit"), *jars, *settings, str(ROOT / "spark_jobs" / f"{job.step}.py"), str(spec)]
        done = subprocess.run(
            command, env={**application.environment, "CDC_OPS_CONN_SHOP_DB": orders.url}, cwd=folder, text=True, capture_output=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-5000:]
        return json_codec.loads(StepResult, result.read_text())

    report = orders.run(execute_with=submit)
    assert not report.failures, [str(failure.error) for failure in report.failures]
    assert [run.result.counts.inserted for run in report.runs] == [300]
    assert_equal(orders, application, "orders", "id, customer, amount")


@pytest.mark.long
def test_increments_and_reconciles_make_the_lake_equal(orders: World, application: Application) -> None:
    run(orders, application)
    change_rows(orders, new=7)
    [one] = run(orders, application).runs
    assert (one.result.counts.inserted, one.result.counts.updated) == (7, 100)
    orders.sql("DELETE FROM orders WHERE id = 5", "UPDATE orders SET amount = 1, updated_at = updated_at WHERE id = 8")
    [one] = run(orders, application, kind=RunKind.RECONCILE, compare=AskedComparison(strength=CompareLevel.ROWS)).runs
    assert (one.result.counts.updated, one.result.counts.deleted) == (1, 1)
    assert_equal(orders, application, "orders", "id, customer, amount")


@pytest.mark.long
def test_the_native_reader_is_refused_on_a_cluster_and_auto_reads_over_jdbc_and_says_so(orders: World, application: Application) -> None:
    run(orders, application)
    change_rows(orders, new=5)
    jdbc = orders.pipeline
    try:
        orders.pipeline = replace(jdbc, source=replace(jdbc.source, reader=Reader.NATIVE))
        [failure] = orders.run(execute_with=application.jobs_of(orders)).failures
        assert isinstance(failure.error, EnvironmentSetupError)
        assert "run on a cluster" in failure.error.why
        orders.pipeline = replace(jdbc, source=replace(jdbc.source, reader=Reader.AUTO))
        [one] = run(orders, application).runs
    finally:
        orders.pipeline = jdbc
    assert one.result.counts.inserted == 5
    assert "Rows are read over JDBC: Spark's tasks run on a cluster" in application.log()
    assert_equal(orders, application, "orders", "id, customer, amount")


@pytest.mark.parametrize(("step", "jobs"), [pytest.param(Step.EXTRACT, 0, marks=pytest.mark.long), (Step.MERGE, 2)])
def test_an_executor_that_is_killed_at_work_costs_no_row(orders: World, application: Application, step: Step, jobs: int) -> None:
    run(orders, application)
    change_rows(orders, new=11)
    before = set(application.cluster.executors())
    application.kill_busy(step, jobs, lambda _, pid: os.kill(pid, signal.SIGKILL))
    [one] = run(orders, application).runs
    assert (one.result.counts.inserted, one.result.counts.updated) > (0, 0)
    killed = application.killed[-1]
    assert killed in before
    assert f"Lost executor {killed} " in application.log()
    assert killed not in application.cluster.executors()
    assert_equal(orders, application, "orders", "id, customer, amount")
    assert wait_until(lambda: len(application.cluster.executors()) == 2, PATIENCE), "the worker starts another"


class Topic:
    """Rows of a table, each an event in files on S3 of a topic; events are wide, so that a few are more than the driver reads itself."""

    def __init__(self, world: World, store: ObjectStore) -> None:
        world.pipeline = replace(
            world.pipeline, archive=replace(world.pipeline.archive, url=f"{world.pipeline.target.root}-topics/{{schema}}.{{table}}")
        )
        world.sql(ITEMS)
        name, folder = f"{world.database}.items", world.pipeline.target.root.removeprefix(f"s3a://{store.bucket}/")
        self.world, self.store, self.path, self.offset = world, store, f"{folder}-topics/{name}/partition=0/{name}+0+", 0

    def put(self, count: int) -> None:
        """Changes rows, and writes a file with the events."""
        events, rows = [], []
        for number in range(self.offset, self.offset + count):
            row = {"id": number % 40, "name": f"n{number}", "price": f"{number}.50"}
            rows.append(f"({row['id']}, '{row['name']}', {row['price']})")
            events.append(change("c" if number < 40 else "u", 100 + number, before=row, after=row, database=self.world.database))
        self.world.sql(f"REPLACE INTO items VALUES {', '.join(rows)}")
        text = "".join(f"{json.dumps(event)}{' ' * BLANKS}\n" for event in events)
        self.store.put_many({f"{self.path}{self.offset:010}.json": text.encode()})
        self.offset += count


@contextmanager
def python_on_executors(application: Application) -> Iterator[None]:
    """The application of other tests ends, and another begins whose executors find this environment's Python."""
    usual = application.environment
    application.close()
    assert wait_until(lambda: not application.cluster.executors(), PATIENCE)
    application.environment = {**usual, "PYSPARK_PYTHON": sys.executable}
    try:
        yield
    finally:
        application.close()
        application.environment = usual
        assert wait_until(lambda: not application.cluster.executors(), PATIENCE)


@pytest.mark.long
def test_the_log_method_reads_on_executors_goes_on_while_a_worker_dies_and_needs_no_python_there(
    mariadb: MariaDBServer, postgres: PostgresServer, object_store: ObjectStore, application: Application, tmp_path: Path
) -> None:
    world = placed(log_world(mariadb, tmp_path, NO_SESSION), object_store, postgres)
    topic, columns = Topic(world, object_store), "id, name, price"
    for count in (20, 10, 20):
        topic.put(count)
    run(world, application)
    said = [line for line in application.log().splitlines() if DRIVER_READS in line]
    assert len(said) == 1
    assert f'Cannot run program "{NO_PYTHON}"' in said[0]
    assert_equal(world, application, "items", columns)
    with python_on_executors(application):
        topic.put(20)
        run(world, application)
        assert_equal(world, application, "items", columns)
        for count in (5, 15, 5, 5):
            topic.put(count)
        assert wait_until(lambda: len(application.cluster.executors()) == 2, PATIENCE)
        places = {name: number for number in range(2) for name in application.cluster.executors(number)}
        kills = len(application.killed)
        application.kill_busy(Step.EXTRACT, 2, lambda name, _: application.cluster.kill_worker(places[name]))
        run(world, application)
        [killed] = application.killed[kills:]
        assert len(application.cluster.executors()) == 1
        assert f"Lost executor {killed} " in application.log()
        assert_equal(world, application, "items", columns)
        application.cluster.start_worker(places[killed])
        assert wait_until(lambda: len(application.cluster.executors()) == 2, PATIENCE)
        topic.put(15)
        run(world, application)
        assert_equal(world, application, "items", columns)
    assert application.log().count(DRIVER_READS) == 1, "executors read whatever came after they had Python"


@pytest.mark.long
def test_a_folder_that_machines_do_not_share_is_refused_before_anything_is_read(
    mariadb: MariaDBServer, postgres: PostgresServer, object_store: ObjectStore, application: Application, tmp_path: Path
) -> None:
    """What is below `/proc/self/cwd` is another folder for each process, as if each had a machine of its own.

    Without the refusal the increment would end well, without its rows, and the watermark behind them.
    """
    world = placed(World(mariadb, tmp_path, NO_SESSION), object_store, postgres)
    world.sql(ORDERS, FILL)
    run(world, application)
    shared, before = world.pipeline, world.state("orders").progress.watermark
    world.pipeline = replace(shared, target=replace(shared.target, staging="/proc/self/cwd/staging"))
    change_rows(world, new=5)
    [failure] = world.run(execute_with=application.jobs_of(world)).failures
    assert isinstance(failure.error, EnvironmentSetupError)
    assert "do not share the folder /proc/self/cwd/staging" in failure.error.what
    assert "0 can be seen" in failure.error.why
    assert world.state("orders").progress.watermark == before
