"""The Postgres source against a real server: schemas, errors, cuts and predicates. Its safe bounds have a file of their own."""

import re
import socket
import traceback
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType, CursorValue
from cdc_ops.core.cursor.windows import Window, contains
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.dev.servers import PostgresServer
from cdc_ops.errors import ConfigError, RequestError, SourceAccessError, SourceTableError, SourceUnreachableError
from cdc_ops.sources.base import open_source
from cdc_ops.sources.chunks.chunks import ChunkSize
from cdc_ops.sources.postgres.source import PostgresSource

DB = "source_tests"
CONFIG = SourceConfig(kind=SourceKind.POSTGRES, connection="test")
HOSTILE = TableName(schema="odd schema", name='odd "name" ü')
ROWS = TableName(schema="public", name="numbers")


def url(server: PostgresServer, **changes: str | int) -> str:
    parts = {"host": server.host, "port": server.port, "user": server.user, "password": server.password, "database": DB} | changes
    return ConnectionUrl.from_parts("postgresql", **parts).render()  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server(postgres: PostgresServer) -> PostgresServer:
    postgres.create_database(DB)
    postgres.execute(
        'CREATE SCHEMA "odd schema"',
        "CREATE TYPE mood AS ENUM ('x', 'y')",
        "CREATE DOMAIN price AS numeric(10,2) NOT NULL CHECK (VALUE >= 0)",
        "CREATE DOMAIN dear AS price",
        """CREATE TABLE "odd schema"."odd ""name"" ü" (
             "select" bigint GENERATED ALWAYS AS IDENTITY, "a ""b" mood NOT NULL, "é'%" numeric, cost dear,
             updated_at timestamptz(3) NOT NULL DEFAULT now(), created_at timestamp(0), b bytea, j jsonb, tags text[], u uuid,
             twice int GENERATED ALWAYS AS (4 * 2) STORED, gone int, i interval, bits bit(3),
             PRIMARY KEY ("select", "a ""b"))""",
        'ALTER TABLE "odd schema"."odd ""name"" ü" DROP COLUMN gone',
        'CREATE INDEX by_time ON "odd schema"."odd ""name"" ü" (updated_at)',
        'CREATE INDEX mixed ON "odd schema"."odd ""name"" ü" (cost, lower(j::text), u)',
        'CREATE INDEX partial ON "odd schema"."odd ""name"" ü" (created_at) WHERE cost > 1',
        'CREATE INDEX by_hash ON "odd schema"."odd ""name"" ü" USING hash (u)',
        "CREATE TABLE numbers (id bigint NOT NULL PRIMARY KEY, v int, u timestamp NOT NULL)",
        "CREATE INDEX ON numbers (u)",
        "CREATE TABLE texts (code varchar(20) PRIMARY KEY, u timestamptz NOT NULL)",
        "CREATE VIEW a_view AS SELECT 1 AS one",
        "CREATE TABLE parted (id int NOT NULL, at timestamptz NOT NULL) PARTITION BY RANGE (id)",
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
        'CREATE TABLE twins (id int PRIMARY KEY, "ID" int)',
        "CREATE TYPE riddle",
        "CREATE FUNCTION riddle_in(cstring) RETURNS riddle LANGUAGE internal IMMUTABLE STRICT AS 'textin'",
        "CREATE FUNCTION riddle_out(riddle) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout'",
        "CREATE TYPE riddle (INPUT = riddle_in, OUTPUT = riddle_out)",
        "CREATE TABLE riddles (id int PRIMARY KEY, r riddle)",
        database=DB,
    )
    return postgres


@pytest.fixture
def source(server: PostgresServer) -> Iterator[PostgresSource]:
    opened = PostgresSource(CONFIG, url(server))
    yield opened
    opened.close()


def test_the_registry_opens_the_source_that_the_pipeline_names(server: PostgresServer) -> None:
    source = open_source(CONFIG, url(server))
    assert source.tables().count(ROWS) == 1
    source.close()


