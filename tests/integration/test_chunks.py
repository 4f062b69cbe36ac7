"""Chunks and slices on real servers: every row is in exactly one, for each kind of key, also rows that come later."""

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.dev.servers import DatabaseServer, MariaDBServer, MySQLServer, PostgresServer
from cdc_ops.sources.base import Source, open_source
from cdc_ops.sources.chunks.chunks import ChunkPlan, ChunkSize

DB = "chunked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server with a database for these tests, and a source that reads it."""

    server: DatabaseServer
    source: Source
    schema: str

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(*statements, database=DB)

    def read(self, table: str, condition: str) -> list[tuple[Any, ...]]:
        return self.sql(f"SELECT n FROM {table}{f' WHERE {condition}' if condition else ''}")

    def table(self, name: str) -> TableSchema:
        return self.source.schema(TableName(schema=self.schema, name=name))


def place(server: DatabaseServer, kind: SourceKind) -> Place:
    server.create_database(DB)
    scheme = "postgresql" if kind is SourceKind.POSTGRES else "mysql"
    url = ConnectionUrl.from_parts(scheme, server.host, server.port, server.user, server.password, DB).render()
    schema = "public" if kind is SourceKind.POSTGRES else DB
    return Place(server=server, source=open_source(SourceConfig(kind=kind, connection="c"), url), schema=schema)


@pytest.fixture(scope="module")
def maria(mariadb: MariaDBServer) -> Iterator[Place]:
    made = place(mariadb, SourceKind.MARIADB)
    yield made
    made.source.close()


@pytest.fixture(scope="module")
def my(mysql: MySQLServer) -> Iterator[Place]:
    made = place(mysql, SourceKind.MYSQL)
    yield made
    made.source.close()


@pytest.fixture(scope="module")
def pg(postgres: PostgresServer) -> Iterator[Place]:
    made = place(postgres, SourceKind.POSTGRES)
    yield made
    made.source.close()


