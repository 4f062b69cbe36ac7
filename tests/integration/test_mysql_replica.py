"""A real MySQL replica: it has applied a position of its source only when the rows are there."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.dev.servers import MySQLServer
from cdc_ops.errors import SourceError
from cdc_ops.sources.base import Source, open_source

DB = "replicated"


@pytest.fixture(scope="module")
def replica(mysql: MySQLServer, server_folder: Path) -> Iterator[MySQLServer]:
    options = ("--server-id=2", "--innodb-buffer-pool-size=64M", "--skip-log-bin", "--skip-replica-start")
    with MySQLServer(server_folder / "mysql-replica", options=options) as server:
        mysql.execute(
            "CREATE USER IF NOT EXISTS follower@'127.0.0.1' IDENTIFIED BY 'pw'", "GRANT REPLICATION SLAVE ON *.* TO follower@'127.0.0.1'"
        )
        [(name, offset, *_)] = mysql.execute("SHOW BINARY LOG STATUS")
        server.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{mysql.host}', SOURCE_PORT = {mysql.port}, SOURCE_USER = 'follower',"
            f" SOURCE_PASSWORD = 'pw', GET_SOURCE_PUBLIC_KEY = 1, SOURCE_LOG_FILE = '{name}', SOURCE_LOG_POS = {offset},"
            " SOURCE_CONNECT_RETRY = 1",
            "START REPLICA",
        )
        mysql.execute(f"CREATE DATABASE {DB}", f"CREATE TABLE {DB}.ticks (id INT PRIMARY KEY)")
        yield server
        server.execute("STOP REPLICA")


def opened(server: MySQLServer) -> Source:
    url = ConnectionUrl.from_parts("mysql", server.host, server.port, server.user, server.password, "").render()
    return open_source(SourceConfig(kind=SourceKind.MYSQL, connection="c"), url)


def test_a_replica_has_applied_a_position_only_when_its_rows_are_there(mysql: MySQLServer, replica: MySQLServer) -> None:
    primary, follower = opened(mysql), opened(replica)
    end = time.monotonic() + 60
    while not follower.has_applied(primary.position(), timedelta(seconds=1)):
        assert time.monotonic() < end, "the replica does not follow"
    mysql.execute(f"INSERT INTO {DB}.ticks VALUES (1)")
    position = primary.position()
    while not follower.has_applied(position, timedelta(seconds=1)):
        assert time.monotonic() < end, "the replica does not follow"
    assert replica.execute(f"SELECT id FROM {DB}.ticks") == [(1,)]
    [(uuid,)] = mysql.execute("SELECT @@server_uuid")
    assert follower.origin() == primary.origin() == uuid, "a replica's rows are stamped by the server that it follows"
    with pytest.raises(SourceError, match="is not a replica of the pipeline's source"):
        primary.has_applied(position, timedelta(seconds=1))
    with pytest.raises(SourceError, match="is not a replica of the pipeline's source"):
        follower.has_applied(replace(position, server="another"), timedelta(seconds=1))
    replica.execute("STOP REPLICA SQL_THREAD")
    mysql.execute(f"INSERT INTO {DB}.ticks VALUES (2)")
    with pytest.raises(SourceError, match="its replication is stopped"):
        follower.has_applied(primary.position(), timedelta(seconds=1))
    replica.execute("START REPLICA SQL_THREAD")
    primary.close()
    follower.close()
