"""What other sessions run on a real MariaDB or MySQL, whatever is in its text, never keeps cdc-ops from listing who may still write."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import timedelta

import pymysql
import pymysql.cursors
import pytest

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.sources.bounds.activity import ServerActivity
from cdc_ops.sources.mysql.source import MySQLSource

DB = "text_tests"
QUERY = 3
EMOJI = "\U0001f600".encode()
TEXTS = {
    "four bytes": b"'" + EMOJI + b"'",
    "invalid": b"'\xff\xfe\xc3'",
    "bytes": b"_binary'\xe4\xf6\xff\x00'",
    "long": b"'" + EMOJI * 3000 + b"'",
}


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found: DatabaseServer = request.getfixturevalue(request.param)
    found.create_database(DB)
    found.execute("DROP TABLE IF EXISTS t, other", "CREATE TABLE t (id INT PRIMARY KEY, v BLOB)", database=DB)
    found.execute("CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1, 'a')", database=DB)
    return found


@pytest.fixture
def source(server: DatabaseServer) -> Iterator[MySQLSource]:
    url = ConnectionUrl.from_parts("mysql", server.host, server.port, server.user, server.password, DB).render()
    with closing(MySQLSource(SourceConfig(kind=SourceKind(server.name.lower()), connection="c"), url)) as opened:
        yield opened


def connected(server: DatabaseServer) -> "pymysql.Connection[pymysql.cursors.Cursor]":
    password = server.password.encode()
    return pymysql.connect(host=server.host, port=server.port, user=server.user, password=password, database=DB, autocommit=True)  # type: ignore[arg-type]


@contextmanager
def running(server: DatabaseServer, statement: bytes) -> Iterator[int]:
    """Runs bytes that are no text as a statement of another session; yields its connection."""
    client = connected(server)

    def run() -> None:
        with suppress(pymysql.MySQLError):
            client._execute_command(QUERY, statement)  # type: ignore[attr-defined]
            client._read_query_result()  # type: ignore[attr-defined]

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield client.thread_id()
    finally:
        with suppress(pymysql.MySQLError):
            server.execute(f"KILL {client.thread_id()}")
        thread.join(30)


def seen(source: MySQLSource, wanted: set[int]) -> ServerActivity:
    """Looks until all of some connections are among the writers."""
    end = time.monotonic() + 30
    while True:
        activity = source.parts.probe.observe()
        if wanted <= {writer.connection for writer in activity.writers}:
            return activity
        assert time.monotonic() < end, activity


def test_no_text_of_a_statement_hides_who_writes_or_makes_a_reader_a_writer(server: DatabaseServer, source: MySQLSource) -> None:
    with ExitStack() as stack:
        locker = stack.enter_context(closing(connected(server)))
        with locker.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT * FROM t FOR UPDATE")
        readers = {stack.enter_context(running(server, b"SELECT SLEEP(60), " + text)) for text in TEXTS.values()}
        writers = {stack.enter_context(running(server, b"UPDATE t SET v = " + text)) for text in TEXTS.values()}
        activity = seen(source, writers)
        assert activity.complete
        assert not readers & {writer.connection for writer in activity.writers}
        assert source.running() >= len(readers)


def test_a_transaction_that_stays_open_is_listed_beside_such_a_statement(server: DatabaseServer, source: MySQLSource) -> None:
    with closing(connected(server)) as idle, closing(connected(server)) as prepared, idle.cursor() as one, prepared.cursor() as other:
        one.execute("BEGIN")
        one.execute("UPDATE t SET v = 'b' WHERE id = 1")
        other.execute("XA START 'text'")
        other.execute("INSERT INTO other VALUES (2)")
        other.execute("XA END 'text'")
        other.execute("XA PREPARE 'text'")
        try:
            with running(server, b"UPDATE t SET v = " + TEXTS["four bytes"] + b" WHERE id = 1") as waiting:
                activity = seen(source, {idle.thread_id(), waiting})
                begun = [writer.started for writer in activity.writers if writer.connection == idle.thread_id()]
                assert all(timedelta(0) < activity.now - start < timedelta(seconds=60) for start in begun)
                assert any("XA" in writer.hint for writer in activity.writers) or any(
                    writer.connection == prepared.thread_id() for writer in activity.writers
                )
        finally:
            other.execute("XA ROLLBACK 'text'")
