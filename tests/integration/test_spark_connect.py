"""Jobs on a Spark Connect server: the same tables as with Spark of their own, also when the server dies; and no login in sight.

The jobs are processes of their own, as in Airflow: this process has a session of its own JVM, by which it reads the lake.
"""

import html
import json
import logging
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core import json_codec
from cdc_ops.core.archive.file_names import Layout
from cdc_ops.core.operation.job import JobSpec, StepResult
from cdc_ops.core.operation.run_request import AskedComparison, ResyncMode, RunKind
from cdc_ops.core.pipeline.archive_config import OnBadRecord
from cdc_ops.core.pipeline.pipeline import Reader, SparkConfig
from cdc_ops.core.reconcile.diff import CompareLevel
from cdc_ops.dev.connect_server import ConnectServer
from cdc_ops.dev.processes import free_port
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import SparkServerLostError
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.steps.runs.run import RunReport
from tests.commits import commits
from tests.conftest import ROOT, SMALL_SERVER
from tests.integration.test_log_method import ITEMS, Sink, change, log_world
from tests.stores import at
from tests.world import ORDERS, World

pytestmark = pytest.mark.local_store
PATIENCE = 480
FILL = "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq / 7 FROM seq_1_to_500"
LINES = ORDERS.replace("TABLE orders", "TABLE order_lines")
LONGEST_HOLD_S = 3
"""More than a transaction that starts now holds back the bound: a start is told in whole seconds, less one second for rounding."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, jar_folder: Path) -> Iterator[ConnectServer]:
    """A server that tells all that it can tell: pages, event log, and a log with every line."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "events").mkdir()
    conf = {
        **SMALL_SERVER,
        "spark.ui.enabled": "true",
        "spark.ui.port": str(free_port()),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.eventLog.compress": "false",
        "spark.log.level": "INFO",
        "spark.redaction.string.regex": "what the server itself hides is something else",
    }
    with ConnectServer(folder, jars=jar_folder, conf=conf) as running:
        yield running


def on_server(world: World, server: ConnectServer) -> World:
    """A world whose jobs are processes that work on a server."""
    world.pipeline = replace(world.pipeline, spark=SparkConfig(connect=server.url))
    return world


def run_apart(world: World) -> Callable[[JobSpec], StepResult]:
    """Runs each job as Airflow's task does: a process, the job in a file, the login in its environment, the result in a file."""

    def execute(job: JobSpec) -> StepResult:
        world.jobs += 1
        spec, result = (world.folder / f"job-{world.jobs}{suffix}.json" for suffix in ("", ".result"))
        spec.write_text(json_codec.dumps(replace(job, result_path=str(result))))
        assert job.spark is not None
        assert world.server.password not in spec.read_text()
        command = [sys.executable, str(ROOT / "spark_jobs" / f"{job.step}.py"), str(spec)]
        environment = {**os.environ, "CDC_OPS_CONN_SHOP_DB": world.url}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        logging.getLogger("cdc_ops").info(done.stdout + done.stderr)
        assert done.returncode == 0
        assert world.server.password not in done.stdout + done.stderr
        return json_codec.loads(StepResult, result.read_text())

    return execute


def run(world: World, **parts: Any) -> RunReport:
    """One run without failures."""
    report = world.run(execute_with=run_apart(world) if world.pipeline.spark.connect else None, **parts)
    assert not report.failures, [str(failure.error) for failure in report.failures]
    return report


def counted(report: RunReport) -> list[tuple[str, int, int, int]]:
    counts = [(str(one.table).partition(".")[2], one.result.counts) for one in report.runs]
    return sorted((table, count.inserted, count.updated, count.deleted) for table, count in counts)


