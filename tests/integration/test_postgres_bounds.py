"""The safe bound against a real Postgres: what holds it back, what does not, and that no row ever appears below it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
import sqlalchemy

from cdc_ops.core.cursor.cursors import Cursor, CursorValue, parse_datetime
from cdc_ops.core.cursor.windows import SafeBound, next_window
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.dev.servers import PostgresServer
from cdc_ops.errors import CursorRegressionError
from cdc_ops.sources.postgres.open_transactions import is_plain_read
from cdc_ops.sources.postgres.source import PostgresSource
from cdc_ops.testing.late_commit import EARLY, LATER, Windowed, read_around_a_late_commit

DB = "bound_tests"
CONFIG = SourceConfig(kind=SourceKind.POSTGRES, connection="test")
LOOKBACK = timedelta(seconds=1)
WRITTEN = "SELECT to_char(fine AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') FROM events WHERE v = {}"


class Client:
    """A second application on the source's server."""

    def __init__(self, server: PostgresServer, user: str = "", password: str = "") -> None:
        self.connection = psycopg.connect(url(server, user, password), autocommit=True)

    def run(self, *statements: str) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = []
        for statement in statements:
            cursor = self.connection.execute(statement)  # type: ignore[arg-type]
            rows = cursor.fetchall() if cursor.description else []
        return rows

    @property
    def id(self) -> int:
        return self.connection.info.backend_pid

    def close(self) -> None:
        self.connection.close()


def url(server: PostgresServer, user: str = "", password: str = "") -> str:
    return ConnectionUrl.from_parts("postgresql", server.host, server.port, user or server.user, password or server.password, DB).render()


@pytest.fixture
def server(postgres: PostgresServer) -> PostgresServer:
    postgres.create_database(DB)
    postgres.execute(
        "DROP TABLE IF EXISTS events",
        """CREATE TABLE events (id bigserial PRIMARY KEY, v int, fine timestamptz NOT NULL DEFAULT now(),
             coarse timestamptz(0) NOT NULL DEFAULT now(), wall timestamp NOT NULL DEFAULT now())""",
        "INSERT INTO events (v) VALUES (1), (2), (3)",
        database=DB,
    )
    return postgres


@pytest.fixture
def source(server: PostgresServer) -> Iterator[PostgresSource]:
    opened = PostgresSource(CONFIG, url(server))
    yield opened
    opened.close()


@pytest.fixture
def connect(server: PostgresServer) -> Iterator[Callable[[], Client]]:
    clients: list[Client] = []

    def opened() -> Client:
        clients.append(Client(server))
        return clients[-1]

    yield opened
    for client in clients:
        client.close()


def table_and_cursor(source: PostgresSource, *columns: str) -> tuple[TableSchema, Cursor]:
    schema = source.schema(TableName(schema="public", name="events"))
    return schema, source.cursor(schema, columns)[0]


def bound_of(source: PostgresSource, *columns: str, since: CursorValue | None = None) -> SafeBound:
    return source.safe_bound(*table_and_cursor(source, *columns), LOOKBACK, since)


def wait_until(condition: Callable[[], object]) -> None:
    for _ in range(400):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it never came true")


