"""Tables that are altered while an archive is written: events from before and after it in one batch, and what no event tells."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cdc_ops.core.operation.job import JobSpec, StepResult
from cdc_ops.core.operation.run_request import RunKind
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import JobLostError
from tests.integration.test_log_method import Sink, change, counts, log_world

ALTER = """ALTER TABLE items RENAME COLUMN name TO title, CHANGE Colour tone VARCHAR(9), ADD COLUMN region VARCHAR(5) DEFAULT 'eu',
    DROP COLUMN old"""
SWAP = "RENAME TABLE items TO items_1, items_2 TO items"


def falls_silent(job: JobSpec) -> StepResult:
    raise JobLostError("nothing was heard of it")


def test_a_run_of_a_table_with_versions_names_no_command_that_such_a_table_refuses(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.configure(stored_as_scd_type=2)
    world.sql("CREATE TABLE items (id INT PRIMARY KEY, title VARCHAR(20), region VARCHAR(5))")
    sink = Sink(tmp_path / "archive", world.database, "items")
    sink.write(change("c", 100, after={"id": 1, "title": "a"}, database=world.database))
    said = " ".join(world.run().warnings)
    assert "'region' is NULL in these rows" in said
    assert "older rows keep their values in region until they change" in said
    assert "backfill" not in said


def test_events_from_both_sides_of_an_alter_are_merged_and_what_none_of_them_tells_is_said(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.configure(renamed=(("name", "title"),))
    world.sql(
        "CREATE TABLE items (id INT PRIMARY KEY, title VARCHAR(20), tone VARCHAR(9), region VARCHAR(5) DEFAULT 'eu')",
        "INSERT INTO items VALUES (1, 'c', 'red', 'eu'), (2, 'b', NULL, 'us'), (3, 'd', 'blue', 'eu')",
    )
    sink, at = Sink(tmp_path / "archive", world.database, "items"), {"database": world.database}

    def statement(text: str, pos: int = 300, **source: Any) -> dict[str, Any]:
        record = change("", pos, **at)
        return record | {"op": None, "databaseName": world.database, "ddl": text, "source": record["source"] | source}

    sink.write(
        statement("ALTER TABLE items CONVERT TO CHARACTER SET utf8mb4", 60),
        statement(SWAP, 80, table="items_1,items"),
        change("c", 100, after={"id": 1, "name": "a", "colour": "red", "old": 7, "older": 7}, **at),
        change("c", 200, after={"id": 3, "name": "d", "colour": "green", "old": 7}, **at),
        change("u", 250, before={"id": 3, "name": "d", "colour": "green"}, after={"id": 3, "name": "d", "colour": "blue", "old": 7}, **at),
        statement(ALTER),
        statement("CREATE TABLE other (id INT)", 310, table=None),
        statement("DROP TABLE items", 320, snapshot="true"),
        change("c", 400, after={"id": 2, "title": "b", "tone": None, "region": "us"}, **at),
        change("u", 500, before={"id": 1}, after={"id": 1, "title": "c", "tone": "red", "region": "eu"}, **at),
    )
    report = world.run()
    assert counts(report) == (3, 0, 0)
    assert world.lake("items", "id, title, tone, region") == [(1, "c", "red", "eu"), (2, "b", None, "us"), (3, "d", "blue", None)]
    said = " ".join(report.warnings)
    assert "2 events of new rows lack columns that the source has: 'region' is NULL in these rows" in said
    assert "They have 'older', which the table lacks: if a column was renamed, set 'renamed'" in said
    assert "column 'old' was dropped" in said
    assert "column 'Colour' was renamed to 'tone' (file_no 3, pos 300): older events were read under the new name" in said
    assert "column 'region' was added with DEFAULT 'eu' (file_no 3, pos 300)" in said
    assert "'cdc-ops backfill --columns region'" in said
    assert "«ALTER TABLE items CONVERT TO CHARACTER SET utf8mb4»" in said
    assert "CREATE TABLE other" not in said
    assert "the table was dropped" not in said, "a connector that starts writes it in its snapshot, and nothing was dropped"
    [run] = report.runs
    assert "table 'items_2' was renamed to the name of this table (file_no 3, pos 80)" in run.messages.alert
    counts(world.run(kind=RunKind.BACKFILL, columns=("region",)))
    assert world.lake("items", "id, title, tone, region") == world.source("items")
    sink.write(change("u", 600, before={"id": 3}, after={"id": 3, "title": "e", "tone": "blue", "region": "eu"}, **at))
    assert world.run().warnings == ()
    # A run that is not heard of again has frozen a file; before the next one a column is added, and the file comes longer.
    last = sink.write(change("u", 700, after={"id": 3, "title": "f", "tone": "blue", "region": "eu"}, **at))
    world.run(execute_with=falls_silent)
    world.sql("ALTER TABLE items ADD COLUMN shade VARCHAR(5)")
    event = change("u", 800, after={"id": 2, "title": "b", "tone": None, "region": "us", "shade": "red"}, **at)
    last.write_text(last.read_text() + json.dumps(event) + "\n")
    report = world.run()
    assert counts(report) == (0, 2, 0)
    assert "backfill --pipeline shop" in " ".join(report.warnings), "what the column has in other rows is in no event"
    assert world.lake("items", "id, title, shade") == [(1, "c", None), (2, "b", "red"), (3, "f", None)]
    assert world.data_commits("items") == [1, 2, 3, 4]
