"""Real events: Debezium's own engine beside a server, its archive read by the format and folded, held against the table value by value."""

import random
import threading
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import DataFrame, SparkSession

from cdc_ops.core.archive_names import KafkaName, Layout, parse_name
from cdc_ops.core.events import EventFormat
from cdc_ops.core.tables import TableSchema
from cdc_ops.formats.base import open_format
from cdc_ops.formats.feed import canonical_feed, records_of
from cdc_ops.formats.files import RecordFile, count_lines, read_records
from cdc_ops.formats.latest import TIED, latest_per_key
from cdc_ops.sources.base import open_source
from cdc_ops.steps.reading import read_source
from cdc_ops.testing.debezium import running_debezium
from cdc_ops.testing.servers import MariaDBServer
from cdc_ops.testing.sink_archive import SinkArchive
from tests.world import World

CHOSEN = EventFormat(
    name="debezium-mysql",
    settings={"skipped.operations": "none", "converter.replace.null.with.default": "false"},
    accept=(),
    time_zone="",
)
BUSY = """CREATE TABLE busy (id BIGINT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL DEFAULT 5, amount DECIMAL(12,2), big BIGINT UNSIGNED,
    at DATETIME(6), seen TIMESTAMP(3) NULL, took TIME(6), doc JSON, kind ENUM('new','paid'), flags SET('gift','late'), raw BLOB,
    bits BIT(10), born DATE, y YEAR, note VARCHAR(40) DEFAULT 'unset')"""
VALUES = (
    "{n}, {n}.25 * -3, 18446744073709551615 - {n}, '2024-02-29 23:59:59.000001' + INTERVAL {n} SECOND, '2024-03-31 01:30:00.123',"
    " '-{n}:00:00.5', '[{n}]', ELT(1 + {n} % 2, 'new', 'paid'), {n} % 4, UNHEX('00FF0A'), {n} % 1024,"
    " IF({n} % 5, '2024-01-31', '0000-00-00'), 1970 + {n} % 80, IF({n} % 3, 'é😀 \\'\"\\\\ \\n', NULL)"
)
COLUMNS = "n, amount, big, at, seen, took, doc, kind, flags, raw, bits, born, y, note"
WRITERS = 4


@dataclass
class Archived:
    """A server whose tables were captured, and the archive."""

    world: World
    root: Path

    def schema(self, table: str) -> TableSchema:
        with closing(open_source(self.world.pipeline.source, self.world.url)) as source:
            return source.schema(self.world.name(table))

    def source(self, table: str) -> DataFrame:
        schema = self.schema(table)
        with closing(open_source(self.world.pipeline.source, self.world.url)) as source:
            return read_source(self.world.spark, source.jdbc_read(schema, ("",)), schema)

    def feed(self, table: str) -> DataFrame:
        schema = self.schema(table)
        form = open_format(CHOSEN.name)
        found = form.envelopes(self.records(f"cdc.{self.world.database}.{table}"), CHOSEN)
        return canonical_feed(form, records_of(found, schema.table), schema, ("id",), CHOSEN)

    def records(self, topic: str) -> DataFrame:
        files = []
        for path in sorted(self.root.glob(f"{topic}/**/*.json")):
            name = parse_name(Layout.KAFKA_CONNECT, str(path.relative_to(self.root)))
            assert isinstance(name, KafkaName)
            size, first = path.stat().st_size, name.start_offset
            files.append(RecordFile(path=name.path, uri=str(path), size=size, partition=name.partition, start_offset=first))
        counts = count_lines(self.world.spark, files)
        assert all(one.end_offset == other.start_offset for one, other in pairwise(counts.files))
        return read_records(self.world.spark, files, counts)


def connect(world: World) -> "pymysql.Connection[Any]":
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


def insert(n: int, row: str = "NULL", verb: str = "INSERT") -> str:
    return f"{verb} INTO busy (id, {COLUMNS}) VALUES ({row}, {VALUES.format(n=n)})"


