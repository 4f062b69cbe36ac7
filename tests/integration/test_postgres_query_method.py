"""The query method on Postgres from end to end: real server, real Spark, real Delta; and every value as the server itself prints it."""

from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.requests import ResyncMode, RunKind
from cdc_ops.sources.base import open_source
from cdc_ops.steps.extract import read_source
from cdc_ops.steps.run import RunReport
from cdc_ops.testing.servers import PostgresServer
from tests.world import World

ORDERS = (
    """CREATE TABLE orders (
         id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, amount numeric(12,2) NOT NULL,
         updated_at timestamptz NOT NULL DEFAULT now())""",
    "CREATE INDEX ON orders (updated_at, id)",
    """CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.updated_at := now(); RETURN NEW; END'""",
    "CREATE TRIGGER touch BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION touch()",
    "INSERT INTO orders (customer, amount) SELECT 'c' || n, n / 7.0 FROM generate_series(1, 1000) AS n",
)

# Type, how the server prints what is expected in the lake ("" = the value's own text), values.
HOSTILE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("bigint", "", ("-9223372036854775808", "9223372036854775807")),
    ("smallint", "", ("-32768", "32767")),
    ("boolean", "", ("true", "false")),
    ("real", "encode(float4send({}), 'hex')", ("0.1", "3.4028235e38", "'NaN'", "'-Infinity'", "1e-45")),
    ("double precision", "encode(float8send({}), 'hex')", ("0.1", "1.7976931348623157e308", "'NaN'", "'Infinity'", "5e-324")),
    ("numeric(38,10)", "", ("1234567890123456789012345678.0123456789", "-0.0000000001")),
    ("numeric(10,2)", "NULLIF({}, 'NaN')", ("'NaN'", "-1.50")),
    ("numeric", "", ("'NaN'", "'Infinity'", "1e100", "0.10000000000000000000000000000000000000000001", "1.500")),
    ("numeric(50,3)", "", ("12345678901234567890123456789012345678901234567.125",)),
    ("text", "", ("''", "'a ''quote'' \\ back'", "E'tab\\tline\\n'", "'é漢😀'")),
    ("character(5)", "", ("'ab'", "'abcde'")),
    ("citext", "", ("'MiXed'",)),
    ("bytea", "encode({}, 'hex')", ("'\\x00ff10'", "''")),
    ("uuid", "", ("'00000000-0000-0000-0000-0000000000ff'",)),
    ("json", "", ("""'{"b": 1,  "a":1.10, "a": 12345678901234567890123}'""",)),
    ("jsonb", "", ("""'{"b": 1,  "a": 1.10, "n": 12345678901234567890123}'""", "'null'")),
    ("int[]", "to_json({})", ("'{1,NULL,3}'", "'{{1,2},{3,4}}'", "'{}'")),
    ("text[]", "to_json({})", ("""'{"a,b","c\\"d",NULL}'""",)),
    ("mood[]", "to_json({})", ("'{sad,happy}'",)),
    ("mood", "", ("'sad'",)),
    ("price", "", ("12.50",)),
    ("interval", "", ("'1 year 2 mons -3 days 04:05:06.789'", "'-00:00:00.000001'")),
    ("time", "", ("'24:00:00'", "'23:59:59.999999'")),
    ("timetz", "", ("'12:00:00+05:30'",)),
    ("bit(3)", "", ("B'101'",)),
    ("bit varying", "", ("B'1'", "B''")),
    ("money", "", ("12.34", "-92233720368547758.08")),
    ("inet", "", ("'10.0.0.1'", "'::1/64'")),
    ("point", "", ("'(0.1,2)'",)),
    ("int4range", "", ("'[1,5)'", "'empty'")),
    ("tstzrange", "", ("'[2024-01-01 00:00+02,)'",)),
    ("tsvector", "", ("'a fat cat'",)),
    ("date", "", ("'0001-01-01'", "'1582-10-10'", "'9999-12-31'", "'1900-02-28'", "'2024-02-29'")),
    ("timestamp", "to_char({}, 'YYYY-MM-DD HH24:MI:SS.US')", ("'0001-01-01'", "'1582-10-10 01:02:03.000004'", "'9999-12-31 23:59:59.9'")),
    ("timestamptz", "to_char({}, 'YYYY-MM-DD HH24:MI:SS.US')", ("'1582-10-10 01:02:03.000004+01'", "'2024-03-31 02:30:00.123456+02'")),
    ("date", "NULL", ("'infinity'", "'-infinity'")),
    ("timestamp", "NULL", ("'infinity'", "'-infinity'", "'294276-12-31'")),
    ("timestamptz", "NULL", ("'infinity'", "'-infinity'")),
)  # fmt: skip

