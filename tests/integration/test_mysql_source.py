"""The MySQL source on a real MariaDB and MySQL: schemas, errors, cuts and predicates. Its safe bounds have a file of their own."""

import re
import socket
import traceback
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeAlias

import pymysql
import pymysql.cursors
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType, CursorValue
from cdc_ops.core.cursor.windows import Window, contains
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.errors import ConfigError, RequestError, SourceAccessError, SourceTableError, SourceUnreachableError
from cdc_ops.sources.base import open_source
from cdc_ops.sources.chunks.chunks import ChunkSize
from cdc_ops.sources.mysql.mariadb import MariaDBSource
from cdc_ops.sources.mysql.session import MySQLSession
from cdc_ops.sources.mysql.source import MySQLSource

DB = "source_tests"
CONFIG = SourceConfig(kind=SourceKind.MARIADB, connection="test")
HOSTILE = TableName(schema=DB, name="odd `name` ü")
ROWS = TableName(schema=DB, name="numbers")


def url(server: DatabaseServer, **changes: str | int) -> str:
    parts = {"host": server.host, "port": server.port, "user": server.user, "password": server.password, "database": DB} | changes
    return ConnectionUrl.from_parts("mysql", **parts).render()  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found: DatabaseServer = request.getfixturevalue(request.param)
    found.create_database(DB)
    found.execute(
        """CREATE TABLE `odd ``name`` ü` (
             `select` BIGINT UNSIGNED NOT NULL, `a ``b` ENUM('x','y') NOT NULL, `é"'` DECIMAL(65,30), hidden INT INVISIBLE DEFAULT 1,
             twice BIGINT GENERATED ALWAYS AS (hidden * 2) STORED, updated_at DATETIME(3) NOT NULL DEFAULT NOW(3) ON UPDATE NOW(3),
             created_at TIMESTAMP NULL, b BLOB, g GEOMETRY, w SET('p','q'),
             PRIMARY KEY (`select`, `a ``b`), KEY by_time (updated_at), KEY by_blob (b(3)), KEY mixed (hidden, b(3), twice))""",
        "CREATE TABLE numbers (id BIGINT NOT NULL PRIMARY KEY, v INT, u DATETIME(6) NOT NULL, KEY (u))",
        "CREATE TABLE texts (code VARCHAR(20) CHARACTER SET latin1 PRIMARY KEY, u TIMESTAMP(6) NOT NULL, KEY (u))",
        "CREATE VIEW a_view AS SELECT 1 AS one",
        database=DB,
    )
    return found


@pytest.fixture
def source(server: DatabaseServer) -> Iterator[MySQLSource]:
    opened = (
        MariaDBSource(CONFIG, url(server)) if server.name == "MariaDB" else MySQLSource(replace(CONFIG, kind=SourceKind.MYSQL), url(server))
    )
    yield opened
    opened.close()


def test_the_registry_opens_the_source_that_the_pipeline_names(server: DatabaseServer) -> None:
    source = open_source(CONFIG, url(server))
    assert source.tables().count(ROWS) == 1
    source.close()


def test_tables_are_base_tables_of_users_only(source: MySQLSource) -> None:
    tables = source.tables()
    assert {HOSTILE, ROWS} <= set(tables)
    assert TableName(schema=DB, name="a_view") not in tables
    assert not {table.schema for table in tables} & {"mysql", "sys", "information_schema", "performance_schema"}


def test_the_schema_of_a_hostile_table_is_read_whole(source: MySQLSource) -> None:
    schema = source.schema(HOSTILE)
    assert [(c.name, c.delta_type, c.nullable) for c in schema.columns] == [
        ("select", "bigint", False),
        ("a `b", "string", False),
        ("é\"'", "string", True),
        ("hidden", "int", True),
        ("twice", "bigint", True),
        ("updated_at", "timestamp_ntz", False),
        ("created_at", "timestamp", True),
        ("b", "binary", True),
        ("g", "binary", True),
        ("w", "string", True),
    ]
    assert schema.primary_key == ("select", "a `b")
    assert schema.indexes == (("select", "a `b"), ("updated_at",), ("hidden",))
    assert schema.fingerprint == source.schema(HOSTILE).fingerprint


