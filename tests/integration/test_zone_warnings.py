"""Cursors without a zone that sessions of several zones stamp: what a plan says of them, and that it costs one look into the index."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import DatabaseServer, PostgresServer
from cdc_ops.sources.base import open_source
from cdc_ops.sources.sql_source import SqlSource
from cdc_ops.testing.source_harness import wait_until

DB = "zone_tests"
ROWS = 3_000


@pytest.fixture(scope="module", params=["mariadb", "mysql", "postgres"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found: DatabaseServer = request.getfixturevalue(request.param)
    found.create_database(DB)
    return found


def is_postgres(server: DatabaseServer) -> bool:
    return isinstance(server, PostgresServer)


def create(server: DatabaseServer, kind: str, *, index: bool = True, default: str = "") -> TableName:
    """A table of rows of the past, which nobody has analysed."""
    postgres = is_postgres(server)
    default = default or ("now()" if postgres else "NOW(6) ON UPDATE NOW(6)")
    numbers = f"generate_series(1, {ROWS}) AS s (n)" if postgres else "numbers AS s"
    past = "timestamp '2024-01-01' + n * interval '1 second'" if postgres else "TIMESTAMP'2024-01-01 00:00:00' + INTERVAL n SECOND"
    if not postgres:
        digits = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
        cross = ", ".join(f"({digits}) AS t{place}" for place in range(4))
        number = " + ".join(f"t{place}.d * {10**place}" for place in range(4))
        server.execute(
            f"CREATE OR REPLACE VIEW numbers AS SELECT {number} AS n FROM {cross} WHERE {number} BETWEEN 1 AND {ROWS}", database=DB
        )
    server.execute(
        "DROP TABLE IF EXISTS events",
        f"CREATE TABLE events (id BIGINT PRIMARY KEY, at {kind} NOT NULL DEFAULT {default})",
        *(["CREATE INDEX events_at ON events (at)"] if index else []),
        f"INSERT INTO events (id, at) SELECT n, {past} FROM {numbers}",
        database=DB,
    )
    return TableName(schema="public" if postgres else DB, name="events")


@contextmanager
def session(server: DatabaseServer, zone: str) -> Iterator[sqlalchemy.Connection]:
    """A session of an application that writes in a zone of its own."""
    engine = sqlalchemy.create_engine(server.url(DB, as_admin=True), isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"SET TIME ZONE '{zone}'" if is_postgres(server) else f"SET time_zone = '{zone}'")
        yield connection


@contextmanager
def opened(server: DatabaseServer, time_zone: str = "UTC") -> Iterator[SqlSource]:
    scheme = "postgresql" if is_postgres(server) else "mysql"
    url = ConnectionUrl.from_parts(scheme, server.host, server.port, server.user, server.password, DB).render()
    source = open_source(SourceConfig(kind=SourceKind(server.name.lower()), connection="test", time_zone=time_zone), url)
    assert isinstance(source, SqlSource)
    try:
        yield source
    finally:
        source.close()


def warnings(server: DatabaseServer, table: TableName, time_zone: str = "UTC") -> list[str]:
    with opened(server, time_zone) as source:
        found = source.cursor(source.schema(table), ("at",))[1]
    return [text for text in found if "zone" in text]


def zoneless(server: DatabaseServer) -> str:
    return "timestamp" if is_postgres(server) else "DATETIME(6)"


def test_rows_that_a_session_of_another_zone_stamps_into_the_future_are_named_with_their_number(server: DatabaseServer) -> None:
    table = create(server, zoneless(server))
    assert not [text for text in warnings(server, table) if "future" in text]
    with session(server, "Asia/Shanghai" if is_postgres(server) else "+08:00") as app:
        app.exec_driver_sql("INSERT INTO events (id) VALUES (10001), (10002)")
    [text] = [text for text in warnings(server, table) if "future" in text]
    assert text.startswith(f"2 rows of {table} lie in the future: cursor column 'at' is up to 20")
    assert "TIMESTAMP" in text
    assert "reconcile_schedule" in text
    east = "Asia/Shanghai" if is_postgres(server) else "+08:00"
    assert not [text for text in warnings(server, table, east) if "future" in text], "in the zone that stamped them they are of now"


def test_many_rows_in_the_future_are_counted_up_to_a_limit(server: DatabaseServer) -> None:
    table = create(server, zoneless(server))
    server.execute("UPDATE events SET at = '2999-01-01 00:00:00' WHERE id > 500", database=DB)
    [text] = [text for text in warnings(server, table) if "future" in text]
    assert text.startswith(f"at least 1,000 rows of {table} lie in the future")


def test_columns_with_a_zone_and_values_of_the_application_are_not_warned_of(server: DatabaseServer) -> None:
    with session(server, "Asia/Shanghai" if is_postgres(server) else "+08:00") as app:
        app.exec_driver_sql("SELECT 1")
        instants = create(server, "timestamptz" if is_postgres(server) else "TIMESTAMP(6)")
        assert not warnings(server, instants)
        app.exec_driver_sql("INSERT INTO events (id) VALUES (10001)")
        assert not warnings(server, instants)
        fixed = "(now() AT TIME ZONE 'utc')" if is_postgres(server) else "'2024-01-01'"
        given = warnings(server, create(server, zoneless(server), default=fixed))
        assert [text for text in given if "ON UPDATE" not in text] == []


def test_sessions_that_write_in_another_zone_are_named_where_the_server_shows_them(server: DatabaseServer) -> None:
    table = create(server, zoneless(server))
    with session(server, "America/New_York" if is_postgres(server) else "-05:00"):
        found = warnings(server, table)
    if server.name != "MySQL":
        assert not found, "neither server shows the zones of other sessions"
        return
    [text] = found
    assert "there are sessions in -05:00" in text
    assert "the source's zone is UTC" in text
    wait_until(
        lambda: not [text for text in warnings(server, table) if "sessions in" in text], "nothing is said when the session has ended"
    )


def test_a_zone_in_which_sessions_begin_that_is_not_the_sources_is_named(server: DatabaseServer) -> None:
    table = create(server, zoneless(server))
    [text] = [text for text in warnings(server, table, "+03:00" if not is_postgres(server) else "Europe/Moscow") if "stamped" in text]
    assert "while the source's zone is" in text
    if is_postgres(server):
        server.execute("CREATE ROLE zone_app", "ALTER ROLE zone_app SET timezone = 'Asia/Tokyo'")
        try:
            [text] = [text for text in warnings(server, table) if "stamped" in text]
            assert "Asia/Tokyo" in text
        finally:
            server.execute("DROP ROLE zone_app")


def test_the_check_reads_one_entry_of_the_index_and_asks_nothing_without_one(server: DatabaseServer) -> None:
    table = create(server, zoneless(server))
    with opened(server) as source:
        schema = source.schema(table)
        asked: list[str] = []
        one = source._parts.session.row

        def row(sql: str) -> dict[str, Any]:
            asked.append(sql)
            return one(sql)

        source._parts.session.row = row  # type: ignore[method-assign]
        source.cursor(schema, ("at",))
        questions = sorted((sql for sql in asked if "FROM" in sql and "events" in sql), key=lambda sql: "MAX(" not in sql)
        assert len(questions) == 2, "the newest row, and how many are in no window"
        there = source._parts.session.rows(f"EXPLAIN {questions[1]}")
        assert any("events_at" in str(line) for line in there), there
        if is_postgres(server):
            shown = " ".join(str(line["query plan"]) for line in source._parts.session.rows(f"EXPLAIN {questions[0]}"))
            assert "Index Only Scan Backward" in shown
            assert "Seq Scan" not in shown
        else:
            explained = source._parts.session.rows(f"EXPLAIN FORMAT=TRADITIONAL {questions[0]}")
            assert [line["extra"] for line in explained] == ["Select tables optimized away"]

    table = create(server, zoneless(server), index=False)
    server.execute("UPDATE events SET at = '2999-01-01 00:00:00' WHERE id > 500", database=DB)
    assert not [text for text in warnings(server, table) if "future" in text], "it would read the whole table"


def test_rows_with_a_zero_or_an_infinite_date_are_in_no_window_and_counted(server: DatabaseServer) -> None:
    postgres = is_postgres(server)
    kinds = ("timestamptz", "timestamp(3)", "date") if postgres else ("TIMESTAMP NULL", "DATETIME(3)", "DATE")
    values = ("infinity", "-infinity") if postgres else ("0000-00-00", "0000-00-00")
    name = TableName(schema="public" if postgres else DB, name="ended")
    for kind in kinds:
        server.execute(
            "DROP TABLE IF EXISTS ended",
            *(() if postgres else ("SET sql_mode = ''",)),
            f"CREATE TABLE ended (id INT PRIMARY KEY, at {kind} DEFAULT '{values[0]}')",
            "CREATE INDEX ended_at ON ended (at)",
            "INSERT INTO ended (id) VALUES (1)",
            f"INSERT INTO ended (id, at) VALUES (2, '{values[1]}'), (3, '2024-01-01'), (4, '1970-01-02'), (5, NULL)",
            database=DB,
        )
        with opened(server) as source:
            schema = source.schema(name)
            cursor, said = source.cursor(schema, ("at",))
            assert source.count(name, source.null_predicate(cursor), 10) == 3
            told = " ".join(said)
            assert f"2 rows of {name} are in no window" in told
            assert f"has the default '{values[0]}" in told
            assert "in the future" not in told
