"""Files of archives are read in the driver where that is quicker than a job of Spark, and by tasks otherwise."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.events.scan.request import FileTask, FileTasks
from cdc_ops.steps.log import scanned_files
from cdc_ops.steps.stage import executors
from tests.events.scanned import DEBEZIUM, Scans
from tests.unit.test_events import column

MEGABYTE = 2**20


def test_few_bytes_are_read_in_this_process_and_others_by_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = TableSchema(table=TableName(schema="shop", name="a"), columns=(column("id", "int"),), primary_key=("id",))
    task = Scans(tmp_path, DEBEZIUM).task(schema)
    monkeypatch.setattr(scanned_files, "scan_file", lambda tasks, one: ["here"])
    monkeypatch.setattr(scanned_files, "_scanned_by_tasks", lambda *_: ["tasks"])
    monkeypatch.setattr(executors, "why_not", lambda _: "")

    def read(count: int, size: int, suffix: str = "json", **changes: Any) -> str:
        chosen = replace(task, archive=replace(task.archive, **changes))
        files = [FileTasks(files=(FileTask(path=f"{n}.{suffix}", size=size),)) for n in range(count)]
        [where] = set(scanned_files._scanned(cast(SparkSession, None), (chosen,), files))
        return str(where)

    assert [read(16, MEGABYTE), read(17, MEGABYTE)] == ["here", "tasks"]
    assert [read(33, MEGABYTE // 32), read(33, MEGABYTE // 16)] == ["here", "tasks"], "of many files less"
    assert [read(1, MEGABYTE, "json.gz"), read(1, 2 * MEGABYTE, "json.gz")] == ["here", "tasks"]
    avro = FormatOptions(name="debezium-mysql-avro", settings=dict(task.archive.format.settings), accept_losses=("schemas.enable=false",))
    assert [read(1, MEGABYTE, "avro", format=avro), read(1, 2 * MEGABYTE, "avro", format=avro)] == ["here", "tasks"]
    with scanned_files._reads_here:  # another table's files are
        assert [read(2, MEGABYTE), read(3, MEGABYTE)] == ["here", "tasks"]
