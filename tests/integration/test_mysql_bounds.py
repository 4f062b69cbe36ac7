"""The safe bound against a real MariaDB and a real MySQL: what holds it back, what does not, and that no row ever appears below it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pymysql
import pymysql.cursors
import pytest
import sqlalchemy

from cdc_ops.core.cursor.cursors import Cursor, CursorValue, parse_datetime
from cdc_ops.core.cursor.windows import SafeBound, next_window
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.errors import CursorRegressionError
from cdc_ops.sources.mysql.bounds.open_transactions import is_plain_read
from cdc_ops.sources.mysql.mariadb import MariaDBSource
from cdc_ops.sources.mysql.source import MySQLSource
from cdc_ops.testing.late_commit import EARLY, LATER, Windowed, read_around_a_late_commit

DB = "bound_tests"
CONFIG = SourceConfig(kind=SourceKind.MARIADB, connection="test")
LOOKBACK = timedelta(seconds=1)
BEFORE, AFTER = "before_cursor_execute", "after_cursor_execute"


class Client:
    """A second application on the source's server."""

    def __init__(self, server: DatabaseServer, user: str = "", password: str = "") -> None:
        self.connection: pymysql.Connection[pymysql.cursors.Cursor] = pymysql.connect(
            host=server.host,
            port=server.port,
            user=user or server.user,
            password=password or server.password,
            database=DB,
            autocommit=True,
        )

    def run(self, *statements: str) -> tuple[tuple[object, ...], ...]:
        rows: tuple[tuple[object, ...], ...] = ()
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = cursor.fetchall()
        return rows

    @property
    def id(self) -> int:
        return self.connection.thread_id()

    def close(self) -> None:
        if self.connection.open:
            self.connection.close()


def url(server: DatabaseServer, user: str = "", password: str = "") -> str:
    return ConnectionUrl.from_parts("mysql", server.host, server.port, user or server.user, password or server.password, DB).render()


def create_tables(server: DatabaseServer) -> None:
    server.create_database(DB)
    server.execute(
        "DROP TABLE IF EXISTS events",
        """CREATE TABLE events (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT,
             fine DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), coarse DATETIME NOT NULL DEFAULT NOW() ON UPDATE NOW(),
             moment TIMESTAMP(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (fine), KEY (coarse), KEY (moment))""",
        "INSERT INTO events (id, v) VALUES (1, 1), (2, 2), (3, 3)",
        database=DB,
    )


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found: DatabaseServer = request.getfixturevalue(request.param)
    create_tables(found)
    return found


@pytest.fixture
def source(server: DatabaseServer) -> Iterator[MySQLSource]:
    opened = (
        MariaDBSource(CONFIG, url(server)) if server.name == "MariaDB" else MySQLSource(replace(CONFIG, kind=SourceKind.MYSQL), url(server))
    )
    yield opened
    opened.close()


@pytest.fixture
def connect(server: DatabaseServer) -> Iterator[Callable[[], Client]]:
    clients: list[Client] = []

    def opened() -> Client:
        clients.append(Client(server))
        return clients[-1]

    yield opened
    for client in clients:
        client.close()


def table_and_cursor(source: MySQLSource, *columns: str) -> tuple[TableSchema, Cursor]:
    schema = source.schema(TableName(schema=DB, name="events"))
    return schema, source.cursor(schema, columns)[0]


def bound_of(source: MySQLSource, *columns: str, since: CursorValue | None = None) -> SafeBound:
    return source.safe_bound(*table_and_cursor(source, *columns), LOOKBACK, since)


def wait_until(condition: Callable[[], object]) -> None:
    for _ in range(400):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it never came true")


