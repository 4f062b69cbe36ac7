"""Reads that wait for a table that is altered: all rows of the altered table, or an error; never none, and never values of another type."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa
import pymysql
import pytest

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import Reader, SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import DatabaseServer, MariaDBServer, PostgresServer
from cdc_ops.errors import SchemaChangedError
from cdc_ops.sources.base import NativeRead, Source, open_source
from cdc_ops.sources.mysql import wire as mysql_wire
from cdc_ops.sources.postgres.native_reader import wire as postgres_wire
from tests.integration.test_postgres_bounds import wait_until

DATABASE = "locked"
ROWS = 200
REWRITES = ("ALTER TABLE t SET UNLOGGED", "ALTER TABLE t ADD COLUMN e uuid DEFAULT gen_random_uuid()")


def opened(server: DatabaseServer, user: str = "", password: str = "") -> Source:
    scheme = "postgresql" if isinstance(server, PostgresServer) else "mysql"
    url = ConnectionUrl.from_parts(
        scheme, server.host, server.port, user or server.user, password if user else server.password, DATABASE
    ).render()
    return open_source(SourceConfig(kind=SourceKind(server.name.lower()), connection="c", reader=Reader.NATIVE), url)


def planned(source: Source, table: str = "t", columns: tuple[str, ...] = ()) -> NativeRead:
    name = TableName(schema="public" if source.config.kind is SourceKind.POSTGRES else DATABASE, name=table)
    try:
        read = source.jdbc_read(source.schema(name, columns=columns), ()).native
    finally:
        source.close()  # it opens again when it is asked again
    assert read is not None
    return read


def rows_of(read: NativeRead) -> list[dict[str, object]]:
    reader = (postgres_wire if "postgres" in read.reader else mysql_wire).read_batches
    batches = [batch for statement in read.statements for batch in reader(read.url, statement, read.columns)]
    return pa.Table.from_batches(batches).to_pylist() if batches else []


@pytest.fixture
def table(postgres: PostgresServer) -> PostgresServer:
    """A table whose rows are all newer than any snapshot that a waiting reader may have."""
    postgres.create_database(DATABASE)
    postgres.execute(
        "DROP TABLE IF EXISTS p CASCADE; DROP VIEW IF EXISTS seen; DROP TABLE IF EXISTS t CASCADE",
        "CREATE TABLE t (id int PRIMARY KEY, x double precision)",
        f"INSERT INTO t SELECT n, n FROM generate_series(1, {ROWS}) AS n",
        database=DATABASE,
    )
    return postgres


@contextmanager
def altering(server: PostgresServer, *statements: str) -> Iterator[None]:
    """Holds the locks of statements until a reader waits for them, and then commits."""
    url = ConnectionUrl.from_parts("postgresql", server.host, server.port, server.admin, server.admin_password, DATABASE).render()
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement)  # type: ignore[arg-type]
        waiting = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'cdc-ops' AND wait_event_type = 'Lock'"

        def commit() -> None:
            wait_until(lambda: bool(server.execute(waiting)))
            connection.commit()

        committing = threading.Thread(target=commit)
        committing.start()
        yield
        committing.join()


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_copy_that_waits_for_a_rewrite_reads_all_rows(table: PostgresServer, rewrite: str) -> None:
    source = opened(table)
    read = planned(source, columns=("id", "x"))
    with altering(table, rewrite):
        found = rows_of(read)
    assert len(found) == ROWS
    with altering(table, "UPDATE t SET x = x + 1", "CLUSTER t USING t_pkey"):
        assert sum(int(str(row["c2"]).removesuffix(".0")) for row in rows_of(read)) == sum(range(2, ROWS + 2))
    with altering(table, "ALTER TABLE t SET LOGGED"):
        assert source.count(TableName(schema="public", name="t"), "", 1000) == ROWS
    with altering(table, "CLUSTER t USING t_pkey"):
        assert source.checksum(TableName(schema="public", name="t"), ('"id"',), "")[0] == ROWS
    source.close()


def test_a_copy_of_partitions_children_and_views_waits_for_each_of_their_tables(table: PostgresServer) -> None:
    table.execute(
        "CREATE TABLE p (id int, x int, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (1000)",
        f"INSERT INTO p SELECT n, n FROM generate_series(1, {ROWS}) AS n",
        "CREATE TABLE c () INHERITS (t)",
        "INSERT INTO c SELECT n + 1000, n FROM generate_series(1, 50) AS n",
        "CREATE VIEW seen AS SELECT id, x::bigint AS x FROM t",
        database=DATABASE,
    )
    with altering(table, "UPDATE p SET x = x + 1", "ALTER TABLE p2 SET UNLOGGED"):
        assert len(rows_of(planned(opened(table), "p"))) == ROWS
    with altering(table, "UPDATE c SET x = x + 1", "ALTER TABLE c SET UNLOGGED"):
        assert len(rows_of(planned(opened(table)))) == ROWS + 50
    read = planned(opened(table))
    seen = replace(read, statements=('SELECT "id" AS c1, "x"::double precision AS c2 FROM "seen"',))
    with altering(table, "UPDATE t SET x = x + 1", "ALTER TABLE t SET UNLOGGED"):
        assert len(rows_of(seen)) == ROWS + 50


def test_a_user_who_may_read_some_columns_only_waits_as_well(table: PostgresServer) -> None:
    table.execute(
        "DROP ROLE IF EXISTS narrow",
        "CREATE ROLE narrow LOGIN PASSWORD 'narrow'",
        "GRANT SELECT (id) ON t TO narrow",
        "CREATE OR REPLACE VIEW seen AS SELECT * FROM t",
        database=DATABASE,
    )
    read = planned(opened(table), columns=("id",))
    read = replace(read, url=read.url.replace(f"{table.user}:{table.password}@", "narrow:narrow@"))
    try:
        with altering(table, "UPDATE t SET x = x + 1", REWRITES[1]):
            assert len(rows_of(read)) == ROWS
    finally:
        table.execute("DROP OWNED BY narrow", "DROP ROLE narrow", database=DATABASE)


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_the_copy_sees_what_is_committed_when_it_has_its_lock_whatever_isolation_is_the_default(
    table: PostgresServer, isolation: str
) -> None:
    table.execute(f"ALTER ROLE {table.user} SET default_transaction_isolation = '{isolation}'")
    try:
        read = planned(opened(table))
        with altering(table, *REWRITES):
            assert len(rows_of(read)) == ROWS
    finally:
        table.execute(f"ALTER ROLE {table.user} RESET default_transaction_isolation")


@pytest.mark.parametrize(
    ("declared", "altered"),
    [
        *(("double precision", "bigint"), ("bigint", "double precision"), ("integer", "real"), ("integer", "date"), ("date", "integer")),
        *(("timestamp", "timestamptz"), ("timestamptz", "timestamp"), ("timestamp", "bigint"), ("bytea", "text"), ("text", "bytea")),
        *(("numeric(10,2)", "text"), ("boolean", "bytea"), ("smallint", "integer")),
    ],
)
def test_values_of_another_type_than_planned_are_never_read(table: PostgresServer, declared: str, altered: str) -> None:
    table.execute(f"ALTER TABLE t DROP COLUMN x, ADD COLUMN x {declared}", database=DATABASE)
    read = planned(opened(table))
    assert len(rows_of(read)) == ROWS
    table.execute(f"ALTER TABLE t DROP COLUMN x, ADD COLUMN x {altered}", database=DATABASE)
    with pytest.raises(SchemaChangedError, match="answers with other columns"):
        rows_of(read)


def test_a_result_of_more_or_fewer_columns_than_planned_is_refused_by_each_server(table: PostgresServer, mariadb: MariaDBServer) -> None:
    mariadb.create_database(DATABASE)
    mariadb.execute("DROP TABLE IF EXISTS t", "CREATE TABLE t (id INT PRIMARY KEY, x INT)", database=DATABASE)
    mariadb.execute("INSERT INTO t VALUES (1, 2)", database=DATABASE)
    for server in (table, mariadb):
        read = planned(opened(server))
        assert rows_of(read)
        for columns in ((), read.columns[:1], (*read.columns, read.columns[0])):
            with pytest.raises(SchemaChangedError, match=f"2 columns in place of {len(columns)}"):
                rows_of(replace(read, columns=columns))


@pytest.mark.parametrize(
    ("declared", "altered"),
    [
        *(
            ("BIGINT", "DOUBLE"),
            ("INT", "VARCHAR(20)"),
            ("DATETIME", "TIMESTAMP NULL"),
            ("TIMESTAMP NULL", "DATETIME"),
        ),
        *(("DATE", "DATETIME"), ("VARBINARY(20)", "VARCHAR(20)"), ("VARCHAR(20)", "VARBINARY(20)"), ("DECIMAL(10,2)", "DOUBLE")),
    ],
)
@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_values_of_another_type_than_planned_are_never_read_from_mysql(
    request: pytest.FixtureRequest, kind: str, declared: str, altered: str
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    server.create_database(DATABASE)
    server.execute("DROP TABLE IF EXISTS t", f"CREATE TABLE t (id INT PRIMARY KEY, x {declared})", database=DATABASE)
    server.execute("INSERT INTO t (id) VALUES (1), (2)", database=DATABASE)
    read = planned(opened(server))
    assert len(rows_of(read)) == 2
    server.execute(f"ALTER TABLE t DROP COLUMN x, ADD COLUMN x {altered}", database=DATABASE)
    with pytest.raises(SchemaChangedError, match="answers with other columns"):
        rows_of(read)


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_select_of_mysql_that_waits_for_a_rewrite_reads_all_rows(request: pytest.FixtureRequest, kind: str) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    server.create_database(DATABASE)
    server.execute("DROP TABLE IF EXISTS t", "CREATE TABLE t (id INT PRIMARY KEY, x DOUBLE)", database=DATABASE)
    server.execute(f"INSERT INTO t (id) VALUES {', '.join(f'({number})' for number in range(ROWS))}", database=DATABASE)
    source = opened(server)
    read, name = planned(source), TableName(schema=DATABASE, name="t")
    for act in (lambda: len(rows_of(read)), lambda: source.count(name, "", 1000), lambda: source.checksum(name, ("`id`",), "")[0]):
        with pymysql.connect(host=server.host, port=server.port, user=server.user, password=server.password, database=DATABASE) as alterer:

            def alter(connection: Any = alterer) -> None:
                waiting = "SELECT 1 FROM information_schema.processlist WHERE state LIKE 'Waiting for table%metadata lock'"
                wait_until(lambda: bool(server.execute(waiting)))
                with connection.cursor() as cursor:
                    cursor.execute("UPDATE t SET x = 1")
                    cursor.execute("ALTER TABLE t FORCE, ALGORITHM=COPY")
                    cursor.execute("UNLOCK TABLES")

            alterer.cursor().execute("LOCK TABLES t WRITE")
            altering_now = threading.Thread(target=alter)
            altering_now.start()
            assert act() == ROWS
            altering_now.join()
    source.close()
