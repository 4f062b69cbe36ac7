"""Real events through whole runs: Debezium's own engine beside a server that many write to, and killed; the lake equals the source."""

import random
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
from pyspark.sql import DataFrame, SparkSession

import cdc_ops
from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.schema.server_types.unsigned_bigints import widened_schema
from cdc_ops.dev.debezium import running_debezium
from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.dev.sink_archive import SinkArchive
from cdc_ops.sources.base import open_source
from cdc_ops.steps.query.jdbc_rows import read_source
from tests.world import World

SAFE = (
    ("event.converting.failure.handling.mode", "fail"),
    ("converter.replace.null.with.default", "false"),
    ("skipped.operations", "none"),
)
WRITERS = 4
LONG = "(SELECT string_agg(md5(i::text || '{n}'), '') FROM generate_series(1, 300) i)"


@dataclass(frozen=True)
class Dialect:
    """How the applications of one kind of server write.

    Args:
        form: The format of its events.
        busy: Columns of the table `busy` besides `id`, `n` and `note`, with types.
        columns, values: What an INSERT writes into them; `{n}` stands for a number.
        identity: What numbers rows.
        verb, conflict: What an INSERT begins and ends with that takes the place of a row.
        connect: Opens a connection of an application.
        runs_meanwhile: Whether the pipeline runs while they write, too; else it runs once, at the end.
        tables: What is captured.
        moving: What is set with a changed key, so that the event says all of the row.
        before, after: What is run before the engine reads, and at the end.
    """

    form: str
    identity: str
    busy: str
    columns: str
    values: str
    verb: str
    conflict: str
    connect: Callable[[World], Any]
    tables: tuple[str, ...]
    runs_meanwhile: bool = True
    moving: str = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def insert(self, n: int, row: str = "DEFAULT", *, takes_place: bool = False) -> str:
        verb, conflict = (self.verb, self.conflict) if takes_place else ("INSERT", "")
        return f"{verb} INTO busy (id, {self.columns}) VALUES ({row}, {self.values.format(n=n)}) {conflict}"


def connect_mysql(world: World) -> "pymysql.Connection[Any]":
    server = world.server
    return pymysql.connect(
        host=server.host,
        port=server.port,
        user=server.user,
        password=server.password,
        database=world.database,
        charset="utf8mb4",
        init_command="SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'",
    )


def connect_postgres(world: World) -> "psycopg.Connection[Any]":
    server = world.server
    return psycopg.connect(
        host=server.host,
        port=server.port,
        user=server.admin,
        password=server.admin_password,
        dbname=world.database,
        options="-c deadlock_timeout=20ms",
    )