def ask(what: str, server: ConnectServer, folder: Path) -> Any:
    """What a client process found (`tests.connect_client`)."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.connect_client", what, server.url, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def live_queries(world: World) -> list[list[tuple[str, int, int, int]]]:
    """A snapshot, an increment of two tables, a reconcile that finds a delete and a change that no cursor shows; and what each counted."""
    world.sql(ORDERS, FILL, LINES, FILL.replace("INTO orders", "INTO order_lines"))
    reports = [run(world)]
    world.sql("UPDATE orders SET amount = 1 WHERE id < 10", "INSERT INTO order_lines (customer, amount) VALUES ('new', 1)")
    reports.append(run(world))
    world.sql("DELETE FROM orders WHERE id = 3", "UPDATE order_lines SET amount = 2, updated_at = updated_at WHERE id = 4")
    reports.append(run(world, kind=RunKind.RECONCILE, compare=AskedComparison(strength=CompareLevel.ROWS)))
    return [counted(report) for report in reports]


@pytest.mark.long
def test_snapshot_increment_and_reconcile_are_those_of_spark_of_its_own(
    mariadb: MariaDBServer, spark: SparkSession, server: ConnectServer, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("classic", "server")]
    for folder in folders:
        folder.mkdir()
    classic, warm = World(mariadb, folders[0], spark), on_server(World(mariadb, folders[1], spark), server)
    assert live_queries(warm) == live_queries(classic)
    for table in ("orders", "order_lines"):
        columns = "id, customer, amount"
        assert warm.lake(table, columns) == classic.lake(table, columns) == warm.source(table, columns)
        assert warm.data_commits(table) == classic.data_commits(table)
    assert warm.jobs >= 3


@pytest.mark.long
def test_the_log_method_is_that_of_spark_of_its_own(
    mariadb: MariaDBServer, spark: SparkSession, server: ConnectServer, tmp_path: Path
) -> None:
    found, wide = [], " " * 1_250_000  # two events are more than a driver reads itself
    for name in ("classic", "server"):
        folder = tmp_path / name
        folder.mkdir()
        world = log_world(mariadb, folder, spark)
        world = on_server(world, server) if name == "server" else world
        world.sql(ITEMS)
        sink, database = Sink(folder / "archive", world.database, "items"), world.database
        first, second = ({"id": 1, "name": "ä", "price": "1.50"}, {"id": 2, "name": "b", "price": "2.00"})
        events = [
            (change("c", 10, after=first, database=database), change("c", 20, after=second, database=database)),
            (
                change("u", 30, before=first, after={**first, "name": "c", "price": "9.99"}, database=database),
                change("d", 40, before=second, database=database),
            ),
        ]
        reports = []
        for some in events:
            sink.write(*(f"{json.dumps(event)}{wide}" for event in some))
            reports.append(run(world))
        found.append(([counted(report) for report in reports], world.lake("items", "id, name, price"), world.data_commits("items")))
    assert scans_of(server) == 2, "each run on the server reads in tasks of Spark"
    assert found[0] == found[1]
    assert [row[:2] for row in found[1][1]] == [(1, "c")]


def scans_of(server: ConnectServer) -> int:
    """How many statements have read archived files in tasks, by the server's event log."""
    lines = (line for path in (server.folder / "events").rglob("*") if path.is_file() for line in path.read_text().splitlines())
    begun = (line for line in lines if '"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"' in line)
    return sum(bool(re.search(r"MapInArrow partial\(file#\d+\)#\d+, \[facts#", line)) for line in begun)


@pytest.mark.long
def test_records_in_quarantine_are_read_again_where_names_of_files_tell_no_offsets(
    mariadb: MariaDBServer, spark: SparkSession, server: ConnectServer, tmp_path: Path
) -> None:
    world = on_server(log_world(mariadb, tmp_path, spark, bad_records=OnBadRecord.QUARANTINE, layout=Layout.PLAIN), server)
    world.sql(ITEMS)
    sink = Sink(tmp_path / "archive", world.database, "items")
    sink.write(
        change("c", 10, after={"id": 1, "name": "a", "price": "1.50"}, database=world.database),
        change("c", 20, after={"id": 2, "name": "b", "price": "1.505"}, database=world.database),
    )
    assert counted(run(world)) == [("items", 1, 0, 0)]
    world.sql("ALTER TABLE items MODIFY price DECIMAL(9,3)")
    report = world.resync(ResyncMode.QUARANTINE, execute_with=run_apart(world))
    assert (report.failures, counted(report)) == ((), [("items", 1, 0, 0)])
    assert [str(price) for _, price in world.lake("items", "id, price")] == ["1.500", "1.505"]


