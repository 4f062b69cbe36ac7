"""Avro files through whole runs: of Debezium's real engine, laid out as Kafka Connect's S3 sink documents, and of DTS by its schema."""

import json
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.schema.server_types.unsigned_bigints import widened_schema
from cdc_ops.dev.avro import avro_file
from cdc_ops.dev.debezium import running_debezium
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.dev.sink_archive import AvroSinkArchive
from cdc_ops.sources.base import open_source
from cdc_ops.steps.query.jdbc_rows import read_source
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
        schema = widened_schema(source.schema(world.name("items")))
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
    settings = (
        ("enable.time.adjuster", "false"),
        ("event.converting.failure.handling.mode", "fail"),
        ("ignore.default.for.nullables", "true"),
        ("skipped.operations", "none"),
    )
    url = str(tmp_path / "archive" / "cdc.{schema}.{table}")
    archive = ArchiveConfig.of(url=url, format="debezium-mysql-avro", settings=settings, min_file_age=timedelta(0))
    world.pipeline = replace(world.pipeline, archive=archive)
    world.sql(ITEMS)
    sink = AvroSinkArchive(tmp_path / "archive", tmp_path / "sink", records_per_file=3)
    with running_debezium(mariadb, [f"{world.database}.items"], sink, tmp_path / "engine", settings=NO_TOMBSTONES) as engine:
        world.sql(*STATEMENTS)
        engine.catch_up()
        first = files(world)
        world.sql(*ALTERED)
        engine.catch_up()
    assert len(files(world)) > len(first) >= 2
    run(world)  # one batch of files with two schemas
    assert ours(world) == theirs(world)
    assert len(ours(world)) == 4


DTS_SCHEMA = json.loads((Path(__file__).parents[1] / "golden" / "formats" / "dts-avro" / "record.avsc.json").read_text("utf-8"))
SALES = (("id", 8), ("date", 10), ("name", 253), ("sales", 5))


def dts_image(number: int, day: int, name: str, sales: float) -> dict[str, Any]:
    values: tuple[dict[str, Any], ...] = (
        {"Integer": {"precision": 8, "value": str(number)}},
        {"DateTime": {"year": 2019, "month": 11, "day": day}},
        {"Character": {"charset": "utf8mb4", "value": name.encode()}},
        {"Float": {"value": sales, "precision": 22, "scale": 31}},
    )
    return {"array": values}


def dts_record(number: int, operation: str, database: str, *, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {
        **{"version": 0, "id": number, "sourceTimestamp": 1573700000, "sourcePosition": "4@3", "safeSourcePosition": "", "sourceTxid": ""},
        **{"source": {"sourceType": "MySQL", "version": "5.7"}, "operation": operation, "objectName": f"{database}.sales", "tags": {}},
        "fields": {"array": [{"name": name, "dataTypeNumber": kind} for name, kind in SALES]},
        **{"beforeImages": before, "afterImages": after, "bornTimestamp": 0},
    }


def test_the_worked_example_of_dts_ends_as_documented_also_from_its_own_avro_records(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = World(mariadb, tmp_path, spark)
    world.configure(method=Method.LOG, cursor=())
    archive = ArchiveConfig.of(url=str(tmp_path / "archive" / "{schema}.{table}"), format="dts-avro", min_file_age=timedelta(0))
    world.pipeline = replace(world.pipeline, archive=archive)
    world.sql("CREATE TABLE sales (id BIGINT PRIMARY KEY, date DATE, name VARCHAR(32), sales DOUBLE)")
    topic = f"{world.database}.sales"
    folder = tmp_path / "archive" / topic / "partition=0"
    folder.mkdir(parents=True)

    def write(offset: int, *records: dict[str, Any]) -> None:
        (folder / f"{topic}+0+{offset:010}.avro").write_bytes(avro_file(DTS_SCHEMA, records))

    one, two, lower = dts_image(1, 11, "Robert", 323.0), dts_image(2, 11, "Lee", 500.0), dts_image(2, 11, "Lee", 150.0)
    first = (one, two, dts_image(3, 12, "Robert", 136.0), dts_image(4, 13, "Lee", 211.0))
    write(0, *(dts_record(number, "INIT", world.database, after=image) for number, image in enumerate(first, 1)))
    write(
        4,
        dts_record(5, "DELETE", world.database, before=one),
        dts_record(6, "UPDATE", world.database, before=two, after=lower),
        dts_record(7, "UPDATE", world.database, before=lower, after=dts_image(2, 11, "Lee", 175.0)),
        dts_record(8, "INSERT", world.database, after=dts_image(5, 14, "Robert", 233.0)),
    )
    report = world.run()
    assert not report.failures, [str(failure.error) for failure in report.failures]
    assert world.lake("sales", "id, name, sales") == [(2, "Lee", 175.0), (3, "Robert", 136.0), (4, "Lee", 211.0), (5, "Robert", 233.0)]
    assert world.data_commits("sales") == [1]