def check(where: Place, table: str, keys: tuple[str, ...], rows: int, late: Sequence[str] = ()) -> ChunkPlan:
    """Cuts a table finely, then inserts, then reads each slice: together they are the table."""
    schema = replace(where.table(table), approximate_rows=rows)
    plan = where.source.chunks(schema, keys, ChunkSize(rows=max(rows // 5, 1), readers=2))
    if late:
        where.sql(*late)
    found = [number for chunk in plan.chunks for one in chunk.slices for (number,) in where.read(table, one)]
    assert sorted(found) == sorted(number for (number,) in where.read(table, ""))
    for chunk, behind in itertools.pairwise(plan.chunks):
        left = where.source.chunks(schema, keys, ChunkSize(rows=max(rows // 3, 1), readers=2), chunk.rest)
        again = [number for part in left.chunks for one in part.slices for (number,) in where.read(table, one)]
        later = [n for one in plan.chunks[plan.chunks.index(behind) :] for part in one.slices for (n,) in where.read(table, part)]
        assert sorted(again) == sorted(later)
    return plan


def sizes(where: Place, table: str, plan: ChunkPlan) -> list[int]:
    return [sum(len(where.read(table, one)) for one in chunk.slices) for chunk in plan.chunks]


TEXTS = ["a", "A", "b", "B ", "ä", "Ä", "ß", "ss", "it''s", "per%cent", "ques?tion", "curly{d", "日本", "", "zz", "a b", "a-b", "Z"]
MARIA_KEYS = {
    "sparse numbers": ("k BIGINT PRIMARY KEY", [*map(str, range(-20, 60)), "9223372036854775807", "-9223372036854775808"], ["-21", "1000"]),
    "the largest number": ("k BIGINT UNSIGNED PRIMARY KEY", [*map(str, range(60)), "18446744073709551615"], ["18446744073709551614", "77"]),
    "text that ignores case": (
        "k VARCHAR(20) PRIMARY KEY",
        [f"'{t}{i}'" for t in TEXTS[2:4] + TEXTS[4:] for i in range(4)],
        ["'B3x'", "'C'"],
    ),
    "text by its bytes": (
        "k VARCHAR(20) COLLATE utf8mb4_bin PRIMARY KEY",
        [f"'{t}{i}'" for t in TEXTS for i in range(4)],
        ["'a9'", "'A9'"],
    ),
    "text without padding": (
        "k VARCHAR(20) COLLATE utf8mb4_nopad_bin PRIMARY KEY",
        [f"'{t}{' ' * i}'" for t in "abcdefgh" for i in range(5)],
        ["'a      '"],
    ),
    "latin1 text": ("k CHAR(20) CHARACTER SET latin1 PRIMARY KEY", [f"'{t}{i}'" for t in "aäößéq€" for i in range(6)], ["'z'"]),
    "backslashes and quotes": (
        "k VARCHAR(20) PRIMARY KEY",
        [f"'{t}{i}'" for t in ("\\\\", "''", '"', "\\n", "\\0") for i in range(8)],
        ["'x'"],
    ),
    "bytes": ("k VARBINARY(20) PRIMARY KEY", [f"X'{i:02x}00{j:02x}'" for i in range(0, 256, 16) for j in (0, 255)], ["X''", "X'FF'"]),
    "decimals": (
        "k DECIMAL(30,10) PRIMARY KEY",
        [f"{i}.{i:03d}" for i in range(-30, 30) if i],
        ["0.5", "-99999999999999999999.0000000001"],
    ),
    "days": ("k DATE PRIMARY KEY", ["'0000-00-00'", *(f"'20{i:02d}-02-28'" for i in range(60))], ["'9999-12-31'"]),
    "moments": ("k DATETIME(6) PRIMARY KEY", [f"'2024-01-01 00:00:{i:02d}.{i:06d}'" for i in range(60)], ["'1000-01-01'"]),
    "instants": ("k TIMESTAMP(3) PRIMARY KEY", [f"'2024-03-31 01:{i:02d}:00.123'" for i in range(60)], ["'2024-03-31 03:00:00'"]),
    "times": ("k TIME(3) PRIMARY KEY", [f"'{i}:00:00.5'" for i in range(-800, 800, 30)], ["'838:59:59'"]),
    "uuids": (
        "k UUID PRIMARY KEY",
        [f"'{i:08x}-0000-4000-8000-{(i * 977) % 65536:012x}'" for i in range(60)],
        ["'ffffffff-ffff-4fff-8fff-ffffffffffff'"],
    ),
    "nulls": ("k INT NULL, UNIQUE (k)", ["NULL"] * 9 + [str(i) for i in range(50)], ["NULL", "-7", "99"]),
    "many of one value": ("k INT NOT NULL, KEY (k)", ["5"] * 40 + [str(i) for i in range(20)], ["5", "21"]),
    "null text": ("k VARCHAR(9) NULL, KEY (k)", ["NULL"] * 5 + [f"'v{i}'" for i in range(40)], ["NULL", "''"]),
}


@pytest.mark.parametrize("kind", MARIA_KEYS)
def test_every_row_of_a_mariadb_table_is_in_one_slice(maria: Place, kind: str) -> None:
    declared, values, late = MARIA_KEYS[kind]
    maria.sql(
        f"CREATE OR REPLACE TABLE one (n INT AUTO_INCREMENT, {declared}, KEY (n)) COLLATE utf8mb4_general_ci",
        f"INSERT IGNORE INTO one (k) VALUES {', '.join(f'({value})' for value in values)}",
    )
    rows = len(maria.read("one", ""))
    plan = check(maria, "one", ("k",), rows, [f"INSERT INTO one (k) VALUES ({value})" for value in late])
    assert len(plan.chunks) >= 3, plan.how
    assert max(sizes(maria, "one", plan)) <= 50


PG_KEYS = {
    "sparse numbers": ("k bigint", [*map(str, range(-20, 60)), "9223372036854775807", "-9223372036854775808"], ["-21", "1000"]),
    "text": ("k text", [f"'{t}{i}'" for t in TEXTS for i in range(4)], ["'a9'", "'A9'"]),
    "text that ignores case": ("k text COLLATE ci", [f"'{t}{i}'" for t in TEXTS[2:3] + TEXTS[4:5] + TEXTS[8:] for i in range(4)], ["'B9'"]),
    "padded text": ("k char(9)", [f"'{t}{i}'" for t in "abcdefgh" for i in range(6)], ["'a'"]),
    "backslashes": ("k varchar(20)", [f"'{t}{i}'" for t in ("\\", "''", '"', "$$") for i in range(8)], ["'x'"]),
    "bytes": ("k bytea", [f"'\\x{i:02x}00{j:02x}'" for i in range(0, 256, 16) for j in (0, 255)], ["'\\x'", "'\\xFF'"]),
    "decimals": ("k numeric", ["'NaN'", *(f"{i}.{i:03d}" for i in range(-30, 30) if i)], ["0.5", "1e100"]),
    "floats": ("k float8", ["'Infinity'", "'-Infinity'", *(f"{i}/3.0" for i in range(40))], ["'NaN'", "1e-300"]),
    "days": ("k date", ["'infinity'", *(f"'20{i:02d}-02-28'" for i in range(60))], ["'0044-03-15 BC'"]),
    "instants": ("k timestamptz", [f"'2024-03-31 01:{i:02d}:00.123456+00'" for i in range(60)], ["'-infinity'"]),
    "uuids": (
        "k uuid",
        [f"'{i:08x}-0000-4000-8000-{(i * 977) % 65536:012x}'" for i in range(60)],
        ["'ffffffff-ffff-4fff-8fff-ffffffffffff'"],
    ),
    "lists": ("k int[]", [f"'{{{i % 5},{i}}}'" for i in range(40)], ["'{}'"]),
    "enumerated": ("k mood", ["'sad'", "'ok'", "'happy'"], []),
    "nulls": ("k int NULL", ["NULL"] * 9 + [str(i) for i in range(50)], ["NULL", "-7", "99"]),
    "a domain": ("k short", [f"'w{i}'" for i in range(40)], ["''"]),
}


@pytest.fixture(scope="module")
def pg_types(pg: Place) -> None:
    pg.sql(
        "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
        "CREATE DOMAIN short AS varchar(9)",
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    )


@pytest.mark.usefixtures("pg_types")
@pytest.mark.parametrize("kind", PG_KEYS)
def test_every_row_of_a_postgres_table_is_in_one_slice(pg: Place, kind: str) -> None:
    declared, values, late = PG_KEYS[kind]
    pg.sql(
        "DROP TABLE IF EXISTS one",
        f"CREATE TABLE one (n serial, {declared}, UNIQUE (k))",
        f"INSERT INTO one (k) VALUES {', '.join(f'({value})' for value in values)}",
        "ANALYZE one",
    )
    plan = check(pg, "one", ("k",), len(values), [f"INSERT INTO one (k) VALUES ({value})" for value in late])
    assert len(plan.chunks) >= min(len(values) // 10, 4), plan.how
    assert max(sizes(pg, "one", plan)) <= 40


COMPOSITE = "(a VARCHAR(9) NOT NULL, b INT NOT NULL, c BIGINT NOT NULL, n INT NOT NULL, PRIMARY KEY (a, b, c))"


def fill_composite(where: Place) -> None:
    """One text holds most rows, so that only the second and third column can cut them."""
    rows = [("x" if n % 10 else f"t{n}", n % 3 if n % 10 else -n, n * 1_000_003) for n in range(400)]
    where.sql(
        "DROP TABLE IF EXISTS several",
        f"CREATE TABLE several {COMPOSITE}",
        "INSERT INTO several VALUES " + ", ".join(f"('{a}', {b}, {c}, {n})" for n, (a, b, c) in enumerate(rows)),
        "ANALYZE several" if isinstance(where.server, PostgresServer) else "ANALYZE TABLE several",
    )


@pytest.mark.parametrize("name", ["maria", "my", "pg"])
def test_a_key_of_several_columns_is_cut_within_one_first_value(name: str, request: pytest.FixtureRequest) -> None:
    where: Place = request.getfixturevalue(name)
    fill_composite(where)
    plan = check(
        where, "several", ("a", "b", "c"), 400, ["INSERT INTO several VALUES ('x', 1, -5, 401), ('X2', 1, 1, 402), ('', 0, 0, 403)"]
    )
    assert plan.how.startswith("split by (a, b, c)")
    assert len(plan.chunks) == 5
    assert max(sizes(where, "several", plan)) <= 110


@pytest.mark.parametrize("name", ["maria", "my", "pg"])
def test_conditions_of_several_columns_are_ranges_of_the_index(name: str, request: pytest.FixtureRequest) -> None:
    where: Place = request.getfixturevalue(name)
    fill_composite(where)
    schema = replace(where.table("several"), approximate_rows=400)
    plan = where.source.chunks(schema, ("a", "b", "c"), ChunkSize(rows=40, readers=1))
    inner = plan.chunks[1:-1]
    assert len(inner) > 5
    for chunk in inner:
        [condition] = chunk.slices
        if name == "pg":
            shown = where.sql("SET enable_seqscan = off", "SET enable_bitmapscan = off", f"EXPLAIN SELECT * FROM several WHERE {condition}")
            text = " ".join(row[0] for row in shown)
            assert "Index Cond: ((ROW(" in text, text
            assert "Filter" not in text, text
        else:
            [shown] = where.sql(f"EXPLAIN FORMAT=TRADITIONAL SELECT * FROM several FORCE INDEX (PRIMARY) WHERE {condition}")
            assert "range" in shown
            assert max(int(cell) for cell in shown[1:] if isinstance(cell, int) or str(cell).isdecimal()) <= 110, shown


@pytest.mark.parametrize("name", ["maria", "my", "pg"])
def test_one_far_away_number_does_not_put_all_rows_into_one_slice(name: str, request: pytest.FixtureRequest) -> None:
    where: Place = request.getfixturevalue(name)
    numbers = [*range(2000), 9223372036854775807]
    where.sql(
        "DROP TABLE IF EXISTS far",
        "CREATE TABLE far (n BIGINT PRIMARY KEY)",
        "INSERT INTO far VALUES " + ", ".join(f"({number})" for number in numbers),
        "ANALYZE far" if name == "pg" else "ANALYZE TABLE far",
    )
    schema = where.table("far")
    slices = where.source.slices(schema, ("n",), "", 4)
    counts = [len(where.read("far", one)) for one in slices]
    assert len(counts) == 4
    assert sum(counts) == 2001
    assert max(counts) <= 800
    plan = where.source.chunks(schema, ("n",), ChunkSize(rows=10_000, bytes=schema.row_bytes * 250, readers=2))
    assert 7 <= len(plan.chunks) <= 10  # the bytes decide
    assert max(sizes(where, "far", plan)) <= 500


@pytest.mark.parametrize("name", ["maria", "my", "pg"])
def test_a_table_without_an_index_over_its_key_is_one_chunk_and_says_so(name: str, request: pytest.FixtureRequest) -> None:
    where: Place = request.getfixturevalue(name)
    where.sql("DROP TABLE IF EXISTS bare", "CREATE TABLE bare (n INT, k INT NOT NULL)", "INSERT INTO bare VALUES (1, 1), (2, 1), (3, 2)")
    schema = replace(where.table("bare"), approximate_rows=1000)
    plan = where.source.chunks(schema, ("k",), ChunkSize(rows=1, readers=4))
    assert [chunk.slices for chunk in plan.chunks] == [("",)]
    assert "no index of the table starts with a key column" in plan.how
    assert where.source.slices(schema, ("k",), "", 4) == ("",)


@pytest.mark.parametrize("name", ["maria", "my", "pg"])
def test_an_empty_table_is_one_chunk_that_takes_what_comes(name: str, request: pytest.FixtureRequest) -> None:
    where: Place = request.getfixturevalue(name)
    where.sql("DROP TABLE IF EXISTS nothing", "CREATE TABLE nothing (n INT PRIMARY KEY)")
    schema = replace(where.table("nothing"), approximate_rows=500)
    plan = where.source.chunks(schema, ("n",), ChunkSize(rows=100, readers=2))
    where.sql("INSERT INTO nothing VALUES (1), (-2), (3)")
    assert sorted(number for chunk in plan.chunks for one in chunk.slices for (number,) in where.read("nothing", one)) == [-2, 1, 3]


@pytest.mark.parametrize("name", ["maria", "my", "pg"])
def test_statements_that_run_are_counted_without_the_one_that_counts(name: str, request: pytest.FixtureRequest) -> None:
    where: Place = request.getfixturevalue(name)
    idle = where.source.running()
    pause = "SELECT pg_sleep(20)" if name == "pg" else "SELECT SLEEP(20)"

    def sleep_until_it_is_ended() -> None:
        with suppress(Exception):
            where.sql(pause)

    busy = [threading.Thread(target=sleep_until_it_is_ended) for _ in range(3)]
    for thread in busy:
        thread.start()
    end = time.monotonic() + 15
    while (most := where.source.running()) < idle + 3 and time.monotonic() < end:
        time.sleep(0.05)
    assert most >= idle + 3
    if name == "pg":
        where.sql(f"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = '{pause}'")
    else:
        for (number,) in where.sql(f"SELECT id FROM information_schema.processlist WHERE info = '{pause}'"):
            where.sql(f"KILL QUERY {number}")
    for thread in busy:
        thread.join()
    assert where.source.running() <= idle + 1