@pytest.mark.long
def test_a_value_that_is_too_large_widens_its_column_as_with_spark_of_its_own(
    mariadb: MariaDBServer, spark: SparkSession, server: ConnectServer, tmp_path: Path
) -> None:
    world = on_server(World(mariadb, tmp_path, spark), server)
    world.sql(ORDERS.replace("amount", "big BIGINT UNSIGNED, amount"), FILL)
    run(world)
    world.sql(f"UPDATE orders SET big = {2**64 - 1} WHERE id = 7")
    run(world)
    [(big,)] = spark.sql(f"SELECT big FROM delta.`{world.path('orders')}` WHERE id = 7").collect()
    assert big == 2**64 - 1
    assert world.data_commits("orders") == [1, 2]


@pytest.mark.long
def test_two_pipelines_at_once_keep_their_numbers_apart(
    mariadb: MariaDBServer, spark: SparkSession, server: ConnectServer, tmp_path: Path
) -> None:
    worlds = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        world = on_server(World(mariadb, folder, spark), server)
        world.pipeline = replace(world.pipeline, name=name)
        world.sql(ORDERS, FILL, LINES, FILL.replace("INTO orders", "INTO order_lines"))
        worlds.append(world)
    for rounds in range(2):
        # Runs hold back the bounds of their neighbours: rows that are too young would wait for the next run.
        time.sleep(LONGEST_HOLD_S)
        with ThreadPoolExecutor(len(worlds)) as pool:
            reports = list(pool.map(run, worlds))
        for report in reports:
            assert [inserted + updated for _, inserted, updated, _ in counted(report)] == [500, 500]
        for world in worlds:
            world.sql(*(f"UPDATE {table} SET amount = {rounds} WHERE id > {rounds}" for table in ("orders", "order_lines")))
    for world in worlds:
        for table in ("orders", "order_lines"):
            applications = DeltaLog(world.path(table)).state(2).transactions
            assert applications == {f"cdc-ops/{world.pipeline.name}/{world.name(table)}": 2}
            told = [json.loads(commit["userMetadata"]) for commit in commits(world.path(table)) if commit["userMetadata"]]
            assert sorted((one["pipeline"], one["op_seq"]) for one in told) == [(world.pipeline.name, number) for number in (1, 2)]


def test_settings_of_an_operation_reach_no_other_session(server: ConnectServer, tmp_path: Path) -> None:
    found = ask("settings", server, tmp_path)
    committed = {name: [rows, version is not None, leaked] for name, (rows, version, leaked) in found["seen"].items()}
    assert committed == {name: [1, True, []] for name in ("0.1", "0.2", "1.1", "1.2")}
    for number, history in enumerate(found["history"]):
        assert [text for text in history if text] == [f"operation 1 of {number}", f"operation 2 of {number}"]
        assert len(history) == 5  # the table, and per operation its MERGE and the DELETE that had no number
    assert not [view for view in found["views"] if view.startswith("cdc_ops_")]


def test_a_server_with_other_versions_is_refused(server: ConnectServer, tmp_path: Path) -> None:
    found = ask("versions", server, tmp_path)
    spark, delta = found["ours"]
    for refused, needed in ((found["spark"], "needs Spark 4.1.0"), (found["delta"], "Delta 4.3.0")):
        kind, retryable, text = refused
        assert (kind, retryable) == ("EnvironmentSetupError", "False")
        assert needed in text
        assert f"has Spark {spark} and Delta {delta}" in text
        assert all(part in text for part in ("why:", "data:", "next:"))


def test_settings_of_the_server_are_checked_and_those_of_values_hold(server: ConnectServer, tmp_path: Path) -> None:
    found = ask("chosen", server, tmp_path)
    kind, _, text = found["refused"]
    assert kind == "ConfigError"
    assert "other values for spark.driver.memory, spark.sql.warehouse.dir than the pipeline file" in text
    assert found["found"] == ["3", "http://127.0.0.1:1", "true", "UTC"]
    assert found["strict"]


def test_sessions_share_the_code_that_the_server_has_generated(server: ConnectServer, tmp_path: Path) -> None:
    found = ask("loaders", server, tmp_path)["found"]
    assert len(found) == 4
    assert len(set(found)) == 1, "each session compiles again what the one before has compiled"


