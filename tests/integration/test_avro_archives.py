"""Debezium's events in Avro files through whole runs: the engine is real, the files are laid out as Kafka Connect's S3 sink documents."""

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cdc_ops.core.archive_rules import ArchiveConfig
from cdc_ops.core.pipeline import Method
from cdc_ops.sources.base import open_source
from cdc_ops.steps.reading import read_source
from cdc_ops.testing.debezium import running_debezium
from cdc_ops.testing.servers import MariaDBServer
from cdc_ops.testing.sink_archive import AvroSinkArchive
from tests.world import World

ITEMS = """CREATE TABLE items (id INT PRIMARY KEY, gone INT DEFAULT 7, amount DECIMAL(6,2), at DATETIME, big BIGINT UNSIGNED, took TIME(3),
    raw VARBINARY(9), seen TIMESTAMP(6) NULL, share DOUBLE, born DATE, kind ENUM('new','paid') DEFAULT 'new', bits BIT(10), doc JSON)"""
ROW = """-12.30, '2024-02-29 23:59:59', 18446744073709551615, '-25:00:00.5', X'00FF', '2024-03-31 01:30:00.123456', 0.1, '2024-01-31', NULL,
    513, '[1]'"""
STATEMENTS = (
    f"INSERT INTO items VALUES (1, NULL, {ROW}), (2, 5, {ROW}), (3, 6, {ROW}), (4, 8, {ROW})",
    "UPDATE items SET amount = 0.05, kind = 'paid' WHERE id = 1",
)
ALTERED = (
    "ALTER TABLE items DROP COLUMN gone, ADD COLUMN added VARCHAR(9), MODIFY amount DECIMAL(12,4), MODIFY at DATETIME(6)",
    "UPDATE items SET amount = 12345678.1234, at = '2024-02-29 23:59:59.000001', added = NULL WHERE id = 1",
    "UPDATE items SET id = 9, amount = 1.5 WHERE id = 2",
    "DELETE FROM items WHERE id = 3",
    "INSERT INTO items (id, amount, at, added) VALUES (5, 0.0001, '2024-02-29 00:00:00.1', 'é')",
)


NO_TOMBSTONES = {"tombstones.on.delete": "false"}  # the sink cannot write them


def files(world: World) -> list[Path]:
    return sorted((world.folder / "archive").rglob("cdc.*.items+0+*.avro"))


def run(world: World) -> None:
    report = world.run(tables=(str(world.name("items")),))
    assert not report.failures, [str(failure.error) for failure in report.failures]


def theirs(world: World) -> dict[int, dict[str, Any]]:
    with closing(open_source(world.pipeline.source, world.url)) as source:
        schema = source.schema(world.name("items"))
        return {row["id"]: row.asDict() for row in read_source(world.spark, source.jdbc_read(schema, ("",)), schema).collect()}


def ours(world: World) -> dict[int, dict[str, Any]]:
    names = [
        str(name)
        for (name,) in world.sql(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'items' AND table_schema = DATABASE()"
        )
    ]
    rows = world.spark.read.format("delta").load(world.path("items")).select(*names).collect()
    return {row["id"]: row.asDict() for row in rows}


def test_a_table_fed_from_avro_files_is_as_it_is_also_after_an_alter_between_two_files(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = World(mariadb, tmp_path, spark)
    world.configure(method=Method.LOG, cursor=())
    settings = (("ignore.default.for.nullables", "true"), ("skipped.operations", "none"))
    url = str(tmp_path / "archive" / "cdc.{schema}.{table}")
    archive = ArchiveConfig(url=url, format="debezium-mysql-avro", settings=settings, settle=timedelta(0))
    world.pipeline = replace(world.pipeline, archive=archive)
    world.sql(ITEMS)
    sink = AvroSinkArchive(tmp_path / "archive", tmp_path / "sink", records_per_file=3)
    with running_debezium(mariadb, [f"{world.database}.items"], sink, tmp_path / "engine", settings=NO_TOMBSTONES) as engine:
        world.sql(*STATEMENTS)
        engine.catch_up()
        first = files(world)
        run(world)
        assert ours(world) == theirs(world)
        world.sql(*ALTERED)
        engine.catch_up()
    assert len(files(world)) > len(first) >= 2
    run(world)
    assert ours(world) == theirs(world)
    assert len(ours(world)) == 4
