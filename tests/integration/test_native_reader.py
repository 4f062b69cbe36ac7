"""The native reader end to end: what servers and networks do in the middle of a read, values of any size, and where the login is seen."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import md5
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.pipeline.pipeline import Reader
from cdc_ops.dev.servers import DatabaseServer, MariaDBServer, MySQLServer
from cdc_ops.errors import EnvironmentSetupError, SchemaChangedError, SourceUnreachableError
from cdc_ops.steps.runs.run import RunReport
from tests.world import ORDERS, World

MANY = (
    "INSERT INTO orders (customer, amount) WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < 100)"
    " SELECT CONCAT('customer ', a.seq), b.seq / 7 FROM n AS a, n AS b, (SELECT 1 UNION SELECT 2 UNION SELECT 3) AS c"
)
NODE = "MapInArrow"


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine has compiled what reads rows before: on a new one, `auto` reads few rows over JDBC."""
    monkeypatch.setattr("cdc_ops.steps.query.reader_choice.is_uncompiled", lambda: False)


def native_world(server: DatabaseServer, folder: Path, spark: SparkSession, reader: Reader = Reader.NATIVE) -> World:
    world = World(server, folder, spark)
    world.pipeline = replace(world.pipeline, source=replace(world.pipeline.source, reader=reader))
    return world


def done(report: RunReport) -> RunReport:
    assert not report.failures, [str(failure.error) for failure in report.failures]
    return report


class Line:
    """A way to a server on this machine that hands bytes on, and acts once in each connection that has brought many."""

    def __init__(self, server: DatabaseServer, after: int, act: Callable[[], bool]) -> None:
        self._target, self._after, self._act = (server.host, server.port), after, act
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()

    def _accept(self) -> None:
        with self._listener, suppress(OSError):
            while True:
                threading.Thread(target=self._carry, args=(self._listener.accept()[0],), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with near, socket.create_connection(self._target) as far:
            there = threading.Thread(target=self._hand_on, args=(near, far, sys.maxsize), daemon=True)
            there.start()
            self._hand_on(far, near, self._after)
            there.join()

    def _hand_on(self, here: socket.socket, there: socket.socket, after: int) -> None:
        count = 0
        with suppress(OSError):
            while data := here.recv(1 << 16):
                there.sendall(data)
                count += len(data)
                if count > after:
                    after = sys.maxsize
                    if not self._act():
                        break
        for line in (here, there):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)


@contextmanager
def on_the_way(world: World, after: int, act: Callable[[], bool]) -> Iterator[None]:
    """Leads the jobs of a world by a line; `act` says whether it goes on."""
    line, url = Line(world.server, after, act), world.url
    world.url = url.replace(f":{world.server.port}/", f":{line.port}/")
    assert world.url != url
    try:
        yield
    finally:
        world.url = url
        line.close()


def lost_in_the_middle(world: World) -> SourceUnreachableError:
    """Runs once with each connection cut off after some rows, and returns the error: one that a later run may not meet."""
    cut: list[bool] = []
    with on_the_way(world, 300_000, lambda: bool(cut.append(True))):
        report = world.run()
    assert cut
    [failure] = report.failures
    assert isinstance(failure.error, SourceUnreachableError), failure.error
    assert failure.error.retryable
    return failure.error