def test_every_expression_is_accepted_by_the_server(source: MySQLSource, server: DatabaseServer) -> None:
    server.execute("INSERT INTO `odd ``name`` ü` (`select`, `a ``b`) VALUES (18446744073709551615, 'y')", database=DB)
    schema = source.schema(HOSTILE)
    [relation] = source.jdbc_read(schema, ("",)).relations
    [row] = server.execute(f"SELECT * FROM {relation}")
    assert row[0] == -1  # the same 64 bits
    assert len(row) == len(schema.columns)
    server.execute("DELETE FROM `odd ``name`` ü`", database=DB)


def test_a_missing_table_is_answered_with_the_nearest_one(source: MySQLSource) -> None:
    with pytest.raises(SourceTableError, match="Did you mean 'numbers'"):
        source.schema(TableName(schema=DB, name="nubmers"))
    with pytest.raises(SourceTableError, match=f"Did you mean '{DB}.numbers'"):
        source.schema(TableName(schema="source_test", name="numbers"))


def test_a_table_that_differs_in_case_is_another_table(source: MySQLSource) -> None:
    with pytest.raises(SourceTableError, match="Did you mean 'numbers'"):
        source.schema(TableName(schema=DB, name="Numbers"))


def test_a_view_is_refused(source: MySQLSource) -> None:
    with pytest.raises(SourceTableError, match="is a view"):
        source.schema(TableName(schema=DB, name="a_view"))


def test_a_missing_column_is_answered_with_the_nearest_one(source: MySQLSource) -> None:
    with pytest.raises(SourceTableError, match="Did you mean 'updated_at'"):
        source.schema(HOSTILE, columns=("update_at",))
    with pytest.raises(SourceTableError, match="Did you mean 'updated_at'"):
        source.cursor(source.schema(HOSTILE), ("udpated_at",))


def test_a_column_without_order_is_no_cursor(source: MySQLSource) -> None:
    with pytest.raises(SourceTableError, match="Use one of: updated_at, created_at"):
        source.cursor(source.schema(HOSTILE), ("b",))


def test_a_cursor_is_typed_and_its_faults_are_named(source: MySQLSource) -> None:
    schema = source.schema(HOSTILE)
    cursor, warnings = source.cursor(schema, ("updated_at", "select"))
    assert [(c.name, c.type, c.precision) for c in cursor.columns] == [
        ("updated_at", CursorType.DATETIME, 3),
        ("select", CursorType.INTEGER, 0),
    ]
    assert warnings == ()
    _, warnings = source.cursor(schema, ("created_at",))
    text = "\n".join(warnings)
    assert "CREATE INDEX `cdc_created_at` ON `source_tests`.`odd ``name`` ü` (`created_at`)" in text
    assert "can be NULL" in text
    assert "no ON UPDATE CURRENT_TIMESTAMP" in text


# --------------------------------------------------------------------------------------------------------------------- errors


def test_a_wrong_password_is_an_access_error_that_names_user_and_host(server: DatabaseServer) -> None:
    source = MariaDBSource(CONFIG, url(server, password="a-wrong-secret"))
    with pytest.raises(SourceAccessError) as caught:
        source.tables()
    text = str(caught.value) + "".join(traceback.format_exception(caught.value)) + repr(source)
    assert f"'{server.user}'" in text
    assert f"{server.host}:{server.port}" in text
    assert "a-wrong-secret" not in text


def test_a_missing_grant_names_the_statement_that_gives_it(server: DatabaseServer) -> None:
    server.execute("DROP USER IF EXISTS nothing@'127.0.0.1'", "CREATE USER nothing@'127.0.0.1' IDENTIFIED BY 'pw'")
    source = MariaDBSource(CONFIG, url(server, user="nothing", password="pw", database=""))
    with pytest.raises(SourceTableError, match=re.escape("GRANT SELECT ON `source_tests`.`numbers`")):
        source.schema(ROWS)
    with pytest.raises(SourceAccessError, match="GRANT SELECT"):
        source.count(ROWS, "", 1)
    source.close()
    with pytest.raises(SourceAccessError, match="refuses user 'nothing'"):
        MariaDBSource(CONFIG, url(server, user="nothing", password="pw")).tables()