def test_tables_are_base_tables_of_users_and_partitions_belong_to_theirs(source: PostgresSource) -> None:
    tables = source.tables()
    assert {HOSTILE, ROWS, TableName(schema="public", name="parted")} <= set(tables)
    assert not {table.name for table in tables} & {"a_view", "parted_1", "pg_class"}
    assert {table.schema for table in tables} == {"public", "odd schema"}


def test_the_schema_of_a_hostile_table_is_read_whole(source: PostgresSource) -> None:
    schema = source.schema(HOSTILE)
    assert [(c.name, c.source_type, c.delta_type, c.nullable) for c in schema.columns] == [
        ("select", "bigint", "bigint", False),
        ('a "b', "mood", "string", False),
        ("é'%", "numeric", "string", True),
        ("cost", "numeric(10,2)", "decimal(10,2)", True),
        ("updated_at", "timestamp(3) with time zone", "timestamp", False),
        ("created_at", "timestamp(0) without time zone", "timestamp_ntz", True),
        ("b", "bytea", "binary", True),
        ("j", "jsonb", "string", True),
        ("tags", "text[]", "string", True),
        ("u", "uuid", "string", True),
        ("twice", "integer", "int", True),
        ("i", "interval", "string", True),
        ("bits", "bit(3)", "string", True),
    ]
    assert schema.primary_key == ("select", 'a "b')
    assert schema.indexes == (("select", 'a "b'), ("updated_at",), ("cost",))
    assert schema.fingerprint == source.schema(HOSTILE).fingerprint


def test_a_missing_table_or_column_is_answered_with_the_nearest_one(source: PostgresSource) -> None:
    with pytest.raises(SourceTableError, match="Did you mean 'numbers'"):
        source.schema(TableName(schema="public", name="nubmers"))
    with pytest.raises(SourceTableError, match=re.escape("Did you mean 'public.numbers'")):
        source.schema(TableName(schema="pubic", name="numbers"))
    with pytest.raises(SourceTableError, match="Did you mean 'updated_at'"):
        source.schema(HOSTILE, columns=("update_at",))
    with pytest.raises(SourceTableError, match="Did you mean 'updated_at'"):
        source.cursor(source.schema(HOSTILE), ("udpated_at",))


def test_what_cannot_be_copied_exactly_is_refused_by_name(source: PostgresSource) -> None:
    with pytest.raises(SourceTableError, match="is a view"):
        source.schema(TableName(schema="public", name="a_view"))
    with pytest.raises(SourceTableError, match="differ only in case"):
        source.schema(TableName(schema="public", name="twins"))
    riddles = TableName(schema="public", name="riddles")
    with pytest.raises(SourceTableError, match=r"'r' of public\.riddles has type riddle, which cannot be copied"):
        source.schema(riddles)
    assert [c.name for c in source.schema(riddles, except_columns=("r",)).columns] == ["id"]


def test_a_cursor_is_typed_and_its_faults_are_named(source: PostgresSource) -> None:
    schema = source.schema(HOSTILE)
    cursor, warnings = source.cursor(schema, ("updated_at", "select"))
    assert [(c.name, c.type, c.precision) for c in cursor.columns] == [
        ("updated_at", CursorType.TIMESTAMP, 3),
        ("select", CursorType.INTEGER, 0),
    ]
    assert len(warnings) == 1
    assert "no BEFORE UPDATE trigger" in warnings[0]
    cursor, warnings = source.cursor(schema, ("created_at",))
    assert (cursor.lead.type, cursor.lead.precision) == (CursorType.DATETIME, 0)
    text = "\n".join(warnings)
    assert 'CREATE INDEX "cdc_created_at" ON "odd schema"."odd ""name"" ü" ("created_at")' in text
    assert "can be NULL" in text
    _, warnings = source.cursor(schema, ("select",))
    assert "cdc-ops does not see updates" in warnings[0]
    with pytest.raises(SourceTableError, match="Use one of: updated_at, created_at"):
        source.cursor(schema, ("b",))


# --------------------------------------------------------------------------------------------------------------------- errors