def test_files_that_vanish_fail_the_read_and_are_not_left_out(server: ConnectServer, tmp_path: Path) -> None:
    found = ask("vanished", server, tmp_path)
    assert found["before"] == [4, 4]
    assert found["loose"] < 4  # which is why files are pinned
    assert found["failed"]


def test_old_views_of_killed_clients_are_dropped(server: ConnectServer, tmp_path: Path) -> None:
    assert ask("leftover", server, tmp_path)["left"] == ["cdc_ops_29990101000000_b", "others"]


@pytest.mark.long
def test_the_command_line_works_on_a_server_and_then_with_a_jvm_of_its_own(
    mariadb: MariaDBServer, spark: SparkSession, server: ConnectServer, jar_folder: Path, tmp_path: Path
) -> None:
    worlds = {}
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    for name, how in (("a", f"{{connect: '{server.url}'}}"), ("b", "{driver_memory: 1g, conf: {spark.master: 'local[2]'}}"), ("c", "")):
        folder = tmp_path / name
        folder.mkdir()
        world = worlds[name] = World(mariadb, folder, spark)
        world.sql(ORDERS, FILL)
        (pipelines / f"{name}.yaml").write_text(
            f"""
pipeline: {name}
source: {{kind: mariadb, connection: {name}_db}}
target: {{root: {world.pipeline.target.root}, staging: {world.pipeline.target.staging}}}
spark: {how or f"{{connect: '{server.url}'}}"}
tables:
  {world.database}.orders: {{cursor: [updated_at, id], lookback: 0s}}
"""
        )
    places = {"CDC_OPS_PIPELINES": str(pipelines), "CDC_OPS_LEDGER": worlds["a"].ledger, "CDC_OPS_JARS": str(jar_folder)}
    logins = {f"CDC_OPS_CONN_{name.upper()}_DB": world.url for name, world in worlds.items()}
    environment = {**os.environ, **places, **logins, "CDC_OPS_LOGS": str(tmp_path / "logs")}

    def command(*parts: str) -> Any:
        call = [sys.executable, "-m", "cdc_ops.cli", *parts, "--json"]
        done = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert mariadb.password not in done.stdout + done.stderr
        return json.loads(done.stdout)

    report = command("run")
    assert [bool(report[name]["spark_log"]) for name in ("a", "b", "c")] == [False, True, False]
    for world in worlds.values():
        assert world.lake("orders") == world.source("orders")
        assert len(world.lake("orders")) == 500