@contextmanager
def after_each_statement(source: PostgresSource, act: Callable[[str], None]) -> Iterator[None]:
    """Acts whenever the source has had an answer from its server: in between its looks."""

    def answered(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        act(statement)

    sqlalchemy.event.listen(source._session._engine, "after_cursor_execute", answered)
    yield
    sqlalchemy.event.remove(source._session._engine, "after_cursor_execute", answered)


@contextmanager
def background(statement: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=statement)
    thread.start()
    try:
        yield
    finally:
        thread.join(30)


def until_it_is_cancelled(client: Client, statement: str) -> None:
    with suppress(psycopg.errors.QueryCanceled):
        client.run(statement)


def is_running(server: PostgresServer, client: Client) -> bool:
    return bool(server.execute(f"SELECT 1 FROM pg_stat_activity WHERE pid = {client.id} AND state = 'active'"))


# ------------------------------------------------------------------------------------------------------------- what holds back


def test_an_open_writer_holds_the_bound_exactly_at_its_start(source: PostgresSource, connect: Callable[[], Client]) -> None:
    writer = connect()
    writer.run("BEGIN", "UPDATE events SET v = 10, fine = now() WHERE id = 1")
    [[written]] = writer.run(WRITTEN.format(10))
    bound = bound_of(source, "fine")
    assert bound.value.parts[0] == str(written) < bound.clock.parts[0]
    assert f"cdc@127.0.0.1 on connection {writer.id}" in bound.held_by
    assert "idle in transaction" in bound.held_by
    assert "UPDATE" not in bound.held_by
    writer.run("COMMIT")
    assert bound_of(source, "fine").held_by == ""


def test_of_two_open_writers_the_one_that_began_first_holds_the_bound(source: PostgresSource, connect: Callable[[], Client]) -> None:
    first, second = connect(), connect()
    first.run("BEGIN", "UPDATE events SET v = 21, fine = now() WHERE id = 1")
    second.run("BEGIN", "UPDATE events SET v = 22, fine = now() WHERE id = 2")
    [[written]] = first.run(WRITTEN.format(21))
    bound = bound_of(source, "fine")
    assert bound.value.parts[0] == str(written)
    assert f"connection {first.id}" in bound.held_by


def test_a_transaction_that_has_only_read_so_far_holds_back_because_it_may_write_with_its_old_now(
    source: PostgresSource, connect: Callable[[], Client]
) -> None:
    writer = connect()
    writer.run("BEGIN", "SELECT * FROM events")
    bound = bound_of(source, "fine")
    writer.run("UPDATE events SET v = 11, fine = now() WHERE id = 1")
    [[written]] = writer.run(WRITTEN.format(11))
    assert str(written) >= bound.value.parts[0]
    assert str(written) < bound.clock.parts[0]


def test_a_reader_in_the_middle_of_its_select_holds_nothing_back(
    source: PostgresSource, server: PostgresServer, connect: Callable[[], Client]
) -> None:
    reader = connect()
    with background(lambda: until_it_is_cancelled(reader, "SELECT pg_sleep(20), id FROM events WHERE id = 1")):
        wait_until(lambda: is_running(server, reader))
        assert bound_of(source, "fine").held_by == ""
        assert is_running(server, reader)
        server.execute(f"SELECT pg_cancel_backend({reader.id})")


def test_a_reader_whose_role_is_read_only_holds_nothing_back_until_it_writes(source: PostgresSource, server: PostgresServer) -> None:
    server.execute("DROP ROLE IF EXISTS report", "CREATE ROLE report LOGIN PASSWORD 'pw' IN ROLE pg_read_all_data, pg_write_all_data")
    server.execute("ALTER ROLE report SET default_transaction_read_only = on")
    reader = Client(server, "report", "pw")
    reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT * FROM events")
    assert bound_of(source, "fine").held_by == ""
    reader.run("COMMIT", "BEGIN READ WRITE", "UPDATE events SET v = 12 WHERE id = 1")
    assert f"connection {reader.id}" in bound_of(source, "fine").held_by
    reader.close()


def test_a_statement_that_waits_for_a_lock_holds_back(
    source: PostgresSource, server: PostgresServer, connect: Callable[[], Client]
) -> None:
    locker, waiter = connect(), connect()
    locker.run("SET application_name = 'pg_dump'", "BEGIN", "LOCK TABLE events IN SHARE MODE")
    with background(lambda: waiter.run("UPDATE events SET v = 14, fine = now() WHERE id = 2")):
        wait_until(lambda: server.execute(f"SELECT 1 FROM pg_stat_activity WHERE pid = {waiter.id} AND wait_event_type = 'Lock'"))
        bound = bound_of(source, "fine")
        locker.run("COMMIT")
    [[written]] = waiter.run(WRITTEN.format(14))
    assert f"connection {waiter.id}" in bound.held_by
    assert bound.value.parts[0] <= str(written) < bound.clock.parts[0]


def test_a_prepared_transaction_holds_the_watermark_where_it_is(source: PostgresSource, connect: Callable[[], Client]) -> None:
    since = bound_of(source, "fine").value
    gone = connect()
    gone.run("BEGIN", "UPDATE events SET v = 15, fine = now() WHERE id = 3")
    [[written]] = gone.run(WRITTEN.format(15))
    gone.run("PREPARE TRANSACTION 'cdc-1'")
    gone.close()
    other = connect()
    try:
        bound = bound_of(source, "fine", since=since)
        assert bound.value == since
        assert str(written) >= since.parts[0]
        assert "prepared transaction 'cdc-1'" in bound.held_by
        assert "ROLLBACK PREPARED" in bound.warnings[-1]
        counter = bound_of(source, "id", since=CursorValue(parts=("1",)))
        assert counter.value.parts == ("1",)
    finally:
        other.run("ROLLBACK PREPARED 'cdc-1'")
    assert bound_of(source, "fine").held_by == ""


def test_what_is_prepared_between_the_looks_at_the_server_holds_back(source: PostgresSource, connect: Callable[[], Client]) -> None:
    schema, cursor = table_and_cursor(source, "fine")
    writer, other = connect(), connect()
    writer.run("BEGIN", "UPDATE events SET v = 23, fine = now() WHERE id = 3")
    [[written]] = writer.run(WRITTEN.format(23))
    prepared: list[str] = []

    def prepare(statement: str) -> None:
        if not prepared and ("pg_stat_activity" in statement or "pg_prepared_xacts" in statement):
            prepared.append(statement)
            writer.run("PREPARE TRANSACTION 'cdc-3'")

    try:
        with after_each_statement(source, prepare):
            bound = source.safe_bound(schema, cursor, LOOKBACK, None)
        assert prepared
        assert bound.value.parts[0] <= str(written)
    finally:
        other.run("ROLLBACK PREPARED 'cdc-3'")


def test_a_transaction_of_another_database_holds_nothing_back(source: PostgresSource, server: PostgresServer) -> None:
    elsewhere = ConnectionUrl.from_parts("postgresql", server.host, server.port, server.user, server.password, "postgres").render()
    with psycopg.connect(elsewhere, autocommit=False) as other:
        other.execute("SELECT 1")
        assert bound_of(source, "fine").held_by == ""


@pytest.mark.parametrize(
    ("statement", "reads"),
    [
        ("SELECT 1", True),
        ("  select count(*) from t where (a in (1, 2)) ;", True),
        ("TABLE t", True),
        ("SELECT do_work(1)", False),
        ('SELECT "odd" (1)', False),
        ("SELECT a/**/(1)", False),
        ("SELECT 1; UPDATE t SET a = 1", False),
        ("SELECT * FROM t FOR NO KEY UPDATE", False),
        ("SELECT * INTO u FROM t", False),
        ("WITH q AS (DELETE FROM t RETURNING *) SELECT * FROM q", False),
        ("EXPLAIN ANALYZE UPDATE t SET a = 1", False),
        ("COPY t FROM STDIN", False),
        ("SELECTIVE", False),
        ("", False),
    ],
)
def test_a_statement_is_a_plain_read_only_if_it_surely_is(statement: str, reads: bool) -> None:
    assert is_plain_read(statement) is reads


# ------------------------------------------------------------------------------------------------------- what the bound promises


def test_whoever_begins_between_the_looks_at_the_server_is_not_below_the_bound(
    source: PostgresSource, connect: Callable[[], Client]
) -> None:
    """One writer at a time, behind each statement in turn: of several the first one would hold the bound for all."""
    schema, cursor = table_and_cursor(source, "fine")
    writer, statements, stamps = connect(), list[str](), list[str]()
    turn = 0

    def begin(statement: str) -> None:
        statements.append(statement)
        if len(statements) == turn:
            writer.run("BEGIN", f"INSERT INTO events (v) VALUES ({100 + turn})")
            [[written]] = writer.run(WRITTEN.format(100 + turn))
            stamps.append(str(written))

    while len(stamps) == turn:
        turn += 1
        statements.clear()
        with after_each_statement(source, begin):
            bound = source.safe_bound(schema, cursor, timedelta(0), None)
        assert len(stamps) < turn or bound.value.parts[0] <= stamps[-1], statements[turn - 1]
        writer.run("ROLLBACK")
    assert turn > 3


@pytest.mark.parametrize("column", ["wall", "coarse"])
def test_a_late_commit_is_read_by_the_next_window(source: PostgresSource, connect: Callable[[], Client], column: str) -> None:
    """A column without zone, and one of whole seconds, which Postgres rounds; the suite for sources has the other cursors."""
    a, b = connect(), connect()
    for client in (a, b):
        client.run("SET timezone = 'UTC'")
    schema, cursor = table_and_cursor(source, column)
    first, second = read_around_a_late_commit(Windowed(source=source, schema=schema, cursor=cursor, lookback=LOOKBACK), a, b)
    assert EARLY not in first
    assert {EARLY, LATER} <= {*first, *second}


# ---------------------------------------------------------------------------------------------------------------------- counters


def test_a_serial_waits_for_the_numbers_that_are_handed_out(source: PostgresSource, connect: Callable[[], Client]) -> None:
    a, b = connect(), connect()
    a.run("BEGIN", "INSERT INTO events (v) VALUES (4)")
    b.run("INSERT INTO events (v) VALUES (5)")
    ended = threading.Timer(0.7, lambda: a.run("COMMIT"))
    ended.start()
    bound = source.safe_bound(*table_and_cursor(source, "id"), timedelta(seconds=10), CursorValue(parts=("4",)))
    ended.join()
    assert bound.value.parts == ("6",)
    assert b.run("SELECT COUNT(*) FROM events WHERE id >= 4 AND id < 6") == [(2,)]


def test_a_serial_stays_where_it_is_while_an_insert_is_open(source: PostgresSource, connect: Callable[[], Client]) -> None:
    a, b = connect(), connect()
    a.run("BEGIN", "SELECT nextval('events_id_seq')")
    b.run("INSERT INTO events (v) VALUES (5)")
    since = CursorValue(parts=("4",))
    bound = bound_of(source, "id", since=since)
    assert bound.value == since
    assert f"connection {a.id}" in bound.held_by


def test_a_writer_that_is_prepared_meanwhile_is_not_taken_for_ended(source: PostgresSource, connect: Callable[[], Client]) -> None:
    a, b = connect(), connect()
    a.run("BEGIN", "INSERT INTO events (v) VALUES (4)")
    b.run("INSERT INTO events (v) VALUES (5)")
    prepared = threading.Timer(0.4, lambda: a.run("PREPARE TRANSACTION 'cdc-2'"))
    prepared.start()
    try:
        since = CursorValue(parts=("4",))
        assert bound_of(source, "id", since=since).value == since
    finally:
        prepared.join()
        b.run("ROLLBACK PREPARED 'cdc-2'")


def test_deleting_the_last_row_does_not_look_like_a_counter_that_went_back(
    source: PostgresSource, server: PostgresServer, connect: Callable[[], Client]
) -> None:
    since = bound_of(source, "id").value
    assert since.parts == ("4",)
    _, cursor = table_and_cursor(source, "id")
    connect().run("DELETE FROM events WHERE id = 3")
    assert next_window(cursor, since, bound_of(source, "id", since=since)) is None
    server.execute("TRUNCATE events RESTART IDENTITY", database=DB)
    with pytest.raises(CursorRegressionError):
        next_window(cursor, since, bound_of(source, "id", since=since))


# -------------------------------------------------------------------------------------------------------- grants, zones


@pytest.fixture
def humble(server: PostgresServer) -> Iterator[PostgresSource]:
    server.execute("DROP ROLE IF EXISTS humble", "CREATE ROLE humble LOGIN PASSWORD 'pw' IN ROLE pg_read_all_data")
    opened = PostgresSource(CONFIG, url(server, "humble", "pw"))
    yield opened
    opened.close()


def test_without_the_grant_the_bound_stays_the_lookback_behind_and_names_it(humble: PostgresSource) -> None:
    bound = bound_of(humble, "fine")
    assert bound.method == "clock-overlap"
    assert parse_datetime(bound.clock.parts[0]) - parse_datetime(bound.value.parts[0]) == LOOKBACK
    assert 'GRANT pg_read_all_stats TO "humble"' in "".join(bound.warnings)
    counter = bound_of(humble, "id")
    assert counter.method == "counter-overlap"
    assert counter.value.parts == ("4",)


def test_a_column_without_zone_is_bounded_by_the_zone_in_which_it_is_written(server: PostgresServer) -> None:
    source = PostgresSource(replace(CONFIG, time_zone="Asia/Shanghai"), url(server))
    free = bound_of(source, "wall")
    writer = Client(server)
    writer.run("SET timezone = 'Asia/Shanghai'", "BEGIN", "UPDATE events SET v = 20, wall = now() WHERE id = 1")
    [[written]] = writer.run("SELECT to_char(wall, 'YYYY-MM-DD HH24:MI:SS.US') FROM events WHERE id = 1")
    held = bound_of(source, "wall")
    writer.close()
    source.close()
    assert held.value.parts[0] == str(written)
    assert free.value.parts[0] < str(written) < held.clock.parts[0]