def test_a_wrong_password_is_an_access_error_that_names_user_and_host(server: PostgresServer) -> None:
    source = PostgresSource(CONFIG, url(server, password="a-wrong-secret"))
    with pytest.raises(SourceAccessError) as caught:
        source.tables()
    text = str(caught.value) + "".join(traceback.format_exception(caught.value)) + repr(source)
    assert f"'{server.user}'" in text
    assert f"{server.host}:{server.port}" in text
    assert "a-wrong-secret" not in text


def test_a_missing_grant_names_the_statement_that_gives_it(server: PostgresServer) -> None:
    server.execute("DROP ROLE IF EXISTS nothing", "CREATE ROLE nothing LOGIN PASSWORD 'pw'")
    source = PostgresSource(CONFIG, url(server, user="nothing", password="pw"))
    with pytest.raises(SourceTableError, match=re.escape('GRANT SELECT ON "public"."numbers"')):
        source.schema(ROWS)
    with pytest.raises(SourceAccessError, match="GRANT SELECT"):
        source.count(ROWS, "", 1)
    source.close()


def test_rows_that_a_policy_hides_are_an_error_and_not_left_out(server: PostgresServer) -> None:
    server.execute(
        "CREATE TABLE IF NOT EXISTS hidden (id int PRIMARY KEY)",
        "INSERT INTO hidden VALUES (1) ON CONFLICT DO NOTHING",
        "ALTER TABLE hidden ENABLE ROW LEVEL SECURITY",
        database=DB,
    )
    source = PostgresSource(CONFIG, url(server))
    with pytest.raises(SourceAccessError, match="BYPASSRLS"):
        source.count(TableName(schema="public", name="hidden"), "", 10)
    source.close()


def test_an_unreachable_host_is_retryable_and_named(server: PostgresServer) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(SourceUnreachableError, match=f"127.0.0.1:{port}") as caught:
            PostgresSource(CONFIG, url(server, port=port)).now()
    assert caught.value.retryable
    with pytest.raises(SourceUnreachableError, match=re.escape("no-such-host.invalid")):
        PostgresSource(CONFIG, url(server, host="no-such-host.invalid")).now()


def test_a_connection_that_is_none_of_ours_is_refused(server: PostgresServer) -> None:
    with pytest.raises(SourceTableError, match="nowhere"):
        PostgresSource(CONFIG, url(server, database="nowhere")).tables()
    with pytest.raises(ConfigError, match="does not name a database"):
        PostgresSource(CONFIG, url(server, database=""))
    with pytest.raises(ConfigError, match="Did you mean 'sslmode'"):
        PostgresSource(CONFIG, url(server) + "?ssl_mode=require")
    with pytest.raises(ConfigError, match="mysql"):
        PostgresSource(CONFIG, "mysql://u:p@localhost/db")


def test_a_connection_that_was_lost_is_opened_again(source: PostgresSource, server: PostgresServer) -> None:
    source.now()
    server.execute(f"SELECT pg_terminate_backend({source._session.row('SELECT pg_backend_pid() AS id')['id']})")
    with pytest.raises(SourceUnreachableError):
        source.now()
    assert source.now() > datetime(2020, 1, 1, tzinfo=UTC)


def test_the_session_cannot_write(source: PostgresSource) -> None:
    with pytest.raises(Exception, match="read-only transaction"):
        source._session.execute("INSERT INTO numbers VALUES (1, 1, now())")


# ----------------------------------------------------------------------------------------------------------------------- cuts


@pytest.fixture(scope="module")
def client(server: PostgresServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url(server), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def shared(server: PostgresServer) -> Iterator[PostgresSource]:
    """A source for all examples of a property test."""
    opened = PostgresSource(CONFIG, url(server))
    yield opened
    opened.close()


def fill(client: psycopg.Connection, ids: list[int]) -> None:
    rows = ", ".join(f"({id_}, {id_ % 7}, TIMESTAMP'2024-01-01' + INTERVAL '{index * 137} microseconds')" for index, id_ in enumerate(ids))
    client.execute("DELETE FROM numbers")
    if ids:
        client.execute(f"INSERT INTO numbers VALUES {rows}")  # type: ignore[arg-type]


def whole_chunks(source: PostgresSource, schema: TableSchema, rows: int) -> tuple[str, ...]:
    return tuple(one for chunk in source.chunks(schema, ("id",), ChunkSize(rows=rows)).chunks for one in chunk.slices)


def ids_of(client: psycopg.Connection, where: str, table: str = "numbers") -> list[int]:
    return [row[0] for row in client.execute(f"SELECT id FROM {table}{f' WHERE {where}' if where else ''}")]  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None)