MYSQL = Dialect(
    form="debezium-mysql",
    identity="AUTO_INCREMENT",
    busy="""amount DECIMAL(12,2), big BIGINT UNSIGNED, at DATETIME(6), seen TIMESTAMP(3) NULL, took TIME(6), doc JSON,
        kind ENUM('new','paid'), flags SET('gift','late'), raw BLOB, bits BIT(10), born DATE, y YEAR""",
    columns="n, amount, big, at, seen, took, doc, kind, flags, raw, bits, born, y, note",
    values="{n}, {n}.25 * -3, 18446744073709551615 - {n}, '2024-02-29 23:59:59.000001' + INTERVAL {n} SECOND, '2024-03-31 01:30:00.123',"
    " '-{n}:00:00.5', '[{n}]', ELT(1 + {n} % 2, 'new', 'paid'), {n} % 4, UNHEX('00FF0A'), {n} % 1024,"
    " IF({n} % 5, '2024-01-31', '0000-00-00'), 1970 + {n} % 80, IF({n} % 3, 'é😀 \\'\"\\\\ \\n', NULL)",
    verb="REPLACE",
    conflict="",
    connect=connect_mysql,
    runs_meanwhile=False,
    tables=("busy",),
)
MARIADB = replace(MYSQL, tables=("busy", "cleared"), runs_meanwhile=True)
LARGE = {
    "tags": "text[] SELECT md5(g::text)",
    "names": "varchar(40)[] SELECT md5(g::text)",
    "ids": "bigint[] SELECT g::bigint * 7919",
    "numbers": "integer[] SELECT g * 7919",
    "refs": "uuid[] SELECT md5(g::text)::uuid",
}
"""Arrays that Postgres keeps beside the row: an update of another column does not log them, and a placeholder comes for each."""
_PARTS = {name: text.split(" ", 1) for name, text in LARGE.items()}
ARRAYS = (
    f"CREATE TABLE big (id int PRIMARY KEY, n int, {', '.join(f'{name} {kind}' for name, (kind, _) in _PARTS.items())})",
    *(f"ALTER TABLE big ALTER {name} SET STORAGE EXTERNAL" for name in LARGE),
    f"INSERT INTO big SELECT i, 1, {', '.join(f'ARRAY({query} FROM generate_series(1, 900) g)' for _, query in _PARTS.values())}"
    " FROM generate_series(1, 2) i",
)
POSTGRES = Dialect(
    form="debezium-postgres",
    identity="GENERATED BY DEFAULT AS IDENTITY",
    busy="""amount NUMERIC(12,2), at TIMESTAMP(6), seen TIMESTAMPTZ(3), took TIME(6), doc JSONB, raw BYTEA, born DATE, uid UUID,
        paid BOOLEAN, share DOUBLE PRECISION, long TEXT""",
    columns="n, amount, at, seen, took, doc, raw, born, uid, paid, share, long, note",
    values="{n}, {n}.25 * -3, TIMESTAMP '2024-02-29 23:59:59.000001' + {n} * INTERVAL '1 second', '2024-03-31 01:30:00.123+02',"
    " '01:02:03.000004', '{{\"a\": [{n}]}}', '\\x00ff0a', '2024-01-31', md5('{n}')::uuid, {n} % 2 = 0, {n} / 7.0::double precision,"
    f" {LONG}, CASE WHEN {{n}} % 3 > 0 THEN E'é😀 \\'\"\\\\ \\n' END",
    verb="INSERT",
    conflict="ON CONFLICT (id) DO UPDATE SET n = excluded.n, note = excluded.note, amount = excluded.amount",
    connect=connect_postgres,
    tables=("busy", "big"),
    moving=", long = long || '.'",
    before=ARRAYS,
    after=("UPDATE big SET n = 2 WHERE id = 1", "UPDATE big SET n = 3, tags = tags || 'x'::text WHERE id = 2"),
)
REFUSED = (pymysql.err.OperationalError, pymysql.err.IntegrityError, psycopg.OperationalError, psycopg.IntegrityError)
"""A deadlock, or a row that somebody else has made."""


def write(world: World, dialect: Dialect, seed: int) -> None:
    """Transactions of one application; rows below 20 are everybody's."""
    chance = random.Random(seed)
    with closing(dialect.connect(world)) as connection, connection.cursor() as cursor:
        for number in range(25):
            n = 100 * seed + number
            row = chance.randint(1, 20)
            possible = (
                dialect.insert(n),
                dialect.insert(n, str(row), takes_place=True),
                f"UPDATE busy SET n = n + 1, note = NULL WHERE id <= {row}",
                f"UPDATE busy SET n = {n}, took = '23:59:59', amount = amount + 0.01 WHERE id = {row}",
                f"UPDATE busy SET id = {1000 + n}{dialect.moving} WHERE id = {row}",
                f"DELETE FROM busy WHERE id = {row}",
                f"INSERT INTO cleared (id) VALUES ({n + 1})",
            )
            try:
                for statement in chance.sample(possible, chance.randint(1, 5)):
                    cursor.execute(statement)
                (connection.rollback if chance.random() < 0.2 else connection.commit)()
            except REFUSED:
                connection.rollback()


