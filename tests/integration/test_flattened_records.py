"""Records that Debezium's own ExtractNewRecordState made, through a whole run; the lake equals the source."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.dev.debezium import running_debezium
from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.dev.sink_archive import SinkArchive
from tests.world import World

FIELDS = "op,source.db,source.table,source.file,source.pos,source.row,source.connector"
TRANSFORMATION = {
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.unwrap.add.fields": FIELDS,
    "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
}
KEEPS_NULL = {"transforms.unwrap.replace.null.with.default": "false"}
STATED = {
    "add.fields": FIELDS,
    "converter.replace.null.with.default": "false",
    "delete.tombstone.handling.mode": "rewrite",
    "event.converting.failure.handling.mode": "fail",
}
TABLE = "CREATE TABLE parts (id BIGINT PRIMARY KEY, n INT DEFAULT 7, note VARCHAR(40) DEFAULT 'unset')"


def archived(world: World, folder: str, settings: dict[str, str]) -> list[dict[str, Any]]:
    """Lets the real engine flatten the table's rows into an archive; returns the flat records."""
    sink = SinkArchive(world.folder / folder, world.folder / f"{folder}-sink")
    with running_debezium(world.server, [f"{world.database}.parts"], sink, world.folder / f"{folder}-engine", settings=settings) as engine:
        engine.catch_up()
        world.sql("UPDATE parts SET note = 'Lee', n = NULL WHERE id = 2", "DELETE FROM parts WHERE id = 3")
        world.sql("INSERT INTO parts (id, n, note) VALUES (3, 3, 'three')", "UPDATE parts SET id = 5 WHERE id = 4")
        engine.catch_up()
    files = sorted((world.folder / folder).glob(f"*.{world.database}.parts/**/*.json"))
    return [json.loads(line)["payload"] for file in files for line in file.read_text("utf-8").splitlines()]


@pytest.mark.long
def test_null_of_a_column_with_a_default_is_null_and_the_transformation_that_replaces_it_is_refused(
    mysql: DatabaseServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = World(mysql, tmp_path, spark)
    world.configure(method=Method.LOG, cursor=())
    world.sql(TABLE, "INSERT INTO parts VALUES (1, NULL, NULL), (2, 2, 'two'), (3, 3, 'three'), (4, NULL, 'four')")

    replaced = archived(world, "replaced", TRANSFORMATION)
    assert [(row["n"], row["note"]) for row in replaced if row["id"] == 1] == [(7, "unset")], "Debezium's default loses no NULL any more"
    world.sql("DELETE FROM parts", "INSERT INTO parts VALUES (1, NULL, NULL), (2, 2, 'two'), (3, 3, 'three'), (4, NULL, 'four')")
    kept = archived(world, "kept", TRANSFORMATION | KEEPS_NULL)
    assert [(row["n"], row["note"]) for row in kept if row["id"] == 1] == [(None, None)]

    url = str(tmp_path / "kept" / "cdc.{schema}.{table}")
    rules = ArchiveConfig.of(url=url, format="debezium-mysql-unwrapped", accept_losses=("truncate=dropped",), min_file_age=timedelta(0))
    world.pipeline = replace(world.pipeline, archive=rules.changed(settings=tuple(STATED.items())))
    [failure] = world.run(tables=(str(world.name("parts")),)).failures
    assert "replace.null.with.default=true" in str(failure.error)
    world.pipeline = replace(world.pipeline, archive=rules.changed(settings=(*STATED.items(), ("replace.null.with.default", "false"))))
    report = world.run(tables=(str(world.name("parts")),))
    assert not report.failures, [str(failure.error) for failure in report.failures]
    rows = spark.read.format("delta").load(world.path("parts")).select("id", "n", "note").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(1, None, None), (2, None, "Lee"), (3, 3, "three"), (5, None, "four")]
