"""A real MariaDB replica, over loopback: its bound never passes a row that it has not applied, and a stopped one is refused."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from cdc_ops.core.connections import ConnectionUrl
from cdc_ops.core.cursors import CursorValue
from cdc_ops.core.pipeline import SourceConfig, SourceKind
from cdc_ops.core.tables import TableName
from cdc_ops.errors import SourceError, SourceUnreachableError
from cdc_ops.sources.base import Source, open_source
from cdc_ops.sources.bounds import METHOD_REPLICA
from cdc_ops.testing.servers import MariaDBServer

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


def rows(server: MariaDBServer) -> int:
    found = server.execute(f"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{DB}'")[0][0]
    return int(server.execute(f"SELECT COUNT(*) FROM {DB}.ticks")[0][0]) if found else 0


def wait_for_rows(server: MariaDBServer, wanted: int) -> None:
    end = time.monotonic() + 30
    while rows(server) < wanted:
        assert time.monotonic() < end, "the replica does not follow"
        time.sleep(0.1)


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
    assert looks >= 5  # the delay was met


def test_a_stopped_replica_is_refused_and_one_that_connects_can_be_tried_again(
    mariadb: MariaDBServer, replica: MariaDBServer, source: Source
) -> None:
    for stop in ("STOP SLAVE SQL_THREAD", "STOP SLAVE IO_THREAD"):
        replica.execute(stop)
        with pytest.raises(SourceError, match="replication does not run") as stopped:
            bound(source)
        assert not stopped.value.retryable
        replica.execute("START SLAVE")
    replica.execute("STOP SLAVE", "CHANGE MASTER TO MASTER_PORT = 1", "START SLAVE")
    with pytest.raises(SourceUnreachableError, match="replication does not run"):
        bound(source)
    replica.execute("STOP SLAVE", f"CHANGE MASTER TO MASTER_PORT = {mariadb.port}", "START SLAVE")
    mariadb.execute(f"INSERT INTO {DB}.ticks () VALUES ()")
    wait_for_rows(replica, rows(mariadb))
    assert bound(source)[1] == METHOD_REPLICA