def work(world: World, dialect: Dialect, between: Callable[[], None]) -> None:
    """All writers beside a long transaction; then an ALTER, a TRUNCATE, and several statements of one transaction on the same rows."""
    with closing(dialect.connect(world)) as long, long.cursor() as cursor:
        cursor.execute("INSERT INTO busy (id, note) VALUES (500, 'long')")
        threads = [threading.Thread(target=write, args=(world, dialect, seed)) for seed in range(1, WRITERS + 1)]
        for thread in threads[: WRITERS // 2]:
            thread.start()
        between()
        for thread in threads[WRITERS // 2 :]:
            thread.start()
        cursor.execute("UPDATE busy SET note = 'longer' WHERE id = 500")
        long.commit()
        for thread in threads:
            thread.join()
    world.sql(
        "TRUNCATE TABLE cleared",
        "ALTER TABLE busy ADD COLUMN extra INT",
        "UPDATE busy SET extra = 3 WHERE id > 400",
        "INSERT INTO cleared (id) VALUES (4)",
        *dialect.after,
    )
    # The last statement says what the row is; the number of the row within its statement is lower than before.
    with closing(dialect.connect(world)) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO busy (id, n) VALUES (9001, 1), (9002, 1), (9003, 1)")
        cursor.execute("UPDATE busy SET n = 2 WHERE id > 9000")
        cursor.execute("UPDATE busy SET n = 3 WHERE id = 9003")
        connection.commit()


def follow(world: World, dialect: Dialect) -> None:
    """Lets the world follow an archive while a server is written and its engine killed; the pipeline runs meanwhile and at the end."""
    world.configure(method=Method.LOG, cursor=(), event_history=world.server.name == "MariaDB")
    url = str(world.folder / "archive" / "cdc.{schema}.{table}")
    # Postgres' connector has no years of two digits, and no setting for them.
    settings = SAFE if dialect.form == "debezium-postgres" else (*SAFE, ("enable.time.adjuster", "false"))
    world.pipeline = replace(
        world.pipeline, archive=ArchiveConfig.of(url=url, format=dialect.form, settings=settings, min_file_age=timedelta(0))
    )
    world.sql(
        f"CREATE TABLE busy (id BIGINT {dialect.identity} PRIMARY KEY, n INT NOT NULL DEFAULT 5, {dialect.busy},"
        " note VARCHAR(40) DEFAULT 'unset')",
        "CREATE TABLE cleared (id BIGINT PRIMARY KEY, n INT)",
        *dialect.before,
    )
    with closing(dialect.connect(world)) as connection, connection.cursor() as cursor:
        for row in range(1, 13):
            cursor.execute(dialect.insert(row, str(row)))
        cursor.execute("INSERT INTO cleared (id) VALUES (1)")
        connection.commit()
    tables = [f"{world.database}.{table}" for table in dialect.tables]
    sink, place = SinkArchive(world.folder / "archive", world.folder / "sink", records_per_file=40), world.folder / "engine"
    never = {"offset.flush.interval.ms": "3600000"}  # what this one delivers comes again from the next
    with running_debezium(world.server, tables, sink, place) as engine:
        engine.catch_up()
    with running_debezium(world.server, tables, sink, place, settings=never) as engine:

        def break_down() -> None:
            engine.catch_up()
            if dialect.runs_meanwhile:
                run(world, dialect.tables[:1])
            engine.kill()

        work(world, dialect, break_down)
    with running_debezium(world.server, tables, sink, place, settings={"slot.drop.on.stop": "true"}) as engine:
        engine.catch_up()
    run(world, dialect.tables)


def run(world: World, tables: tuple[str, ...]) -> None:
    report = world.run(tables=tuple(str(world.name(table)) for table in tables))
    assert not report.failures, [str(failure.error) for failure in report.failures]


def differences(world: World, table: str, stored: DataFrame) -> list[tuple[Any, ...]]:
    """Rows that are not the same on both sides, by column."""
    with closing(open_source(world.pipeline.source, world.url)) as source:
        schema = widened_schema(source.schema(world.name(table)))
        there = read_source(world.spark, source.jdbc_read(schema, ("",)), schema)
        rows = {row["id"]: row.asDict() for row in there.collect()}
    ours = {row["id"]: row.asDict() for row in stored.collect()}
    assert rows, "the workload leaves rows"
    assert len(ours) == stored.count()
    names = [column.name for column in schema.columns]
    return [
        (key, name, rows.get(key, {}).get(name), ours.get(key, {}).get(name))
        for key in sorted({*rows, *ours})
        for name in names
        if key not in rows or key not in ours or rows[key][name] != ours[key][name]
    ]


@pytest.mark.parametrize(
    ("kind", "dialect"),
    [
        pytest.param("mariadb", MARIADB, id="mariadb", marks=pytest.mark.long),
        pytest.param("mysql", MYSQL, id="mysql"),
        pytest.param("postgres", POSTGRES, id="postgres", marks=pytest.mark.long),
    ],
)
def test_tables_that_many_write_are_in_the_lake_as_they_are(
    kind: str, dialect: Dialect, request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    world = World(server, tmp_path, spark)
    follow(world, dialect)
    for table in dialect.tables:
        wrong = differences(world, table, spark.read.format("delta").load(world.path(table)))
        assert wrong == [], str(wrong[:40])
    if kind == "mariadb":  # its events, kept while a column was added, come to the same
        wrong = differences(world, "busy", cdc_ops.as_of(spark, world.path("busy"), datetime.now(UTC)))
        assert wrong == [], str(wrong[:40])