def test_an_unreachable_host_is_retryable_and_named(server: DatabaseServer) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(SourceUnreachableError, match=f"127.0.0.1:{port}") as caught:
            MariaDBSource(CONFIG, url(server, port=port)).now()
    assert caught.value.retryable
    with pytest.raises(SourceUnreachableError, match=re.escape("no-such-host.invalid")):
        MariaDBSource(CONFIG, url(server, host="no-such-host.invalid")).now()


def test_a_missing_database_is_a_table_error(server: DatabaseServer) -> None:
    with pytest.raises(SourceTableError, match="nowhere"):
        MariaDBSource(CONFIG, url(server, database="nowhere")).tables()


def test_an_unknown_option_or_another_kind_of_server_is_a_config_error(server: DatabaseServer) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'ssl_mode'"):
        MariaDBSource(CONFIG, url(server) + "?ssl_mod=required")
    with pytest.raises(ConfigError, match="postgresql"):
        MariaDBSource(CONFIG, "postgresql://u:p@localhost/db")


def test_a_connection_that_was_lost_is_opened_again(source: MySQLSource, server: DatabaseServer) -> None:
    source.now()
    session: MySQLSession = source._session
    server.execute(f"KILL {session.row('SELECT CONNECTION_ID() AS id')['id']}")
    with pytest.raises(SourceUnreachableError):
        source.now()
    assert source.now() > datetime(2020, 1, 1, tzinfo=UTC)


def test_the_session_cannot_write_and_is_in_utc(source: MySQLSource) -> None:
    session: MySQLSession = source._session
    assert session.row("SELECT @@time_zone AS zone, @@sql_mode AS mode") == {"zone": "+00:00", "mode": ""}
    with pytest.raises(Exception, match="READ ONLY"):
        session.execute(f"INSERT INTO {DB}.numbers VALUES (1, 1, NOW())")


def test_the_password_is_only_in_the_properties_of_a_jdbc_read(source: MySQLSource, server: DatabaseServer) -> None:
    read = source.jdbc_read(source.schema(ROWS), ("`id` < 5", "`id` >= 5"))
    assert read.properties["password"] == server.password
    rest = repr(read) + repr(source) + read.url + "".join(read.relations) + read.session_init
    assert server.password not in rest
    assert len(read.relations) == 2
    with pytest.raises(ConfigError, match="Did you mean 'mariadb'"):
        MariaDBSource(replace(CONFIG, jdbc_driver="mariadv"), url(server)).jdbc_read(source.schema(ROWS), ("",))


# ----------------------------------------------------------------------------------------------------------------------- cuts


Client: TypeAlias = "pymysql.Connection[pymysql.cursors.Cursor]"


@pytest.fixture(scope="module")
def client(server: DatabaseServer) -> Iterator[Client]:
    with pymysql.connect(
        host=server.host, port=server.port, user=server.user, password=server.password, database=DB, autocommit=True
    ) as connection:
        yield connection


@pytest.fixture(scope="module")
def shared(server: DatabaseServer) -> Iterator[MariaDBSource]:
    """A source for all examples of a property test."""
    opened = MariaDBSource(CONFIG, url(server))
    yield opened
    opened.close()


def fill(client: Client, ids: list[int]) -> None:
    rows = ", ".join(f"({id_}, {id_ % 7}, '2024-01-01' + INTERVAL {index * 137} MICROSECOND)" for index, id_ in enumerate(ids))
    with client.cursor() as cursor:
        cursor.execute("DELETE FROM numbers")
        if ids:
            cursor.execute(f"INSERT INTO numbers VALUES {rows}")


def whole_chunks(source: MariaDBSource, schema: TableSchema, rows: int) -> tuple[str, ...]:
    return tuple(one for chunk in source.chunks(schema, ("id",), ChunkSize(rows=rows)).chunks for one in chunk.slices)


def ids_of(client: Client, where: str, table: str = "numbers") -> list[int]:
    with client.cursor() as cursor:
        cursor.execute(f"SELECT id FROM {table}{f' WHERE {where}' if where else ''}")
        return [row[0] for row in cursor.fetchall()]