def test_a_connection_that_ends_in_the_middle_of_the_rows_is_a_retry_and_lands_nothing(
    mysql: MySQLServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = native_world(mysql, tmp_path, spark)
    world.sql(ORDERS, MANY)
    error = lost_in_the_middle(world)
    assert "closed the connection in the middle of the rows" in str(error)
    assert_landed_nothing_or_all(world, landed=False)
    done(world.run())
    assert len(world.lake("orders")) == 30_000
    assert world.lake("orders") == world.source("orders")


@pytest.mark.parametrize("alter", ["DROP COLUMN amount", "MODIFY amount DECIMAL(14,4) NOT NULL"])
def test_a_table_that_is_altered_in_the_middle_of_a_read_lands_exact_values_or_nothing(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path, alter: str
) -> None:
    world = native_world(mariadb, tmp_path, spark)
    world.configure(parallelism=4)  # of which two are read at a time; the others come after the ALTER
    world.sql(ORDERS, MANY)
    altering: list[threading.Thread] = []

    def begin() -> bool:
        if not altering:
            altering.append(threading.Thread(target=world.sql, args=(f"ALTER TABLE orders {alter}",)))
            altering[0].start()
        return True

    with on_the_way(world, 100_000, begin):
        report = world.run()
    assert altering
    altering[0].join()
    errors = [failure.error for failure in report.failures]
    assert [type(error) for error in errors] in ([], [SchemaChangedError]), errors
    assert errors or alter.startswith("MODIFY"), "there is nothing to read of a column that is gone"
    assert_landed_nothing_or_all(world, landed=not errors)
    done(world.run())
    assert len(world.lake("orders")) == 30_000
    columns = "id, customer, updated_at" + (", amount" if alter.startswith("MODIFY") else "")
    assert world.lake("orders", columns) == world.source("orders", columns)


def assert_landed_nothing_or_all(world: World, *, landed: bool) -> None:
    if landed:
        assert len(world.lake("orders")) == 30_000
    else:
        assert not Path(world.path("orders"), "_delta_log").exists() or not world.data_commits("orders")


@pytest.mark.long
def test_packets_around_16_mb_and_a_value_of_64_mb_arrive_as_they_are(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = native_world(mariadb, tmp_path, spark)
    [(before,)] = mariadb.execute("SELECT @@GLOBAL.max_allowed_packet")
    sizes = [0, *(2**24 - 1 - less for less in range(14)), 2**24, 2**24 + 1, 2 * (2**24 - 1) - 6, 2**26]
    mariadb.execute(f"SET GLOBAL max_allowed_packet = {2**28}")
    try:
        world.sql("CREATE TABLE large (id INT PRIMARY KEY, v LONGTEXT CHARACTER SET latin1, w INT)")
        for number, size in enumerate(sizes):  # bytes as the server sends them
            world.sql(f"INSERT INTO large SELECT {number}, IF({size} = 0, '', CONCAT(REPEAT('y', {size} - 2), 'é')), 7")
        world.configure(cursor=(), parallelism=1)
        done(world.run())
        texts = ["y" * (size - 2) + "é" if size else "" for size in sizes]
        expected = [(number, len(text), md5(text.encode()).hexdigest(), 7) for number, text in enumerate(texts)]
        assert world.lake("large", "id, length(v), md5(CAST(v AS BINARY)), w") == expected
    finally:
        mariadb.execute(f"SET GLOBAL max_allowed_packet = {before}")


def test_texts_of_other_character_sets_arrive_as_they_are(mysql: MySQLServer, spark: SparkSession, tmp_path: Path) -> None:
    world = native_world(mysql, tmp_path, spark)
    texts = {
        **{"latin1": "é€ÿ", "cp1251": "Привет", "sjis": "ソ表テスト", "gbk": "中文字", "big5": "許功蓋", "euckr": "한글"},
        **{"utf16": "ü😀", "utf32": "ü😀", "ucs2": "üЖ", "utf8mb3": "Жü", "latin2": "łĄ", "greek": "αβγ", "ascii": "a"},
    }
    columns = ", ".join(f"`c_{name}_ü` VARCHAR(20) CHARACTER SET {name}" for name in texts)
    world.sql(
        f"CREATE TABLE `tüxte` (id INT PRIMARY KEY, {columns}) CHARACTER SET sjis",
        f"INSERT INTO `tüxte` VALUES (1, {', '.join(repr(text) for text in texts.values())})",
    )
    world.configure(cursor=())
    done(world.run())
    assert world.lake("tüxte") == [(1, *texts.values())]


def test_auto_reads_over_jdbc_where_tasks_find_no_python_and_says_so_and_native_is_refused(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = native_world(mariadb, tmp_path, spark, Reader.AUTO)
    world.sql(ORDERS, MANY)
    with monkeypatch.context() as patch:
        patch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python3")
        done(world.run())
        assert [line for line in caplog.messages if line.startswith("Rows are read over JDBC: ")]
        world.sql("INSERT INTO orders (customer, amount) VALUES ('new', 1)")
        world.pipeline = replace(world.pipeline, source=replace(world.pipeline.source, reader=Reader.NATIVE))
        [failure] = world.run().failures
    assert isinstance(failure.error, EnvironmentSetupError), failure.error
    assert "reader: jdbc" in failure.error.next
    world.pipeline = replace(world.pipeline, source=replace(world.pipeline.source, reader=Reader.AUTO))
    done(world.run())
    assert "Rows are read natively." in caplog.messages
    assert world.lake("orders") == world.source("orders")


def test_auto_reads_postgres_natively_and_says_so(
    postgres: DatabaseServer, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = native_world(postgres, tmp_path, spark, Reader.AUTO)
    world.sql("CREATE TABLE items (id INT PRIMARY KEY, updated_at TIMESTAMP NOT NULL)", "INSERT INTO items VALUES (1, '2024-01-01')")
    done(world.run())
    assert "Rows are read natively." in caplog.messages
    assert len(world.lake("items")) == 1


def test_the_login_stands_nowhere_in_what_a_run_of_its_own_spark_leaves_behind(
    mariadb: MariaDBServer, spark: SparkSession, jar_folder: Path, tmp_path: Path
) -> None:
    world = native_world(mariadb, tmp_path, spark)
    world.sql(ORDERS, MANY)
    (tmp_path / "events").mkdir()
    conf = {"spark.master": "local[2]", "spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{tmp_path}/events"}
    conf |= {"spark.log.level": "INFO", "spark.eventLog.compress": "false"}
    (tmp_path / "shop.yaml").write_text(
        f"pipeline: shop\nsource: {{kind: mariadb, connection: shop_db, reader: native}}\n"
        f"target: {{root: {tmp_path / 'lake'}, staging: {tmp_path / 'staging'}}}\n"
        f"spark: {{driver_memory: 1g, conf: {json.dumps(conf)}}}\n"
        f"tables:\n  {world.database}.orders: {{cursor: [updated_at, id], lookback: 0s}}\n"
    )
    places = {"CDC_OPS_PIPELINES": str(tmp_path), "CDC_OPS_LEDGER": world.ledger, "CDC_OPS_LOGS": str(tmp_path / "logs")}
    environment = {**os.environ, **places, "CDC_OPS_JARS": str(jar_folder), "CDC_OPS_CONN_SHOP_DB": world.url}
    command = [sys.executable, "-m", "cdc_ops.cli", "run", "--json"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert world.lake("orders") == world.source("orders")
    left = {str(path): path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()}
    assert [name for name, text in left.items() if "events" in name and NODE in text], "the plan of the native read is shown"
    assert [name for name in left if "logs" in name]
    parts = [part for part in re.split(r"[^A-Za-z0-9_-]+", mariadb.password) if len(part) > 8]
    assert len(parts) == 2
    found = {name for name, text in (left | {"output": run.stdout + run.stderr}).items() if any(part in text for part in parts)}
    assert not found
