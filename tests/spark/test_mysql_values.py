"""Every type of MySQL and MariaDB through Spark's JDBC reader, both servers and both drivers: what arrives is what the server shows."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.server_types.unsigned_bigints import too_large_column, widened_schema
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.sources.base import JdbcRead, open_source
from cdc_ops.sources.mysql.source import MySQLSource
from cdc_ops.steps.query.jdbc_rows import read_source
from tests.corpus import cases, plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DB = "value_tests"

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
    schema = widened_schema(source.schema(TableName(schema=DB, name="hostile")))
    reading = open_source(replace(source.config, jdbc_driver=driver), url(server))
    read = reading.jdbc_read(schema, ("`id` = 1", "`id` <> 1"))
    [first], [second] = [rows_of(spark, read, relation, schema).collect() for relation in read.relations]
    types = [column.delta_type for column in schema.columns]
    wrong = [
        (declared, literal, value, expected)
        for (declared, literal, expected), value, stored in zip(cases(server), first[1:], types[1:], strict=False)
        if plain(value, stored) != expected
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


@pytest.mark.parametrize("driver", ["mariadb", "mysql"])
def test_an_unsigned_number_is_read_into_a_bigint_as_it_is_or_not_at_all(
    source: MySQLSource, server: DatabaseServer, spark: "SparkSession", driver: str
) -> None:
    fit, large = [0, 1, 2**63 - 1], [2**63, 2**64 - 1]
    values = ", ".join(f"({number + 2}, 1, {value})" for number, value in enumerate(fit + large))
    server.execute(
        "DROP TABLE IF EXISTS numbers",
        "CREATE TABLE numbers (id INT PRIMARY KEY, small BIGINT UNSIGNED, `big ü` BIGINT UNSIGNED)",
        f"INSERT INTO numbers VALUES (1, NULL, NULL), {values}",
        database=DB,
    )
    schema = source.schema(TableName(schema=DB, name="numbers"))
    assert [column.delta_type for column in schema.columns] == ["int", "bigint", "bigint"]
    reading = open_source(replace(source.config, jdbc_driver=driver), url(server))
    rows = read_source(spark, reading.jdbc_read(schema, ("id < 5",)), schema)
    assert [row[2] for row in rows.orderBy("id").collect()] == [None, *fit]
    for number, _ in enumerate(large):
        with pytest.raises(Exception) as failure:  # noqa: PT011 - Spark's own, whatever its class
            read_source(spark, reading.jdbc_read(schema, (f"id = {5 + number}",)), schema).collect()
        assert too_large_column(str(failure.value)) == "big ü"
    wide = widened_schema(schema)
    rows = read_source(spark, reading.jdbc_read(wide, ("",)), wide)
    assert [None if row[2] is None else int(row[2]) for row in rows.orderBy("id").collect()] == [None, *fit, *large]


def rows_of(spark: "SparkSession", read: JdbcRead, relation: str, schema: TableSchema) -> "DataFrame":
    return read_source(spark, replace(read, relations=(relation,)), schema)