SHOWN = {
    "float": "lower(hex(unbase64(base64(cast({} AS string)))))",
    "binary": "lower(hex({}))",
    "timestamp": "date_format({}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')",
    "timestamp_ntz": "date_format({}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')",
}


@pytest.fixture
def world(postgres: PostgresServer, spark: SparkSession, tmp_path: Path) -> World:
    return World(postgres, tmp_path, spark)


def assert_done(report: RunReport) -> None:
    assert not report.failures, [str(failure.error) for failure in report.failures]


def test_snapshot_increment_late_commit_and_backfill_make_the_lake_equal(world: World) -> None:
    world.sql(*ORDERS)
    assert_done(world.run())
    assert world.lake("orders") == naive(world)
    slow = psycopg.connect(world.url)
    try:
        slow.execute("SELECT COUNT(*) FROM orders")
        world.sql("UPDATE orders SET amount = 222 WHERE id = 2", "INSERT INTO orders (customer, amount) VALUES ('new', 1)")
        assert_done(world.run())
        slow.execute("UPDATE orders SET amount = 111 WHERE id = 1")
        slow.commit()
    finally:
        slow.close()
    assert_done(world.run())
    assert world.lake("orders") == naive(world)
    world.sql(
        "ALTER TABLE orders DISABLE TRIGGER touch",
        "UPDATE orders SET amount = 5, updated_at = '2020-01-02 03:00+00' WHERE id = 3",
        "DELETE FROM orders WHERE id = 4",
    )
    report = world.run(kind=RunKind.BACKFILL, since=datetime(2020, 1, 1, tzinfo=UTC), until=datetime(2020, 2, 1, tzinfo=UTC))
    assert_done(report)
    assert report.runs[0].counts.read == 1
    assert_done(world.resync(ResyncMode.KEYS, tables=("public.orders",), keys=(("4",),)))
    assert world.lake("orders") == naive(world)


def test_every_value_arrives_as_the_server_prints_it(world: World) -> None:
    world.sql(
        "CREATE EXTENSION citext",
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN price AS numeric(10,2)",
        "CREATE TABLE hostile (id int PRIMARY KEY, "
        + ", ".join(f'"c""{index} é" {kind}' for index, (kind, _, _) in enumerate(HOSTILE))
        + ", updated_at timestamptz NOT NULL DEFAULT now())",
        *(
            f'INSERT INTO hostile (id, "c""{index} é") VALUES ({100 * index + number}, {value})'
            for index, (_, _, values) in enumerate(HOSTILE)
            for number, value in enumerate(values)
        ),
    )
    source = open_source(world.pipeline.source, world.url)
    schema = source.schema(world.name("hostile"))
    rows = read_source(world.spark, source.jdbc_read(schema, ("",)), schema)
    source.close()
    for index, (kind, printed, values) in enumerate(HOSTILE):
        name = f'c"{index} é'
        column = schema.column(name)
        assert column is not None
        shown = SHOWN.get(column.delta_type, "cast({} AS string)").format(f"`{name}`")
        found = rows.where(f"id DIV 100 = {index}").orderBy("id")
        quoted = '"' + name.replace('"', '""') + '"'
        if column.delta_type in ("float", "double"):
            import struct

            code = ">f" if column.delta_type == "float" else ">d"
            read = [struct.pack(code, row[0]).hex() for row in found.select(f"`{name}`").collect()]
        else:
            read = [row[0] for row in found.selectExpr(shown).collect()]
        text = (printed or "{}").format(quoted)
        expected = world.sql("SET timezone = 'UTC'", f"SELECT CAST({text} AS text) FROM hostile WHERE id / 100 = {index} ORDER BY id")
        assert read == [row[0] for row in expected], kind
        assert len(read) == len(values)


def test_a_result_that_comes_in_several_pieces_arrives_whole(world: World) -> None:
    world.sql(
        "CREATE TABLE wide (id int PRIMARY KEY, t text)",
        "INSERT INTO wide SELECT n, repeat('x', 100) FROM generate_series(1, 35000) AS n",
    )
    source = open_source(world.pipeline.source, world.url)
    schema = source.schema(world.name("wide"))
    read = source.jdbc_read(schema, ("",))
    assert int(read.properties["fetchsize"]) < 35000
    rows = read_source(world.spark, read, schema)
    assert rows.selectExpr("count(*) AS n", "sum(length(t)) AS bytes").collect()[0].asDict() == {"n": 35000, "bytes": 3500000}
    source.close()


def naive(world: World) -> list[tuple[object, ...]]:
    """The source's rows as Spark's collect shows them: instants in the zone of this machine, without it."""
    rows = world.source("orders")
    return [tuple(value.astimezone().replace(tzinfo=None) if isinstance(value, datetime) else value for value in row) for row in rows]