def write(world: World, seed: int) -> None:
    """Transactions of one application; rows below 20 are everybody's."""
    chance = random.Random(seed)
    with closing(connect(world)) as connection, connection.cursor() as cursor:
        for number in range(25):
            n = 100 * seed + number
            row = chance.randint(1, 20)
            possible = (
                insert(n),
                insert(n, str(row), "REPLACE"),
                f"UPDATE busy SET n = n + 1, note = NULL WHERE id <= {row}",
                f"UPDATE busy SET n = {n}, took = '838:59:59', amount = amount + 0.01 WHERE id = {row}",
                f"UPDATE busy SET id = {1000 + n} WHERE id = {row}",
                f"DELETE FROM busy WHERE id = {row}",
                f"INSERT INTO cleared (id) VALUES ({n + 1})",
            )
            try:
                for statement in chance.sample(possible, chance.randint(1, 5)):
                    cursor.execute(statement)
                (connection.rollback if chance.random() < 0.2 else connection.commit)()
            except (pymysql.err.OperationalError, pymysql.err.IntegrityError):
                connection.rollback()  # a deadlock, or a row that somebody else has made


def work(world: World, between: Any) -> None:
    """All writers beside a long transaction, and in the middle a restart of the engine and an ALTER."""
    with closing(connect(world)) as long, long.cursor() as cursor:
        cursor.execute("INSERT INTO busy (id, note) VALUES (500, 'long')")
        threads = [threading.Thread(target=write, args=(world, seed)) for seed in range(1, WRITERS + 1)]
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
    )
    # The last statement says what the row is; the number of the row within its statement is lower than before.
    world_connection = connect(world)
    with closing(world_connection), world_connection.cursor() as cursor:
        cursor.execute("INSERT INTO busy (id, n) VALUES (9001, 1), (9002, 1), (9003, 1)")
        cursor.execute("UPDATE busy SET n = 2 WHERE id > 9000")
        cursor.execute("UPDATE busy SET n = 3 WHERE id = 9003")
        world_connection.commit()


@pytest.fixture(scope="module")
def archived(mariadb: MariaDBServer, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Archived:
    folder = tmp_path_factory.mktemp("debezium")
    world = World(mariadb, folder, spark)
    world.sql(BUSY, "CREATE TABLE cleared (id BIGINT PRIMARY KEY, n INT)")
    with closing(connect(world)) as connection, connection.cursor() as cursor:
        for row in range(1, 13):
            cursor.execute(insert(row, str(row)))
        connection.commit()
    tables = [f"{world.database}.{table}" for table in ("busy", "cleared")]
    sink = SinkArchive(folder / "archive", folder / "sink", records_per_file=40)
    with running_debezium(mariadb, tables, sink, folder / "engine") as engine:
        engine.catch_up()
    never = {"offset.flush.interval.ms": "3600000"}  # what this one delivers comes again from the next
    with running_debezium(mariadb, tables, sink, folder / "engine", settings=never) as engine:

        def break_down() -> None:
            engine.catch_up()
            engine.kill()

        work(world, break_down)
    with running_debezium(mariadb, tables, sink, folder / "engine") as engine:
        engine.catch_up()
    return Archived(world, folder / "archive")


def differences(source: DataFrame, folded: DataFrame) -> list[tuple[Any, ...]]:
    """Rows that are not the same on both sides, by column."""
    lost, invented = (
        {row["id"]: row.asDict() for row in one.exceptAll(other).collect()} for one, other in ((source, folded), (folded, source))
    )
    return [
        (key, name, lost.get(key, {}).get(name), invented.get(key, {}).get(name))
        for key in sorted({*lost, *invented})
        for name in source.columns
        if key not in lost or key not in invented or lost[key][name] != invented[key][name]
    ]


@pytest.mark.parametrize("table", ["busy", "cleared"])
def test_tables_that_many_write_come_out_of_the_archive_as_they_are(archived: Archived, table: str) -> None:
    feed = archived.feed(table).persist()
    assert [row["reason"] for row in feed.where("kind = 'bad'").collect()] == []
    latest = latest_per_key(feed, archived.schema(table)).persist()
    assert latest.where(TIED).count() == 0
    folded, source = latest.where("NOT deleted").select("row.*"), archived.source(table)
    wrong = differences(source, folded)
    assert wrong == [], str(wrong[:40])
    assert source.count() > 0
    feed.unpersist()
    latest.unpersist()