@given(
    ids=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-50, 50), unique=True, max_size=40),
    parts=st.integers(1, 9),
    where=st.sampled_from(["", '"v" >= 3', '"v" = 1 OR "v" = 2', "\"u\" < TIMESTAMP'2024-01-01 00:00:00.001500'"]),
)
def test_slices_and_chunks_tile_a_table_exactly(
    client: psycopg.Connection, shared: PostgresSource, ids: list[int], parts: int, where: str
) -> None:
    fill(client, ids)
    schema = replace(shared.schema(ROWS), approximate_rows=len(ids))
    slices = shared.slices(schema, ("id",), where, parts)
    by_time = shared.slices(schema, (), where, parts)
    chunks = whole_chunks(shared, schema, max(len(ids) // parts, 1))
    assert len(slices) <= parts
    for cut, whole in ((slices, where), (by_time, where), (chunks, "")):
        read = [id_ for one in cut for id_ in ids_of(client, one)]
        assert sorted(read) == sorted(ids_of(client, whole))


def test_a_large_table_is_cut_into_as_many_parts_as_asked(client: psycopg.Connection, source: PostgresSource) -> None:
    fill(client, list(range(100)))
    client.execute("ANALYZE numbers")
    schema = source.schema(ROWS)
    assert schema.approximate_rows == 100
    assert len(source.slices(schema, ("id",), "", 4)) == 4
    assert len(whole_chunks(source, schema, 10)) == 10
    assert whole_chunks(source, schema, 1000) == ("",)
    assert source.count(ROWS, "", 10) == 10
    assert source.count(ROWS, '"id" < 7', 10) == 7


def test_a_window_of_a_table_with_text_keys_is_cut_by_time(server: PostgresServer, source: PostgresSource) -> None:
    server.execute(
        *(f"INSERT INTO texts VALUES ('k{i}', '2024-01-01 00:00:{i:02d}.5+00')" for i in range(60)),
        "INSERT INTO texts VALUES ('never', '-infinity'), ('ever', 'infinity'), ('old', '0044-03-15 BC')",
        database=DB,
    )
    table = TableName(schema="public", name="texts")
    schema = source.schema(table)
    cursor, _ = source.cursor(schema, ("u",))
    window = Window(low=CursorValue(parts=("2024-01-01 00:00:10.000000",)), high=CursorValue(parts=("2024-01-01 00:00:50.000000",)))
    slices = source.slices(schema, ("code",), source.window_predicate(cursor, window), 4)
    assert [source.count(table, one, 100) for one in slices] == [10, 10, 10, 10]
    below = source.window_predicate(cursor, replace(window, low=None))
    assert sum(source.count(table, one, 100) for one in source.slices(schema, ("code",), below, 4)) == 52
    assert sum(source.count(table, one, 100) for one in source.slices(schema, ("code",), "", 4)) == source.count(table, "", 1000)


# ----------------------------------------------------------------------------------------------------------------- predicates

COMPOSITE = Cursor(
    columns=(CursorColumn(name="u", type=CursorType.TIMESTAMP, precision=6), CursorColumn(name="id", type=CursorType.INTEGER))
)
MOMENTS = [f"2024-01-01 00:00:00.{micros:06d}" for micros in range(0, 6)]


def values() -> st.SearchStrategy[CursorValue | None]:
    moment, number = st.sampled_from(MOMENTS), st.integers(0, 12).map(str)
    return (
        st.none() | st.builds(lambda u: CursorValue(parts=(u,)), moment) | st.builds(lambda u, n: CursorValue(parts=(u, n)), moment, number)
    )


@pytest.fixture(scope="module")
def dense(server: PostgresServer) -> dict[int, CursorValue]:
    rows = {id_: CursorValue(parts=(MOMENTS[id_ % 5], str(id_))) for id_ in range(12)}
    server.execute("CREATE TABLE dense (id bigint PRIMARY KEY, u timestamptz NOT NULL)", database=DB)
    server.execute(*(f"INSERT INTO dense VALUES ({id_}, '{value.parts[0]}+00')" for id_, value in rows.items()), database=DB)
    return rows


@settings(max_examples=60, deadline=None)
@given(low=values(), high=values())
def test_a_window_reads_what_the_reference_says(
    client: psycopg.Connection, shared: PostgresSource, dense: dict[int, CursorValue], low: CursorValue | None, high: CursorValue | None
) -> None:
    read = set(ids_of(client, shared.window_predicate(COMPOSITE, Window(low=low, high=high)), "dense"))
    assert read == {id_ for id_, value in dense.items() if contains(COMPOSITE, Window(low=low, high=high), value)}


def test_keys_are_looked_up_whatever_is_in_them(server: PostgresServer, source: PostgresSource) -> None:
    keys = ["plain", "it's", 'a"b', "back\\slash", "per%cent", "col:on", "é", "x'; DROP TABLE keyed; -- "]
    server.execute(
        "CREATE TABLE keyed (t text, n numeric(10,2), b bytea, d date, u uuid, f bit(3), z time(2) with time zone, PRIMARY KEY (t, n, b))",
        *(
            "INSERT INTO keyed VALUES ('" + key.replace("'", "''") + f"', {index}.50, '\\x00ff', '2024-01-01',"
            " '00000000-0000-0000-0000-0000000000ff', B'101', '12:00:00.5-05:30')"
            for index, key in enumerate(keys)
        ),
        database=DB,
    )
    table = TableName(schema="public", name="keyed")
    schema = source.schema(table)
    wanted = tuple((key, f"{index}.50", "00FF") for index, key in enumerate(keys))
    assert source.count(table, source.keys_predicate(schema, ("t", "n", "b"), wanted), 100) == len(keys)
    for key, value in (("d", "2024-01-01"), ("u", "00000000-0000-0000-0000-0000000000FF"), ("f", "101"), ("z", "12:00:00.5-05:30")):
        assert source.count(table, source.keys_predicate(schema, (key,), ((value,),)), 100) == len(keys)
    assert source.count(table, source.keys_predicate(schema, ("t",), ()), 100) == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [("select", "1 OR 1=1"), ("select", "1.5"), ("updated_at", "yesterday"), ("b", "xyz"), ("u", "1"), ("bits", "2"), ("cost", "1e5")],
)
def test_a_key_that_is_no_value_of_its_column_is_refused(source: PostgresSource, key: str, value: str) -> None:
    with pytest.raises(RequestError, match="is not a value of key column"):
        source.keys_predicate(source.schema(HOSTILE), (key,), ((value,),))


def test_an_instant_becomes_a_literal_in_the_columns_zone_and_resolution(source: PostgresSource, server: PostgresServer) -> None:
    schema = source.schema(HOSTILE)
    instant = datetime(2024, 7, 1, 12, 0, 0, 123456, tzinfo=UTC)
    utc, _ = source.cursor(schema, ("updated_at",))
    assert source.literal(schema, utc, instant).parts == ("2024-07-01 12:00:00.124000",)
    berlin = PostgresSource(replace(CONFIG, time_zone="Europe/Berlin"), url(server))
    local, _ = berlin.cursor(schema, ("created_at",))
    assert berlin.literal(schema, local, instant).parts == ("2024-07-01 14:00:01.000000",)
    berlin.close()
    counter, _ = source.cursor(schema, ("select",))
    with pytest.raises(RequestError, match="is numeric and has no value for an instant"):
        source.literal(schema, counter, instant)