@settings(max_examples=30, deadline=None)
@given(
    ids=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-50, 50), unique=True, max_size=40),
    parts=st.integers(1, 9),
    where=st.sampled_from(["", "`v` >= 3", "`v` = 1 OR `v` = 2", "`u` < TIMESTAMP'2024-01-01 00:00:00.001500'"]),
)
def test_slices_and_chunks_tile_a_table_exactly(client: Client, shared: MariaDBSource, ids: list[int], parts: int, where: str) -> None:
    fill(client, ids)
    source = shared
    schema = replace(source.schema(ROWS), approximate_rows=len(ids))
    slices = source.slices(schema, ("id",), where, parts)
    by_time = source.slices(schema, ("v",), where, parts) if "TIMESTAMP" in where else slices
    chunks = whole_chunks(source, schema, max(len(ids) // parts, 1))
    assert len(slices) <= parts
    for cut, whole in ((slices, where), (by_time, where), (chunks, "")):
        read = [id_ for one in cut for id_ in ids_of(client, one)]
        assert sorted(read) == sorted(ids_of(client, whole))


def test_a_large_table_is_cut_into_as_many_parts_as_asked(client: Client, source: MySQLSource) -> None:
    fill(client, list(range(100)))
    schema = replace(source.schema(ROWS), approximate_rows=100)
    assert len(source.slices(schema, ("id",), "", 4)) == 4
    assert len(whole_chunks(source, schema, 10)) == 10
    assert whole_chunks(source, schema, 1000) == ("",)
    assert source.count(ROWS, "", 10) == 10
    assert source.count(ROWS, "`id` < 7", 10) == 7


def test_rows_without_a_key_value_are_in_exactly_one_slice(server: DatabaseServer, source: MySQLSource) -> None:
    server.execute(
        "DROP TABLE IF EXISTS loose",
        "CREATE TABLE loose (k INT NULL, u DATETIME(6) NULL, KEY (k), KEY (u))",
        "INSERT INTO loose VALUES (1, NULL), (NULL, '2024-01-01'), (NULL, NULL), (7, '2024-01-02'), (9, '2024-01-03')",
        database=DB,
    )
    table = TableName(schema=DB, name="loose")
    slices = source.slices(replace(source.schema(table), approximate_rows=5), ("k",), "", 3)
    counts = [source.count(table, one, 100) for one in slices]
    assert counts[0] == 2  # those without a key value
    assert sum(counts) == 5


def test_a_window_of_a_table_with_text_keys_is_cut_by_time(server: DatabaseServer, source: MySQLSource) -> None:
    server.execute(*(f"REPLACE texts VALUES ('k{i}', '2024-01-01 00:00:{i:02d}.5')" for i in range(60)), database=DB)
    table = TableName(schema=DB, name="texts")
    schema = source.schema(table)
    cursor, _ = source.cursor(schema, ("u",))
    window = Window(low=CursorValue(parts=("2024-01-01 00:00:10.000000",)), high=CursorValue(parts=("2024-01-01 00:00:50.000000",)))
    where = source.window_predicate(cursor, window)
    slices = source.slices(schema, ("code",), where, 4)
    assert [source.count(table, one, 100) for one in slices] == [10, 10, 10, 10]
    assert sum(source.count(table, one, 100) for one in source.slices(schema, ("code",), "", 4)) == source.count(table, "", 1000)


# ----------------------------------------------------------------------------------------------------------------- predicates

COMPOSITE = Cursor(
    columns=(CursorColumn(name="u", type=CursorType.DATETIME, precision=6), CursorColumn(name="id", type=CursorType.INTEGER))
)
MOMENTS = [f"2024-01-01 00:00:00.{micros:06d}" for micros in range(0, 6)]


def values() -> st.SearchStrategy[CursorValue | None]:
    moment, number = st.sampled_from(MOMENTS), st.integers(0, 12).map(str)
    return (
        st.none() | st.builds(lambda u: CursorValue(parts=(u,)), moment) | st.builds(lambda u, n: CursorValue(parts=(u, n)), moment, number)
    )


@pytest.fixture(scope="module")
def dense(server: DatabaseServer) -> dict[int, CursorValue]:
    rows = {id_: CursorValue(parts=(MOMENTS[id_ % 5], str(id_))) for id_ in range(12)}
    server.execute(
        "DROP TABLE IF EXISTS dense", "CREATE TABLE dense (id BIGINT PRIMARY KEY, u DATETIME(6) NOT NULL, KEY (u, id))", database=DB
    )
    server.execute(*(f"INSERT INTO dense VALUES ({id_}, '{value.parts[0]}')" for id_, value in rows.items()), database=DB)
    return rows


@settings(max_examples=60, deadline=None)
@given(low=values(), high=values())
def test_a_window_reads_what_the_reference_says(
    client: Client, shared: MariaDBSource, dense: dict[int, CursorValue], low: CursorValue | None, high: CursorValue | None
) -> None:
    read = set(ids_of(client, shared.window_predicate(COMPOSITE, Window(low=low, high=high)), "dense"))
    assert read == {id_ for id_, value in dense.items() if contains(COMPOSITE, Window(low=low, high=high), value)}


def test_a_window_on_an_indexed_cursor_uses_the_index(server: DatabaseServer, client: Client, source: MySQLSource) -> None:
    fill(client, list(range(2000)))
    cursor, _ = source.cursor(source.schema(ROWS), ("u",))
    window = Window(low=CursorValue(parts=(MOMENTS[0],)), high=CursorValue(parts=(MOMENTS[5],)))
    explain = f"EXPLAIN FORMAT=JSON SELECT * FROM numbers WHERE {source.window_predicate(cursor, window)}"
    [[plan]] = server.execute(explain, database=DB)
    assert re.search('"(key|index_name)": "u"', plan)


def test_keys_are_looked_up_whatever_is_in_them(server: DatabaseServer, source: MySQLSource) -> None:
    keys = ["plain", "it's", 'a"b', "back\\slash", "per%cent", "col:on", "é", "x'; DROP TABLE keyed; -- "]
    server.execute(
        "DROP TABLE IF EXISTS keyed",
        "CREATE TABLE keyed (t VARCHAR(40) COLLATE utf8mb4_bin, n DECIMAL(10,2), b VARBINARY(4), d DATE, PRIMARY KEY (t, n, b))",
        *(
            "INSERT INTO keyed VALUES ('" + key.replace("\\", "\\\\").replace("'", "''") + f"', {index}.50, X'00ff', '2024-01-01')"
            for index, key in enumerate(keys)
        ),
        database=DB,
    )
    table = TableName(schema=DB, name="keyed")
    schema = source.schema(table)
    wanted = tuple((key, f"{index}.50", "00FF") for index, key in enumerate(keys))
    assert source.count(table, source.keys_predicate(schema, ("t", "n", "b"), wanted), 100) == len(keys)
    assert source.count(table, source.keys_predicate(schema, ("t",), tuple((key,) for key in keys[:3])), 100) == 3
    assert source.count(table, source.keys_predicate(schema, ("d",), (("2024-01-01",),)), 100) == len(keys)
    assert source.count(table, source.keys_predicate(schema, ("t",), ()), 100) == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [("select", "1 OR 1=1"), ("select", "1.5"), ("select", ""), ("updated_at", "yesterday"), ("b", "xyz"), ("b", "abc"), ("é\"'", "1e5")],
)
def test_a_key_that_is_no_value_of_its_column_is_refused(source: MySQLSource, key: str, value: str) -> None:
    with pytest.raises(RequestError, match="is not a value of key column"):
        source.keys_predicate(source.schema(HOSTILE), (key,), ((value,),))


def test_an_instant_becomes_a_literal_in_the_columns_zone_and_resolution(source: MySQLSource, server: DatabaseServer) -> None:
    schema = source.schema(HOSTILE)
    instant = datetime(2024, 7, 1, 12, 0, 0, 123456, tzinfo=UTC)
    utc, _ = source.cursor(schema, ("created_at",))
    assert source.literal(schema, utc, instant).parts == ("2024-07-01 12:00:01.000000",)
    berlin = MariaDBSource(replace(CONFIG, time_zone="Europe/Berlin"), url(server))
    local, _ = berlin.cursor(schema, ("updated_at",))
    assert berlin.literal(schema, local, instant).parts == ("2024-07-01 14:00:00.124000",)
    berlin.close()
    with pytest.raises(ConfigError, match="Did you mean 'Europe/Berlin'"):
        MariaDBSource(replace(CONFIG, time_zone="Europe/Berlni"), url(server)).literal(schema, local, instant)
    counter, _ = source.cursor(schema, ("select",))
    with pytest.raises(RequestError, match="is numeric and has no value for an instant"):
        source.literal(schema, counter, instant)
