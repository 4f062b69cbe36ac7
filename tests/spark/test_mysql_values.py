"""Every type of MySQL and MariaDB through Spark's JDBC reader, both servers and both drivers: what arrives is what the server shows."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from cdc_ops.core.connections import ConnectionUrl
from cdc_ops.core.pipeline import SourceConfig, SourceKind
from cdc_ops.core.tables import TableName, TableSchema
from cdc_ops.sources.base import JdbcRead, open_source
from cdc_ops.sources.mysql import MySQLSource
from cdc_ops.steps.extract import read_source
from cdc_ops.testing.servers import DatabaseServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DB = "value_tests"
POINT = bytes.fromhex("e61000000101000000000000000000f03f0000000000000040")

# Declared type, literal at the source, value in the lake.
CASES: list[tuple[str, str, Any]] = [
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
MARIADB_ONLY = [case for case in CASES if case[0] in ("INET6", "UUID", "JSON", "DECIMAL(38,38)")]
MYSQL_ONLY: list[tuple[str, str, Any]] = [
    ("JSON", '\'{"b": [1, "é"], "a": 18446744073709551615}\'', '{"a": 18446744073709551615, "b": [1, "é"]}'),
    ("DECIMAL(38,30)", "0.123456789012345678901234567890", Decimal("0.123456789012345678901234567890")),
    ("VARCHAR(20) COLLATE utf8mb4_0900_ai_ci", "'Ä  '", "Ä  "),
    ("POINT SRID 4326", "ST_GeomFromText('POINT(2 1)', 4326)", POINT),
]


def cases(server: DatabaseServer) -> list[tuple[str, str, Any]]:
    """What a table of this server can have; the axes of an SRID are written in another order on MySQL."""
    if server.name == "MariaDB":
        return CASES
    return [case for case in CASES if case not in MARIADB_ONLY and case[0] != "GEOMETRY"] + MYSQL_ONLY


# The last days of months, the leap days of the servers' calendar, and its ends.
REAL = [
    *("0000-01-01", "0000-01-31", "0000-02-28", "0000-03-01", "0000-12-31", "0001-01-01", "0004-02-29", "0100-02-28", "0100-03-01"),
    *("1500-02-28", "1500-03-01", "1582-10-04", "1582-10-05", "1582-10-14", "1582-10-15", "1600-02-29", "1899-12-31", "1900-02-28"),
    *("1900-03-01", "1969-12-31", "1970-01-01", "1970-01-02", "2000-02-29", "2024-02-29", "2024-04-30", "2024-10-31", "2100-02-28"),
    *("2038-01-20", "2262-04-12", "9999-12-31"),
]
UNREAL = [
    *("0000-00-00", "0000-02-29", "0000-00-01", "0000-01-00", "0100-02-29", "1900-02-29", "2023-02-29", "2024-02-30", "2024-02-31"),
    *("2024-04-31", "2024-00-00", "2024-00-15", "2024-00-31", "2024-05-00", "9999-11-31"),
]
NOON, LAST = " 12:00:00", " 23:59:59.999999"


def url(server: DatabaseServer) -> str:
    return ConnectionUrl.from_parts("mysql", server.host, server.port, server.user, server.password).render()


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found: DatabaseServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def source(server: DatabaseServer) -> Iterator[MySQLSource]:
    server.create_database(DB)
    columns = ", ".join(f"c{index} {declared}" for index, (declared, _, _) in enumerate(cases(server)))
    row = ", ".join(literal for _, literal, _ in cases(server))
    nulls = ", ".join("NULL" for _ in cases(server))
    server.execute(
        f'CREATE TABLE hostile (id INT PRIMARY KEY, {columns}, `we``ird "ü. col` INT) CHARACTER SET utf8mb4',
        "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'",
        "SET NAMES utf8mb4",
        f"INSERT INTO hostile VALUES (1, {row}, 7), (2, {nulls}, NULL)",
        database=DB,
    )
    config = SourceConfig(kind=SourceKind.MARIADB, connection="test")
    opened = MySQLSource(config, url(server))
    yield opened
    opened.close()


@pytest.fixture(params=["UTC", "America/St_Johns"])
def jvm_zone(request: pytest.FixtureRequest, spark: "SparkSession") -> Iterator[str]:
    zones = spark._jvm.java.util.TimeZone
    zones.setDefault(zones.getTimeZone(request.param))
    yield request.param
    zones.setDefault(None)


@pytest.mark.usefixtures("jvm_zone")
@pytest.mark.parametrize("driver", ["mariadb", "mysql"])
def test_every_value_arrives_as_it_is(source: MySQLSource, server: DatabaseServer, spark: "SparkSession", driver: str) -> None:
    schema = source.schema(TableName(schema=DB, name="hostile"))
    reading = open_source(replace(source.config, jdbc_driver=driver), url(server))
    read = reading.jdbc_read(schema, ("`id` = 1", "`id` <> 1"))
    [first], [second] = [rows_of(spark, read, relation, schema).collect() for relation in read.relations]
    types = [column.delta_type for column in schema.columns]
    wrong = [
        (declared, literal, value, expected)
        for (declared, literal, expected), value, stored in zip(cases(server), first[1:], types[1:], strict=False)
        if _plain(value, stored) != expected
    ]
    assert wrong == []
    assert first[-1] == 7
    assert first.__fields__[-1] == 'we`ird "ü. col'
    assert set(second) == {2, None}


@pytest.mark.usefixtures("jvm_zone")
@pytest.mark.parametrize("session_zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("driver", ["mariadb", "mysql"])
def test_dates_of_all_ages_read_as_the_server_writes_them(
    source: MySQLSource, server: DatabaseServer, spark: "SparkSession", driver: str, session_zone: str
) -> None:
    server.execute(
        "DROP TABLE IF EXISTS ages",
        "CREATE TABLE ages (id INT PRIMARY KEY, d DATE, w DATETIME, m DATETIME(6))",
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        f"INSERT INTO ages VALUES {', '.join(f'({i}, {day!r}, {day + NOON!r}, {day + LAST!r})' for i, day in enumerate(REAL + UNREAL))}",
        database=DB,
    )
    schema = source.schema(TableName(schema=DB, name="ages"))
    reading = open_source(replace(source.config, jdbc_driver=driver), url(server))
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", session_zone)
    rows = read_source(session, reading.jdbc_read(schema, ()), schema)
    shown = rows.selectExpr("id", "CAST(d AS STRING)", "CAST(w AS STRING)", "CAST(m AS STRING)").orderBy("id").collect()
    expected = [(day, day + NOON, day + LAST) for day in REAL] + [(None, None, None)] * len(UNREAL)
    assert [tuple(row)[1:] for row in shown] == expected


def rows_of(spark: "SparkSession", read: JdbcRead, relation: str, schema: TableSchema) -> "DataFrame":
    return read_source(spark, replace(read, relations=(relation,)), schema)


def _plain(value: Any, stored: str) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    # PySpark shows an instant in the local zone, without saying so.
    return value.astimezone(UTC) if stored == "timestamp" and value is not None else value
