"""A real MariaDB replica, over loopback: as a source, and as what whole tables are read from. It never hides a row that was committed."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pymysql
import pymysql.cursors
import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import SourceError, SourceUnreachableError
from cdc_ops.sources.base import Source, SourcePosition, open_source
from cdc_ops.sources.bounds.clock import METHOD_REPLICA
from cdc_ops.sources.mysql.replication.positions import MySQLPositions
from tests.world import World

DB = "followed"
TABLE = TableName(schema=DB, name="ticks")
DELAY = 3


@pytest.fixture(scope="module")
def replica(mariadb: MariaDBServer, server_folder: Path) -> Iterator[MariaDBServer]:
    with MariaDBServer(server_folder / "replica", options=("--server-id=2", "--innodb-buffer-pool-size=32M")) as server:
        [(position,)] = mariadb.execute("SELECT @@gtid_current_pos")
        password = mariadb.password.replace("\\", "\\\\").replace("'", "''")
        server.execute(
            f"SET GLOBAL gtid_slave_pos = '{position}'",
            f"CHANGE MASTER TO MASTER_HOST = '{mariadb.host}', MASTER_PORT = {mariadb.port}, MASTER_USER = '{mariadb.user}',"
            f" MASTER_PASSWORD = '{password}', MASTER_SSL = 0, MASTER_SSL_VERIFY_SERVER_CERT = 0,"
            f" MASTER_USE_GTID = slave_pos, MASTER_DELAY = {DELAY}, MASTER_CONNECT_RETRY = 1",
            "START REPLICA",
        )
        mariadb.execute(
            f"CREATE DATABASE {DB}",
            f"CREATE TABLE {DB}.ticks (id INT PRIMARY KEY AUTO_INCREMENT, u DATETIME(6) NOT NULL DEFAULT NOW(6), KEY (u))",
            f"INSERT INTO {DB}.ticks () VALUES ()",
        )
        wait_for_rows(server, 1)
        yield server


@pytest.fixture
def source(replica: MariaDBServer) -> Iterator[Source]:
    url = ConnectionUrl.from_parts("mysql", replica.host, replica.port, replica.user, replica.password, DB).render()
    opened = open_source(SourceConfig(kind=SourceKind.MARIADB, connection="c", time_zone="+00:00"), url)
    yield opened
    opened.close()


@pytest.fixture
def primary(mariadb: MariaDBServer) -> Iterator[Source]:
    url = ConnectionUrl.from_parts("mysql", mariadb.host, mariadb.port, mariadb.user, mariadb.password, DB).render()
    opened = open_source(SourceConfig(kind=SourceKind.MARIADB, connection="c"), url)
    yield opened
    opened.close()


def rows(server: MariaDBServer, table: str = f"{DB}.ticks") -> int:
    found = server.execute(f"SELECT COUNT(*) FROM information_schema.tables WHERE CONCAT(table_schema, '.', table_name) = '{table}'")[0][0]
    return int(server.execute(f"SELECT COUNT(*) FROM {table}")[0][0]) if found else 0


def connected(server: MariaDBServer, database: str) -> "pymysql.Connection[pymysql.cursors.Cursor]":
    return pymysql.connect(host=server.host, port=server.port, user=server.user, password=server.password, database=database)


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "the replica does not follow"
        time.sleep(0.1)


def wait_for_rows(server: MariaDBServer, wanted: int, table: str = f"{DB}.ticks") -> None:
    wait_for(lambda: rows(server, table) >= wanted)


def bound(source: Source) -> tuple[CursorValue, str]:
    schema = source.schema(TABLE)
    cursor, _ = source.cursor(schema, ("u",))
    found = source.safe_bound(schema, cursor, timedelta(0), None)
    return found.value, found.method


def test_the_bound_of_a_delayed_replica_stays_below_what_it_has_not_applied(
    mariadb: MariaDBServer, replica: MariaDBServer, source: Source
) -> None:
    before = rows(replica)
    mariadb.execute(f"INSERT INTO {DB}.ticks () VALUES ()")
    [(stamp,)] = mariadb.execute(f"SELECT CAST(MAX(u) AS CHAR) FROM {DB}.ticks")
    looks, passed = 0, False
    end = time.monotonic() + 60
    while not passed:
        assert time.monotonic() < end, "the bound never came"
        value, method = bound(source)
        assert method == METHOD_REPLICA
        passed = value.parts[0] > stamp
        applied = rows(replica) > before  # looked at after the bound: what it promised must be there by now
        assert applied or not passed
        looks += not applied
        time.sleep(0.2)
    assert looks  # the delay was met


def test_a_stopped_replica_is_refused_and_one_that_connects_can_be_tried_again(
    mariadb: MariaDBServer, replica: MariaDBServer, source: Source
) -> None:
    for stop in ("STOP SLAVE SQL_THREAD", "STOP SLAVE IO_THREAD"):
        replica.execute(stop)
        with pytest.raises(SourceError, match="its replication is stopped") as stopped:
            bound(source)
        assert not stopped.value.retryable
        replica.execute("START SLAVE")
    replica.execute("STOP SLAVE", "CHANGE MASTER TO MASTER_PORT = 1", "START SLAVE")
    with pytest.raises(SourceUnreachableError, match="its replication is stopped"):
        bound(source)
    replica.execute("STOP SLAVE", f"CHANGE MASTER TO MASTER_PORT = {mariadb.port}", "START SLAVE")
    mariadb.execute(f"INSERT INTO {DB}.ticks () VALUES ()")
    wait_for_rows(replica, rows(mariadb))
    assert bound(source)[1] == METHOD_REPLICA


# ----------------------------------------------------------------------------------------- reading whole tables from the replica


def test_a_replica_has_applied_a_position_only_when_its_rows_are_there(
    mariadb: MariaDBServer, replica: MariaDBServer, source: Source, primary: Source
) -> None:
    mariadb.execute(f"INSERT INTO {DB}.ticks () VALUES ()")
    position, wanted = primary.position(), rows(mariadb)
    assert not source.has_applied(position, timedelta(seconds=0.1))
    assert rows(replica) < wanted
    wait_for(lambda: source.has_applied(position, timedelta(seconds=1)))
    assert rows(replica) == wanted
    assert source.has_applied(position, timedelta(0))
    assert source.origin() == primary.origin() == "server_id 1", "a replica's rows are stamped by the server that it follows"


def test_what_is_no_running_replica_of_the_source_is_refused(replica: MariaDBServer, source: Source, primary: Source) -> None:
    position = primary.position()
    with pytest.raises(SourceError, match="is not a replica of the pipeline's source") as own:
        primary.has_applied(position, timedelta(seconds=1))
    assert "does not replicate from a server" in own.value.why
    with pytest.raises(SourceError, match="is not a replica of the pipeline's source") as another:
        source.has_applied(replace(position, server="77"), timedelta(seconds=1))
    assert another.value.why == "It replicates from the server 1; the source is 77."
    replica.execute("STOP SLAVE SQL_THREAD")
    with pytest.raises(SourceError, match="its replication is stopped"):
        source.has_applied(position, timedelta(seconds=1))
    replica.execute("SET GLOBAL replicate_do_db = 'elsewhere'", "START SLAVE")
    try:
        with pytest.raises(SourceError, match="only a part of its source") as part:
            source.has_applied(position, timedelta(seconds=1))
        assert "replicate_do_db: elsewhere" in part.value.why
    finally:
        replica.execute("STOP SLAVE", "SET GLOBAL replicate_do_db = ''", "START SLAVE")


def test_a_first_load_reads_the_replica_and_misses_nothing_that_was_committed_before(
    mariadb: MariaDBServer,
    replica: MariaDBServer,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = TableSettings.of(cursor=("u",), lookback=timedelta(0), parallelism=1)
    world = World(server=mariadb, folder=tmp_path, spark=spark, settings=settings, replica=replica)
    table = "CREATE TABLE {} (id INT PRIMARY KEY, u DATETIME(6) NOT NULL DEFAULT NOW(6), KEY (u))"
    world.sql(table.format("waited"), table.format("trusted"), "INSERT INTO waited (id) VALUES (1)", "INSERT INTO trusted (id) VALUES (1)")
    wait_for_rows(replica, 1, f"{world.database}.trusted")
    # A row that only the replica has, to tell where rows come from.
    replica.execute(
        "SET sql_log_bin = 0", *(f"INSERT INTO {name} (id) VALUES (99)" for name in ("waited", "trusted")), database=world.database
    )

    def load(name: str) -> list[int]:
        assert not world.run(tables=(f"{world.schema}.{name}",)).failures
        return [row[0] for row in world.lake(name, "id")]

    applied = MySQLPositions.has_applied
    with closing(connected(replica, world.database)) as blocker, blocker.cursor() as cursor:
        cursor.execute("LOCK TABLES waited READ")
        world.sql("INSERT INTO waited (id) VALUES (2)")  # committed below the bound, and not on the replica before the lock is gone

        def look(self: MySQLPositions, position: SourcePosition, within: timedelta) -> bool:
            found = applied(self, position, timedelta(seconds=1))
            if not found:
                cursor.execute("UNLOCK TABLES")
            return found

        monkeypatch.setattr(MySQLPositions, "has_applied", look)
        assert load("waited") == [1, 2, 99]
    assert any("waits until the replica has applied" in line for line in caplog.messages)

    # The same without the wait loses the row: proof that this test can fail.
    replica.execute("STOP SLAVE SQL_THREAD")
    monkeypatch.setattr(MySQLPositions, "has_applied", lambda *_: True)
    world.sql("INSERT INTO trusted (id) VALUES (2)")
    assert load("trusted") == [1, 99]
    replica.execute("START SLAVE")
    world.sql("INSERT INTO trusted (id) VALUES (3)")
    assert load("trusted") == [1, 3, 99]