@pytest.mark.long
def test_a_server_that_is_not_there_is_a_retry(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = World(mariadb, tmp_path, spark)
    world.pipeline = replace(world.pipeline, spark=SparkConfig(connect=f"sc://127.0.0.1:{free_port()}"))
    world.sql(ORDERS, FILL)
    report = world.run(execute_with=run_apart(world))
    [failure] = report.failures
    assert isinstance(failure.error, SparkServerLostError)
    assert report.retryable


@pytest.mark.long
def test_a_server_that_dies_in_the_merge_costs_a_retry_and_no_row(
    mariadb: MariaDBServer, spark: SparkSession, jar_folder: Path, tmp_path: Path
) -> None:
    """The first is away until the next run; in the place of the second there is another at once."""
    port = free_port()
    first, second, third = servers = [
        ConnectServer(tmp_path / f"server-{number}", jars=jar_folder, conf=SMALL_SERVER, port=port) for number in (1, 2, 3)
    ]
    first.start()
    try:
        world = on_server(World(mariadb, tmp_path, spark), first)
        world.sql(ORDERS, "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq / 7 FROM seq_1_to_60000")
        run(world)
        with ThreadPoolExecutor(1) as pool:  # to the end of the test: a server ends with the thread that started it
            lose_server(world, 2, pool.submit(kill_when_landed, world, 2, first))
            second.start()
            run(world)
            assert world.data_commits("orders") == [1, 2]
            lose_server(world, 3, pool.submit(kill_when_landed, world, 3, second, third))
            run(world)
    finally:
        for server in servers:
            server.stop()
    assert world.lake("orders") == world.source("orders")
    assert world.data_commits("orders") == [1, 2, 3]


def lose_server(world: World, op_seq: int, killed: Future[None]) -> None:
    """One run whose server dies: it says that it can be tried again, and nothing of it is committed."""
    world.sql("UPDATE orders SET amount = amount + 1 WHERE id > 10000", "INSERT INTO orders (customer, amount) VALUES ('new', 1)")
    report = world.run(execute_with=run_apart(world))
    killed.result()
    [failure] = report.failures
    assert isinstance(failure.error, SparkServerLostError)
    assert report.retryable
    assert world.data_commits("orders") == list(range(1, op_seq))


def kill_when_landed(world: World, op_seq: int, server: ConnectServer, successor: ConnectServer | None = None) -> None:
    """Kills the server between an operation's manifest and its commit, and starts another in its place."""
    end = time.monotonic() + PATIENCE
    while not list(at(world.pipeline.target.staging).glob(f"shop/*/{op_seq}-*/manifest.json")):
        assert time.monotonic() < end, "the moment never came"
        time.sleep(0.002)
    server.kill()
    if successor is not None:
        successor.start()


@pytest.mark.parametrize(
    ("reader", "shown"), [pytest.param(Reader.JDBC, "dbtable", marks=pytest.mark.long), (Reader.AUTO, "MapInArrow")], ids=["jdbc", "native"]
)
def test_the_login_stands_nowhere_in_log_pages_and_event_log_of_the_server(
    mariadb: MariaDBServer,
    spark: SparkSession,
    server: ConnectServer,
    tmp_path: Path,
    reader: Reader,
    shown: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = on_server(World(mariadb, tmp_path, spark), server)
    world.pipeline = replace(world.pipeline, source=replace(world.pipeline.source, reader=reader))
    world.sql(ORDERS, FILL)
    reports = [run(world)]
    world.sql("UPDATE orders SET amount = 1 WHERE id < 10")
    reports.append(run(world))
    world.sql("DELETE FROM orders WHERE id = 3")
    reports.append(run(world, kind=RunKind.RECONCILE))
    # What the last has read is on the pages with all its options; what others read lies too deep in their plans.
    assert [counted(report) for report in reports] == [[("orders", 500, 0, 0)], [("orders", 0, 8, 0)], [("orders", 0, 0, 1)]]  # 7 / 7 was 1
    pages = read_pages(f"http://127.0.0.1:{server_conf(server)['spark.ui.port']}")
    log, events = server.log.read_text(), "".join(path.read_text() for path in (server.folder / "events").rglob("*") if path.is_file())
    seen = "".join(pages.values())
    assert any(path.startswith("/connect/session") for path in pages)
    for text in (seen, events):
        assert shown in text  # the plan of the read is shown, without its login
    assert "(redacted)" in seen
    assert ("Rows are read natively." in caplog.text) == (reader is Reader.AUTO)
    assert world.lake("orders") == world.source("orders")
    assert "SparkConnect" in log
    secrets = secret_parts(world.server.password)
    found = {name for name, text in {**pages, "log": log, "events": events}.items() if any(secret in text for secret in secrets)}
    assert not found


def secret_parts(password: str) -> list[str]:
    """The parts of a password of our servers that no quoting changes."""
    parts = [part for part in re.split(r"[^A-Za-z0-9_-]+", password) if len(part) > 8]
    assert len(parts) == 2
    return parts


def server_conf(server: ConnectServer) -> Mapping[str, str]:
    return server._conf


def read_pages(base: str) -> dict[str, str]:
    """All pages of the server's UI that show jobs, statements, sessions and settings."""
    wanted = re.compile(
        r"^/(connect/session/\?id=[^&]*|SQL/execution/\?id=\d+|jobs/job/\?id=\d+|stages/stage/\?id=\d+&attempt=\d+|storage/rdd/\?id=\d+)$"
    )
    todo = [
        "/connect/?sqlstat.pageSize=10000&sessionstat.pageSize=1000",
        "/SQL/",
        "/environment/",
        "/stages/",
        "/jobs/",
        "/storage/",
        "/executors/",
    ]
    pages: dict[str, str] = {}
    while todo:
        path = todo.pop()
        if path in pages:
            continue
        with urllib.request.urlopen(f"{base}{path}", timeout=60) as answer:
            pages[path] = html.unescape(answer.read().decode())
        todo += [link for link in re.findall(r'href="([^"]+)"', pages[path]) if wanted.match(link)]
    return pages