@contextmanager
def acting(source: MySQLSource, moment: str, act: Callable[[str], None]) -> Iterator[None]:
    """Acts in between the looks of a source at its server: at each statement, at SQLAlchemy's `before_` or `after_cursor_execute`."""

    def reached(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        act(statement)

    sqlalchemy.event.listen(source._session._engine, moment, reached)
    yield
    sqlalchemy.event.remove(source._session._engine, moment, reached)


@contextmanager
def background(statement: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=statement)
    thread.start()
    try:
        yield
    finally:
        thread.join(30)


def until_it_is_killed(client: Client, statement: str) -> None:
    with suppress(pymysql.MySQLError):
        client.run(statement)


def is_running(server: DatabaseServer, client: Client) -> bool:
    rows = server.execute(f"SELECT INFO FROM information_schema.processlist WHERE ID = {client.id}")
    return bool(rows and rows[0][0])


# ------------------------------------------------------------------------------------------------------------- what holds back


def test_an_open_writer_holds_the_bound_below_its_rows(source: MySQLSource, connect: Callable[[], Client]) -> None:
    writer = connect()
    writer.run("BEGIN", "UPDATE events SET v = 10 WHERE id = 1")
    [[written]] = writer.run("SELECT CAST(fine AS CHAR) FROM events WHERE id = 1")
    bound = bound_of(source, "fine")
    assert bound.value.parts[0] < str(written) < bound.clock.parts[0]
    assert f"connection {writer.id}" in bound.held_by
    assert "cdc@127.0.0.1" in bound.held_by
    assert "idle" in bound.held_by
    assert "UPDATE" not in bound.held_by
    writer.run("COMMIT")
    assert bound_of(source, "fine").held_by == ""


def test_a_reader_and_a_bare_begin_hold_nothing_back(source: MySQLSource, connect: Callable[[], Client]) -> None:
    reader, beginner = connect(), connect()
    reader.run("START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT * FROM events")
    beginner.run("BEGIN")
    assert bound_of(source, "fine").held_by == ""


def test_a_reader_in_the_middle_of_its_select_holds_nothing_back(
    source: MySQLSource, server: DatabaseServer, connect: Callable[[], Client]
) -> None:
    reader = connect()
    with background(lambda: until_it_is_killed(reader, "/* a report */ SELECT SLEEP(20), id FROM events WHERE id = 1")):
        wait_until(lambda: is_running(server, reader))
        assert bound_of(source, "fine").held_by == ""
        assert is_running(server, reader)
        server.execute(f"KILL QUERY {reader.id}")


def test_a_statement_that_waits_for_a_row_lock_holds_back(
    source: MySQLSource, server: DatabaseServer, connect: Callable[[], Client]
) -> None:
    locker, waiter = connect(), connect()
    locker.run("BEGIN", "SELECT * FROM events WHERE id = 1 FOR UPDATE")
    assert bound_of(source, "fine").held_by == ""
    with background(lambda: waiter.run("UPDATE events SET v = 11 WHERE id = 1")):
        wait_until(lambda: is_running(server, waiter))
        bound = bound_of(source, "fine")
        locker.run("COMMIT")
    assert f"connection {waiter.id}" in bound.held_by
    [[written]] = waiter.run("SELECT CAST(fine AS CHAR) FROM events WHERE id = 1")
    assert bound.value.parts[0] < str(written)


def test_a_statement_that_innodb_does_not_know_yet_holds_back(
    source: MySQLSource, server: DatabaseServer, connect: Callable[[], Client]
) -> None:
    locker, waiter = connect(), connect()
    locker.run("LOCK TABLES events READ")
    with background(lambda: waiter.run("UPDATE events SET v = 12 WHERE id = 2")):
        wait_until(lambda: is_running(server, waiter))
        bound = bound_of(source, "fine")
        locker.run("UNLOCK TABLES")
    assert f"a statement of cdc@127.0.0.1 on connection {waiter.id}" in bound.held_by
    [[written]] = waiter.run("SELECT CAST(fine AS CHAR) FROM events WHERE id = 2")
    assert bound.value.parts[0] < str(written)


def test_a_statement_that_waits_holds_the_bound_below_its_now_also_without_a_lookback(
    source: MySQLSource, server: DatabaseServer, connect: Callable[[], Client]
) -> None:
    """A server that tells ages in whole seconds calls it younger than it is, unless a second has ended meanwhile."""
    schema, cursor = table_and_cursor(source, "fine")
    locker, waiter = connect(), connect()
    for value in (21, 22, 23):
        locker.run("LOCK TABLES events READ")
        wait_until(lambda: server.execute("SELECT MICROSECOND(NOW(6)) < 100000")[0][0])
        with background(lambda value=value: waiter.run(f"UPDATE events SET v = {value} WHERE id = 2")):  # type: ignore[misc]
            wait_until(lambda: is_running(server, waiter))
            bound = source.safe_bound(schema, cursor, timedelta(0), None)
            locker.run("UNLOCK TABLES")
        [[written]] = waiter.run("SELECT CAST(fine AS CHAR) FROM events WHERE id = 2")
        assert bound.value.parts[0] <= str(written) < bound.clock.parts[0]


def test_a_statement_that_ends_between_the_looks_and_leaves_its_transaction_open_holds_back(
    source: MySQLSource, server: DatabaseServer, connect: Callable[[], Client]
) -> None:
    """It is unknown to InnoDB at the first look, and no statement any more at the second."""
    schema, cursor = table_and_cursor(source, "fine")
    locker, waiter = connect(), connect()
    locker.run("LOCK TABLES events READ")
    update = threading.Thread(target=lambda: waiter.run("BEGIN", "UPDATE events SET v = 16 WHERE id = 2"))
    update.start()
    wait_until(lambda: is_running(server, waiter))
    let_go: list[str] = []

    def let_it_go(statement: str) -> None:
        if not let_go and ("processlist" in statement.lower() or "innodb_trx" in statement):
            let_go.append(statement)
            locker.run("UNLOCK TABLES")
            update.join(30)

    with acting(source, AFTER, let_it_go):
        bound = source.safe_bound(schema, cursor, LOOKBACK, None)
    assert let_go
    [[written]] = waiter.run("SELECT CAST(fine AS CHAR) FROM events WHERE v = 16")
    assert bound.value.parts[0] <= str(written)
    assert f"connection {waiter.id}" in bound.held_by


def test_a_prepared_transaction_without_a_connection_holds_back(
    source: MySQLSource, server: DatabaseServer, connect: Callable[[], Client]
) -> None:
    since = bound_of(source, "fine").value
    gone = connect()
    gone.run("XA START 'x1'", "UPDATE events SET v = 13 WHERE id = 3")
    [[written]] = gone.run("SELECT CAST(fine AS CHAR) FROM events WHERE id = 3")
    gone.run("XA END 'x1'", "XA PREPARE 'x1'")
    identity = gone.id
    gone.close()
    wait_until(lambda: not server.execute(f"SELECT 1 FROM information_schema.processlist WHERE ID = {identity}"))
    try:
        bound = bound_of(source, "fine", since=since)
        assert bound.value.parts[0] < str(written)
        assert "prepared XA" in bound.held_by
    finally:
        server.execute("XA ROLLBACK 'x1'")
    assert bound_of(source, "fine").held_by == ""


def test_somebody_who_reads_the_listing_all_the_time_cannot_make_it_old(source: MySQLSource, connect: Callable[[], Client]) -> None:
    """The server renews the listing of transactions only when nobody has read it for a tenth of a second."""
    schema, cursor = table_and_cursor(source, "fine")
    monitor, writer = connect(), connect()
    listed: list[str] = []

    def look(statement: str) -> None:
        if not listed:
            monitor.run("SELECT * FROM information_schema.innodb_trx")
        if "innodb_trx" in statement:
            listed.append(statement)

    monitor.run("SELECT * FROM information_schema.innodb_trx")
    writer.run("BEGIN", "UPDATE events SET v = 14 WHERE id = 1")
    [[written]] = writer.run("SELECT CAST(fine AS CHAR) FROM events WHERE v = 14")
    with acting(source, BEFORE, look):
        bound = source.safe_bound(schema, cursor, LOOKBACK, None)
    assert listed
    assert f"connection {writer.id}" in bound.held_by
    assert bound.value.parts[0] <= str(written)


@pytest.mark.parametrize(
    ("statement", "reads"),
    [
        ("SELECT 1", True),
        ("  /* x */ (SELECT 1) UNION (SELECT 2)", True),
        ("-- why\nSELECT 1", True),
        ("WITH q AS (SELECT 1) SELECT * FROM q", True),
        ("EXPLAIN UPDATE t SET a = 1", True),
        ("SELECT * FROM t FOR UPDATE", False),
        ("WITH q AS (SELECT 1) UPDATE t JOIN q SET a = 1", False),
        ("WITH q AS (SELECT 1) SELECT '" + "x" * 1024, False),
        ("/*! UPDATE t SET a = 1 */", False),
        ("/*M! UPDATE */ t SET a = 1", False),
        ("UPDATE t SET a = 1", False),
        ("CALL p()", False),
        ("SELECTIVE", False),
        ("", False),
    ],
)
def test_a_statement_is_a_plain_read_only_if_it_surely_is(statement: str, reads: bool) -> None:
    assert is_plain_read(statement) is reads


# ------------------------------------------------------------------------------------------------------- what the bound promises


@pytest.mark.parametrize("column", ["fine", "coarse", "moment"])
def test_what_is_written_after_a_bound_is_never_below_it(source: MySQLSource, connect: Callable[[], Client], column: str) -> None:
    writer = connect()
    for value in range(8):
        bound = bound_of(source, column)
        writer.run(f"INSERT INTO events (v) VALUES ({value})")
        [[written]] = writer.run(f"SELECT CAST({column} AS CHAR) FROM events ORDER BY id DESC LIMIT 1")
        assert parse_datetime(str(written)) >= parse_datetime(bound.value.parts[0])


def test_whoever_begins_between_the_looks_at_the_server_is_not_below_the_bound(source: MySQLSource, connect: Callable[[], Client]) -> None:
    """One writer at a time, behind each statement in turn: of several the first one would hold the bound for all."""
    schema, cursor = table_and_cursor(source, "fine")
    writer, statements, stamps = connect(), list[str](), list[str]()
    turn = 0

    def begin(statement: str) -> None:
        statements.append(statement)
        if len(statements) == turn:
            writer.run("BEGIN", f"INSERT INTO events (v) VALUES ({100 + turn})")
            [[written]] = writer.run(f"SELECT CAST(fine AS CHAR) FROM events WHERE v = {100 + turn}")
            stamps.append(str(written))

    while len(stamps) == turn:
        turn += 1
        statements.clear()
        with acting(source, AFTER, begin):
            bound = source.safe_bound(schema, cursor, timedelta(0), None)
        assert len(stamps) < turn or bound.value.parts[0] <= stamps[-1], statements[turn - 1]
        writer.run("ROLLBACK")
    assert turn > 6


def test_a_column_of_whole_seconds_is_read_beyond_its_bound(source: MySQLSource) -> None:
    bound = bound_of(source, "coarse")
    assert bound.value.parts[0].endswith(".000000")
    assert bound.reach is not None
    assert bound.value.parts[0] <= bound.clock.parts[0] < bound.reach.parts[0]


@pytest.mark.parametrize("column", ["fine", "coarse"])
def test_a_late_commit_is_read_by_the_next_window(source: MySQLSource, connect: Callable[[], Client], column: str) -> None:
    """Columns without zone, of parts of a second and of whole ones; the suite for sources has the other cursors."""
    schema, cursor = table_and_cursor(source, column)
    windows = Windowed(source=source, schema=schema, cursor=cursor, lookback=LOOKBACK)
    first, second = read_around_a_late_commit(windows, connect(), connect())
    assert EARLY not in first
    assert {EARLY, LATER} <= {*first, *second}


# ---------------------------------------------------------------------------------------------------------------------- counters


def test_a_counter_waits_for_the_numbers_that_are_handed_out(source: MySQLSource, connect: Callable[[], Client]) -> None:
    a, b = connect(), connect()
    a.run("BEGIN", "INSERT INTO events (v) VALUES (4)")
    b.run("INSERT INTO events (v) VALUES (5)")
    since = CursorValue(parts=("4",))
    ended = threading.Timer(0.7, lambda: a.run("COMMIT"))
    ended.start()
    bound = source.safe_bound(*table_and_cursor(source, "id"), timedelta(seconds=10), since)
    ended.join()
    assert bound.value.parts == ("6",)
    assert b.run("SELECT COUNT(*) FROM events WHERE id >= 4 AND id < 6") == ((2,),)


def test_a_counter_stays_where_it_is_while_an_insert_is_open(source: MySQLSource, connect: Callable[[], Client]) -> None:
    a, b = connect(), connect()
    a.run("BEGIN", "INSERT INTO events (v) VALUES (4)")
    b.run("INSERT INTO events (v) VALUES (5)")
    since = CursorValue(parts=("4",))
    bound = bound_of(source, "id", since=since)
    assert bound.value == since
    assert f"connection {a.id}" in bound.held_by
    first = bound_of(source, "id")
    assert first.value.parts == ("1",)
    assert "whole table once more" in first.warnings[-1]


def test_deleting_the_last_row_does_not_look_like_a_counter_that_went_back(source: MySQLSource, connect: Callable[[], Client]) -> None:
    since = bound_of(source, "id").value
    connect().run("DELETE FROM events WHERE id = 3")
    _, cursor = table_and_cursor(source, "id")
    assert next_window(cursor, since, bound_of(source, "id", since=since)) is None
    connect().run("DELETE FROM events")
    assert next_window(cursor, since, bound_of(source, "id", since=since)) is None
    connect().run("TRUNCATE events")
    with pytest.raises(CursorRegressionError):
        next_window(cursor, since, bound_of(source, "id", since=since))


# -------------------------------------------------------------------------------------------------------- grants, zones, sharing


@pytest.fixture
def humble(server: DatabaseServer) -> Iterator[MariaDBSource]:
    server.execute(
        "DROP USER IF EXISTS humble@'127.0.0.1'",
        "CREATE USER humble@'127.0.0.1' IDENTIFIED BY 'pw'",
        f"GRANT SELECT ON `{DB}`.* TO humble@'127.0.0.1'",
    )
    opened = MariaDBSource(CONFIG, url(server, "humble", "pw"))
    yield opened
    opened.close()


def test_without_the_grant_the_bound_stays_the_lookback_behind_and_names_it(humble: MariaDBSource) -> None:
    bound = bound_of(humble, "fine")
    assert bound.method == "clock-overlap"
    assert parse_datetime(bound.clock.parts[0]) - parse_datetime(bound.value.parts[0]) == LOOKBACK
    assert "GRANT PROCESS ON *.* TO 'humble'@'127.0.0.1'" in "".join(bound.warnings)


def test_without_the_grant_a_counter_waits_the_lookback(humble: MariaDBSource) -> None:
    bound = bound_of(humble, "id")
    assert bound.method == "counter-overlap"
    assert bound.value.parts == ("4",)
    assert "GRANT PROCESS" in "".join(bound.warnings)


def test_tables_of_one_run_share_a_look_at_the_server_unless_it_does_not_help(source: MySQLSource) -> None:
    schema, cursor = table_and_cursor(source, "fine")
    first = source.safe_bound(schema, cursor, LOOKBACK, None)
    old = CursorValue(parts=("2020-01-01 00:00:00.000000",))
    assert source.safe_bound(schema, cursor, LOOKBACK, old).observed_at == first.observed_at
    assert source.safe_bound(schema, cursor, LOOKBACK, first.value).observed_at > first.observed_at


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def far_away(request: pytest.FixtureRequest, server_folder: Path) -> Iterator[DatabaseServer]:
    """A server whose machine is in another zone than ours, and which stamps rows in that zone."""
    kind = type(request.getfixturevalue(request.param))
    patch = pytest.MonkeyPatch()
    patch.setenv("TZ", "Asia/Shanghai")
    with kind(server_folder / f"far-away-{request.param}", options=("--default-time-zone=SYSTEM",)) as server:
        patch.undo()
        create_tables(server)
        yield server


@pytest.mark.parametrize("column", ["fine", "coarse", "moment"])
@pytest.mark.parametrize("zone", ["", "Asia/Shanghai", "+08:00"])
def test_a_server_in_another_zone_is_bounded_by_its_own_clock(far_away: DatabaseServer, column: str, zone: str) -> None:
    source = MariaDBSource(replace(CONFIG, time_zone=zone), url(far_away))
    free = bound_of(source, column)
    writer = Client(far_away)
    writer.run("BEGIN", "UPDATE events SET v = v + 1 WHERE id = 1")
    shown = f"CONVERT_TZ({column}, '+08:00', '+00:00')" if column == "moment" else column
    [[written]] = writer.run(f"SELECT CAST({shown} AS CHAR) FROM events WHERE id = 1")
    held = bound_of(source, column)
    writer.close()
    source.close()
    assert parse_datetime(held.value.parts[0]) <= parse_datetime(str(written)) < parse_datetime(held.clock.parts[0])
    assert parse_datetime(held.clock.parts[0]) - parse_datetime(held.value.parts[0]) < timedelta(hours=1)
    assert parse_datetime(free.clock.parts[0]) - parse_datetime(free.value.parts[0]) < LOOKBACK
    assert held.held_by
    assert bool(free.warnings) == (zone == "" and column != "moment")
