"""A prepared XA transaction outlives a restart of its server: the bound stays where it was until it has ended, and no row of it is lost."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pymysql
import pytest

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.windows import SafeBound
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.sources.mysql.mariadb import MariaDBSource
from cdc_ops.sources.mysql.source import MySQLSource
from cdc_ops.testing.source_harness import wait_until

DB = "shop"
CONFIG = SourceConfig(kind=SourceKind.MARIADB, connection="test")
EVENTS = "CREATE TABLE events (id INT PRIMARY KEY, fine DATETIME(6) NOT NULL DEFAULT NOW(6), KEY (fine))"


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest, server_folder: Path) -> Iterator[DatabaseServer]:
    """A server for this test only: the test restarts it."""
    kind: type[DatabaseServer] = type(request.getfixturevalue(request.param))
    with kind(server_folder / f"{request.param}-restarted") as server:
        server.create_database(DB)
        server.execute(EVENTS, "INSERT INTO events (id) VALUES (1)", database=DB)
        yield server


def source_of(server: DatabaseServer) -> MySQLSource:
    url = ConnectionUrl.from_parts("mysql", server.host, server.port, server.user, server.password, DB).render()
    return MariaDBSource(CONFIG, url) if server.name == "MariaDB" else MySQLSource(replace(CONFIG, kind=SourceKind.MYSQL), url)


def bound_of(server: DatabaseServer, since: CursorValue | None = None) -> SafeBound:
    with closing(source_of(server)) as source:
        schema = source.schema(TableName(schema=DB, name="events"))
        return source.safe_bound(schema, source.cursor(schema, ("fine",))[0], timedelta(0), since)


def prepare(server: DatabaseServer, name: str, key: int) -> None:
    """Leaves a row in a prepared transaction whose client is gone."""
    client = pymysql.connect(host=server.host, port=server.port, user=server.user, password=server.password, database=DB, autocommit=True)
    with client, client.cursor() as cursor:
        for statement in (f"XA START '{name}'", f"INSERT INTO events (id) VALUES ({key})", f"XA END '{name}'", f"XA PREPARE '{name}'"):
            cursor.execute(statement)
        cursor.execute("SELECT CONNECTION_ID()")
        [[gone]] = cursor.fetchall()
    wait_until(lambda: not server.execute(f"SELECT 1 FROM information_schema.processlist WHERE ID = {gone}"), "the end of the client")


def row(server: DatabaseServer, key: int) -> datetime:
    [[written]] = server.execute(f"SELECT fine FROM {DB}.events WHERE id = {key}")
    assert isinstance(written, datetime)
    return written


def has_passed(server: DatabaseServer, moment: str) -> Callable[[], bool]:
    return lambda: bool(server.execute(f"SELECT NOW() > '{moment}' + INTERVAL 1 SECOND")[0][0])


def test_a_prepared_transaction_holds_the_watermark_over_a_restart_until_it_has_ended(server: DatabaseServer) -> None:
    since = bound_of(server).value
    prepare(server, "before", 2)
    server.stop()
    server.start()

    held = bound_of(server, since)
    assert held.value == since, "its start is unknown"
    assert "prepared XA" in held.held_by
    assert [text for text in held.warnings if "XA RECOVER" in text]
    assert not [text for text in held.warnings if "no watermark can wait" in text]
    assert [text for text in bound_of(server).warnings if "no watermark can wait" in text]

    # What is prepared from now on has a start that is known, however short ago the server was started.
    wait_until(has_passed(server, str(server.execute("SELECT NOW()")[0][0])), "the next second")
    prepare(server, "after", 3)
    server.execute("XA COMMIT 'before'")
    known = bound_of(server, since)
    assert since.parts[0] < known.value.parts[0]
    assert datetime.fromisoformat(str(known.value.parts[0])) > row(server, 2), "the next window has its row"
    assert row(server, 2) >= datetime.fromisoformat(str(since.parts[0]))
    server.execute("XA COMMIT 'after'")
    assert datetime.fromisoformat(str(known.value.parts[0])) <= row(server, 3)
    assert bound_of(server, since).held_by == ""
