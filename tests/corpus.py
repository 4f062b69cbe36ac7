"""The hostile corpus: one table of facts about values that drivers, dialects and calendars bend, for all servers, and how to compare them.

Read over JDBC alone (tests/spark/test_mysql_values.py), and carried into a Delta table by a snapshot and by an increment
(tests/integration/test_hostile_corpus.py).
"""

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.dev.servers import DatabaseServer
from tests.world import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POINT = bytes.fromhex("e61000000101000000000000000000f03f0000000000000040")

# Declared type, literal at the source, value in the lake.
MYSQL_CASES: list[tuple[str, str, Any]] = [
    ("TINYINT(1)", "2", 2),
    ("TINYINT(1)", "-128", -128),
    ("TINYINT UNSIGNED", "255", 255),
    ("SMALLINT", "-32768", -32768),
    ("SMALLINT UNSIGNED", "65535", 65535),
    ("MEDIUMINT", "-8388608", -8388608),
    ("MEDIUMINT UNSIGNED ZEROFILL", "16777215", 16777215),
    ("INT", "-2147483648", -2147483648),
    ("INT UNSIGNED", "4294967295", 4294967295),
    ("BIGINT", "-9223372036854775808", -9223372036854775808),
    ("BIGINT UNSIGNED", "18446744073709551615", Decimal("18446744073709551615")),
    ("DECIMAL(10,2)", "-12345678.90", Decimal("-12345678.90")),
    ("DECIMAL(38,38)", "0.12345678901234567890123456789012345678", Decimal("0.12345678901234567890123456789012345678")),
    ("DECIMAL(65,30)", "-12345678901234567890123456789012345.5", "-12345678901234567890123456789012345.500000000000000000000000000000"),
    ("FLOAT", "16777217", 16777216.0),
    ("FLOAT UNSIGNED", "3.14159274", 3.1415927410125732),
    ("FLOAT", "1.17549435e-38", 1.1754943508222875e-38),
    ("DOUBLE", "0.1", 0.1),
    ("DOUBLE", "1.7976931348623157e308", 1.7976931348623157e308),
    ("BIT(1)", "1", 1),
    ("BIT(10)", "b'1000000001'", 513),
    ("BIT(63)", "0x7FFFFFFFFFFFFFFF", 2**63 - 1),
    ("BIT(64)", "0xFFFFFFFFFFFFFFFF", Decimal(2**64 - 1)),
    ("YEAR", "1901", 1901),
    ("YEAR", "0", 0),
    ("TIME", "'-838:59:59'", "-838:59:59"),
    ("TIME(6)", "'25:00:00.000001'", "25:00:00.000001"),
    ("TIME(3)", "'-00:00:00.001'", "-00:00:00.001"),
    ("DATE", "'1000-01-01'", date(1000, 1, 1)),
    ("DATE", "'9999-12-31'", date(9999, 12, 31)),
    ("DATE", "'2024-02-29'", date(2024, 2, 29)),
    ("DATE", "'0000-00-00'", None),
    ("DATE", "'2024-05-00'", None),
    ("DATE", "'2024-02-31'", None),
    ("DATETIME", "'2024-03-31 02:30:00'", datetime(2024, 3, 31, 2, 30)),
    ("DATETIME", "'1582-10-10 12:00:00'", datetime(1582, 10, 10, 12)),
    ("DATETIME", "'1883-11-18 12:03:57'", datetime(1883, 11, 18, 12, 3, 57)),
    ("DATE", "'1582-10-10'", date(1582, 10, 10)),
    ("TIMESTAMP NULL", "'2024-03-10 07:30:00'", datetime(2024, 3, 10, 7, 30, tzinfo=UTC)),
    ("TIMESTAMP(6) NULL", "'2038-01-19 03:14:07.999999'", datetime(2038, 1, 19, 3, 14, 7, 999999, tzinfo=UTC)),
    ("DATETIME(6)", "'1000-01-01 00:00:00.000001'", datetime(1000, 1, 1, 0, 0, 0, 1)),
    ("DATETIME(6)", "'9999-12-31 23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("DATETIME", "'0000-00-00'", None),
    ("DATETIME(3)", "'2024-00-15 01:02:03.004'", None),
    ("DATETIME", "'2023-02-29 12:00:00'", None),
    ("TIMESTAMP(6) NULL", "'2024-10-27 00:30:00.123456'", datetime(2024, 10, 27, 0, 30, 0, 123456, tzinfo=UTC)),
    ("TIMESTAMP NULL", "'1970-01-01 00:00:01'", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    ("TIMESTAMP NULL", "'0000-00-00'", None),
    ("CHAR(5)", "'ab '", "ab"),
    ("CHAR(5)", "''", ""),
    ("VARCHAR(20)", "'v  '", "v  "),
    ("VARCHAR(20) CHARACTER SET latin1", "'é€'", "é€"),
    ("VARCHAR(20) CHARACTER SET utf16", "'ü😀'", "ü😀"),
    ("TEXT", "'a\\0b\\n😀'", "a\0b\n😀"),
    ("ENUM('a','b''(','')", "'b''('", "b'("),
    ("ENUM('a','bbbbb')", "'a'", "a"),
    ("ENUM('a','b')", "0", ""),
    ("SET('x','y','z')", "'x,z'", "x,z"),
    ("SET('x','y')", "''", ""),
    ("JSON", '\'{"a": 12345678901234567890.5, "b": [1e400]}\'', '{"a": 12345678901234567890.5, "b": [1e400]}'),
    ("INET6", "'::1'", "::1"),
    ("UUID", "'123e4567-e89b-12d3-a456-426655440000'", "123e4567-e89b-12d3-a456-426655440000"),
    ("BINARY(4)", "X'6100'", b"a\0\0\0"),
    ("VARBINARY(10)", "X'00FF00'", b"\0\xff\0"),
    ("VARBINARY(10)", "''", b""),
    ("LONGBLOB", "X'00'", b"\0"),
    ("GEOMETRY", "ST_GeomFromText('POINT(1 2)', 4326)", POINT),
]

# What only one of the two has, or reads in its own way; MySQL keeps JSON decoded, its numbers as DOUBLE.
MARIADB_ONLY = [case for case in MYSQL_CASES if case[0] in ("INET6", "UUID", "JSON", "DECIMAL(38,38)")]
MYSQL_ONLY: list[tuple[str, str, Any]] = [
    ("JSON", '\'{"b": [1, "é"], "a": 18446744073709551615}\'', '{"a": 18446744073709551615, "b": [1, "é"]}'),
    ("DECIMAL(38,30)", "0.123456789012345678901234567890", Decimal("0.123456789012345678901234567890")),
    ("VARCHAR(20) COLLATE utf8mb4_0900_ai_ci", "'Ä  '", "Ä  "),
    ("POINT SRID 4326", "ST_GeomFromText('POINT(2 1)', 4326)", POINT),
]


def cases(server: DatabaseServer) -> list[tuple[str, str, Any]]:
    """What a table of this server can have; the axes of an SRID are written in another order on MySQL."""
    if server.name == "MariaDB":
        return MYSQL_CASES
    return [case for case in MYSQL_CASES if case not in MARIADB_ONLY and case[0] != "GEOMETRY"] + MYSQL_ONLY


def plain(value: Any, stored: str) -> Any:
    """A collected value, comparable with the one that is expected."""
    if isinstance(value, bytearray):
        return bytes(value)
    # PySpark shows an instant in the local zone, without saying so.
    return value.astimezone(UTC) if stored == "timestamp" and value is not None else value


# Type, how the server prints what is expected in the lake ("" = the value's own text), values.
POSTGRES_CASES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
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
    ("text[]", "to_json({})", ("""'{"a,b","c\\"d",NULL}'""", "'{{a,b},{c,NULL}}'")),
    ("numeric(5,2)[]", "to_json({})", ("'{1.50,NULL}'",)),
    ("name", "", ("'pg'",)),
    ("mood[]", "to_json({})", ("'{sad,happy}'",)),
    ("mood", "", ("'sad'",)),
    ("price", "", ("12.50",)),
    ("interval", "", ("'1 year 2 mons -3 days 04:05:06.789'", "'-00:00:00.000001'")),
    ("time", "", ("'24:00:00'", "'23:59:59.999999'")),
    ("timetz", "", ("'12:00:00+05:30'",)),
    ("bit(3)", "", ("B'101'",)),
    ("bit varying", "", ("B'1'", "B''")),
    ("money", "", ("12.34", "-92233720368547758.08")),
    ("inet", "", ("'10.0.0.1'", "'::1/64'", "'::1'")),
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


def postgres_name(index: int) -> str:
    """The name of the column of a case: one that has to be quoted."""
    return f'c"{index} é'


def create_postgres_table(world: World) -> None:
    """Creates the table `hostile` and fills it, a row for each value."""
    world.sql(
        "CREATE EXTENSION IF NOT EXISTS citext",
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN price AS numeric(10,2)",
        "CREATE TABLE hostile (id int PRIMARY KEY, "
        + ", ".join(f'"c""{index} é" {kind}' for index, (kind, _, _) in enumerate(POSTGRES_CASES))
        + ", updated_at timestamptz NOT NULL DEFAULT now())",
        *(
            f'INSERT INTO hostile (id, "c""{index} é") VALUES ({100 * index + number}, {value})'
            for index, (_, _, values) in enumerate(POSTGRES_CASES)
            for number, value in enumerate(values)
        ),
    )


def assert_as_postgres_prints(world: World, schema: TableSchema, rows: "DataFrame") -> None:
    """Compares the rows of `hostile` with what the server prints of them, column by column."""
    for index, (kind, printed, values) in enumerate(POSTGRES_CASES):
        name = postgres_name(index)
        column = schema.column(name)
        assert column is not None
        shown = SHOWN.get(column.delta_type, "cast({} AS string)").format(f"`{name}`")
        found = rows.where(f"id DIV 100 = {index}").orderBy("id")
        quoted = '"' + name.replace('"', '""') + '"'
        if column.delta_type in ("float", "double"):
            code = ">f" if column.delta_type == "float" else ">d"
            read = [struct.pack(code, row[0]).hex() for row in found.select(f"`{name}`").collect()]
        else:
            read = [row[0] for row in found.selectExpr(shown).collect()]
        text = (printed or "{}").format(quoted)
        expected = world.sql("SET timezone = 'UTC'", f"SELECT CAST({text} AS text) FROM hostile WHERE id / 100 = {index} ORDER BY id")
        assert read == [row[0] for row in expected], kind
        assert len(read) == len(values)
