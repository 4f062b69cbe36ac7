"""Columns that change at the source, from end to end: real MariaDB, real Spark, real Delta. Equality is of whole rows."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.operation.job import JobSpec, StepResult
from cdc_ops.core.operation.run_request import ResyncMode, RunKind
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.schema_evolution import SchemaPolicy
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import JobLostError, SchemaChangedError
from cdc_ops.jobs import execute
from cdc_ops.lake.log.head import read_head
from cdc_ops.steps.runs.run import RunReport
from tests.world import World

ITEMS = """CREATE TABLE items (
    id INT PRIMARY KEY AUTO_INCREMENT,
    name VARCHAR(10) NOT NULL,
    amount DECIMAL(10,2) NOT NULL,
    shipped DATE,
    updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6),
    KEY (updated_at, id))"""
ROWS = "INSERT INTO items (name, amount, shipped) SELECT CONCAT('n', seq), seq / 4, '2024-02-29' FROM seq_1_to_20"


@pytest.fixture
def items(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    world = World(mariadb, tmp_path, spark, settings=TableSettings.of(cursor=("updated_at", "id"), lookback=timedelta(0), parallelism=2))
    world.sql(ITEMS, ROWS)
    assert_done(world.run())
    return world


def assert_done(report: RunReport) -> None:
    assert not report.failures, [str(failure.error) for failure in report.failures]


def stopped(report: RunReport) -> SchemaChangedError:
    assert len(report.failures) == 1, report.failures
    error = report.failures[0].error
    assert isinstance(error, SchemaChangedError), error
    return error


def columns(world: World) -> dict[str, str]:
    head = read_head(world.path("items"), "shop", world.name("items"))
    assert head is not None
    return dict(head.columns)


def fill(world: World, *names: str, **parts: Any) -> RunReport:
    return world.run(kind=RunKind.BACKFILL, columns=names, **parts)


def test_an_added_column_is_added_and_a_backfill_fills_it_for_the_rows_that_are_there(items: World) -> None:
    items.sql(
        "ALTER TABLE items ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT 'old'", "INSERT INTO items (id, name, amount) VALUES (21, 'new', 1)"
    )
    report = items.run()
    assert_done(report)
    assert any("--columns note" in text for text in report.warnings), report.warnings
    assert "--columns note" in report.runs[0].messages.message
    rows = dict(items.lake("items", "id, note"))
    assert (rows[1], rows[21]) == (None, "old")
    watermark = items.state("items").progress.watermark
    # Rows that vanished at the source stay, rows that the lake does not have yet are not inserted, other columns are not touched.
    items.sql(
        "DELETE FROM items WHERE id = 2",
        "INSERT INTO items (id, name, amount) VALUES (22, 'later', 1)",
        "UPDATE items SET name = 'x' WHERE id = 3",
    )
    report = fill(items, "note")
    assert_done(report)
    assert (report.runs[0].result.counts.updated, report.runs[0].result.counts.inserted) == (20, 0)
    rows = {row[0]: row[1:] for row in items.lake("items", "id, name, note")}
    assert len(rows) == 21
    assert (rows[1], rows[2], rows[3]) == (("n1", "old"), ("n2", None), ("n3", "old"))
    assert items.state("items").progress.watermark == watermark
    assert_done(items.run())
    assert items.lake("items")[2:] == items.source("items")[1:]
    assert not items.run().warnings


def test_a_backfill_of_columns_reads_in_chunks_and_of_a_range(items: World) -> None:
    items.sql("ALTER TABLE items ADD COLUMN note INT NOT NULL DEFAULT 7", "ANALYZE TABLE items")
    items.configure(chunk_rows=5)
    before = len(items.data_commits("items"))
    assert_done(fill(items, "note"))
    assert len(items.data_commits("items")) > before + 1
    assert items.lake("items") == items.source("items")
    report = fill(items, "nott")
    assert "Did you mean 'note'" in str(report.failures[0].error)


def test_a_dropped_column_stays_with_its_values_and_is_reported_once(items: World) -> None:
    items.sql(
        "ALTER TABLE items DROP COLUMN name", "UPDATE items SET amount = 9 WHERE id = 1", "INSERT INTO items (id, amount) VALUES (21, 1)"
    )
    report = items.run()
    assert_done(report)
    assert any("column name was dropped at the source" in text for text in report.warnings)
    rows = {row[0]: row[1:] for row in items.lake("items", "id, name, amount")}
    assert (rows[1], rows[21]) == (("n1", Decimal(9)), (None, Decimal(1)))
    items.sql("UPDATE items SET amount = 8 WHERE id = 1")
    report = items.run()
    assert_done(report)
    assert not report.warnings


def test_a_renamed_column_is_a_drop_and_an_add_unless_the_pipeline_maps_it(items: World) -> None:
    items.sql("ALTER TABLE items RENAME COLUMN name TO title", "UPDATE items SET title = 'x' WHERE id = 1")
    assert_done(items.run())
    rows = {row[0]: row[1:] for row in items.lake("items", "id, name, title")}
    assert (rows[1], rows[2]) == (("n1", "x"), ("n2", None))


def test_a_mapped_rename_keeps_the_values(items: World) -> None:
    items.sql("ALTER TABLE items RENAME COLUMN name TO title", "UPDATE items SET title = 'x' WHERE id = 1")
    items.configure(renamed=(("name", "title"),))
    assert_done(items.run())
    assert items.lake("items") == items.source("items")
    assert "name" not in columns(items)
    items.sql("UPDATE items SET title = 'y' WHERE id = 2", "INSERT INTO items (title, amount) VALUES ('z', 1)")
    assert_done(items.run())
    assert items.lake("items") == items.source("items")


def test_types_are_widened_and_every_value_of_the_new_ones_arrives(items: World) -> None:
    items.sql(
        "ALTER TABLE items MODIFY id BIGINT AUTO_INCREMENT, MODIFY amount DECIMAL(12,4) NOT NULL, MODIFY name VARCHAR(100),"
        " MODIFY shipped DATETIME(3)",
        "INSERT INTO items VALUES (9000000000000000000, REPEAT('l', 100), 12345678.1234, '2024-02-29 13:14:15.678', NOW(6))",
    )
    assert_done(items.run())
    assert columns(items) == {
        "id": "bigint", "name": "string", "amount": "decimal(12,4)", "shipped": "timestamp_ntz", "updated_at": "timestamp_ntz",
    }  # fmt: skip
    assert items.lake("items") == items.source("items")
    items.sql("UPDATE items SET amount = amount + 0.0001 WHERE id <= 5")
    assert_done(items.run())
    assert items.lake("items") == items.source("items")


def test_a_narrowed_column_keeps_its_stored_type(items: World) -> None:
    items.sql(
        "ALTER TABLE items MODIFY id SMALLINT AUTO_INCREMENT, MODIFY amount DECIMAL(6,1) NOT NULL",
        "UPDATE items SET amount = 3.5 WHERE id = 1",
    )
    assert_done(items.run())
    assert (columns(items)["id"], columns(items)["amount"]) == ("int", "decimal(10,2)")
    items.sql("UPDATE items SET name = 'same'")  # the server had rounded the others without touching their cursor
    assert_done(items.run())
    assert items.lake("items") == items.source("items")


def test_another_type_stops_the_table_until_a_full_resync_makes_a_new_generation(items: World) -> None:
    items.sql("ALTER TABLE items MODIFY amount VARCHAR(20) NOT NULL, DROP COLUMN shipped", "UPDATE items SET amount = 'many' WHERE id = 1")
    before = items.state("items")
    error = stopped(items.run())
    assert "column amount changed to varchar(20), which is stored as string" in error.why
    assert "decimal(10,2)" in error.why
    assert items.state("items") == before
    assert_done(items.resync(ResyncMode.FULL))
    assert columns(items) == {"id": "int", "name": "string", "amount": "string", "updated_at": "timestamp_ntz"}
    assert items.lake("items") == items.source("items")
    assert items.state("items").generation == before.generation + 1
    items.sql("UPDATE items SET amount = 'few' WHERE id = 2")
    assert_done(items.run())
    assert items.lake("items") == items.source("items")


def test_another_type_that_is_excluded_does_not_stop_the_table(items: World) -> None:
    items.sql("ALTER TABLE items MODIFY amount VARCHAR(20) NOT NULL", "UPDATE items SET name = 'x' WHERE id = 1")
    stopped(items.run())
    items.configure(except_column_list=("amount",))
    assert_done(items.run())
    assert items.lake("items", "id, name, updated_at") == items.source("items", "id, name, updated_at")


def test_a_changed_primary_key_stops_the_table_until_a_full_resync(items: World) -> None:
    items.sql(
        "ALTER TABLE items MODIFY id INT NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (id, name)",
        "INSERT INTO items (id, name, amount) VALUES (1, 'twin', 1)",
    )
    error = stopped(items.run())
    assert "keys changed from (id) to (id, name)" in error.what
    assert_done(items.resync(ResyncMode.FULL))
    items.sql("UPDATE items SET amount = 5 WHERE id = 1")
    assert_done(items.run())
    # The lake has a column more: the new key `name` is one that the source compares loosely.
    columns = "id, name, amount, updated_at"
    assert items.lake("items", columns) == items.source("items", columns)


def test_freeze_goes_on_with_the_old_columns_and_says_so_each_time(items: World) -> None:
    items.configure(schema_changes=SchemaPolicy.FREEZE)
    items.sql("ALTER TABLE items ADD COLUMN note INT")
    for amount in (7, 8):
        items.sql(f"UPDATE items SET amount = {amount}")
        report = items.run()
        assert_done(report)
        assert any("note (int(11)) is new" in text for text in (*report.warnings, *report.unchanged))
    assert "note" not in columns(items)
    assert items.lake("items") == items.source("items", "id, name, amount, shipped, updated_at")
    items.sql("ALTER TABLE items MODIFY amount DECIMAL(20,2)")
    stopped(items.run())


def test_fail_stops_at_an_added_column(items: World) -> None:
    items.configure(schema_changes=SchemaPolicy.FAIL)
    items.sql("ALTER TABLE items ADD COLUMN note INT", "UPDATE items SET note = 1")
    assert "note added" in stopped(items.run()).what
    items.configure(schema_changes=SchemaPolicy.EVOLVE)
    assert_done(items.run())
    items.configure(schema_changes=SchemaPolicy.FAIL)
    items.sql("UPDATE items SET note = 2")
    assert_done(items.run())
    assert items.lake("items") == items.source("items")


@pytest.mark.parametrize(
    ("alter", "told"),
    [
        ("ALTER TABLE items DROP COLUMN name", "name"),
        ("ALTER TABLE items MODIFY amount DECIMAL(12,4) NOT NULL", "amount changed from decimal(10,2) to decimal(12,4)"),
    ],
)
def test_an_alter_between_plan_and_read_lands_nothing_and_the_next_run_reads_the_same_window(items: World, alter: str, told: str) -> None:
    items.sql("UPDATE items SET amount = 5 WHERE id <= 3")
    windows = []

    def altered(job: JobSpec) -> StepResult:
        windows.append(job.operations[0].window)
        items.sql(alter)
        return items.execute(job)

    error = stopped(items.run(execute_with=altered))
    assert told in error.why
    assert "reads the same window" in error.next

    def same(job: JobSpec) -> StepResult:
        windows.append(job.operations[0].window)
        return items.execute(job)

    assert_done(items.run(execute_with=same))
    assert windows[0] == windows[1]
    assert dict(items.lake("items", "id, amount")) == dict(items.source("items", "id, amount"))
    assert items.data_commits("items") == [1, 2]


def test_an_alter_to_another_type_between_plan_and_read_can_be_resynced(items: World) -> None:
    items.sql("UPDATE items SET name = 'x' WHERE id <= 3")

    def altered(job: JobSpec) -> StepResult:
        items.sql("ALTER TABLE items MODIFY amount VARCHAR(20) NOT NULL")
        return items.execute(job)

    stopped(items.run(execute_with=altered))
    stopped(items.run())
    assert_done(items.resync(ResyncMode.FULL))
    assert items.lake("items") == items.source("items")
    assert items.data_commits("items") == [1, 2, 3]


def test_a_landed_window_is_merged_with_the_columns_that_it_was_read_with(items: World) -> None:
    items.sql("UPDATE items SET amount = 5 WHERE id <= 3")

    def landed_only(job: JobSpec) -> StepResult:
        from dataclasses import replace

        from cdc_ops.core.operation.job import Step

        execute(items.spark, replace(job, step=Step.EXTRACT), items.url)
        raise JobLostError("killed")

    items.run(execute_with=landed_only)
    items.sql("ALTER TABLE items DROP COLUMN name, ADD COLUMN note INT", "UPDATE items SET note = 3 WHERE id = 9")
    assert_done(items.run())
    assert_done(items.run())
    rows = {row[0]: row[1:] for row in items.lake("items", "id, name, amount, note")}
    assert (rows[3], rows[9]) == (("n3", Decimal(5), None), ("n9", Decimal("2.25"), 3))


def test_a_run_that_dies_between_alter_and_statement_is_finished_by_the_next(items: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from cdc_ops.lake.merge import apply

    items.sql("ALTER TABLE items ADD COLUMN note INT, MODIFY id BIGINT AUTO_INCREMENT", "UPDATE items SET note = 3 WHERE id = 9")

    def dies(*_: object) -> None:
        raise JobLostError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(apply, "execute", dies)
        assert items.run().failures
    assert columns(items)["note"] == "int"
    before = read_head(items.path("items"), "shop", items.name("items"))
    assert before is not None
    assert before.foreign_changes == ()
    assert_done(items.run())
    assert items.lake("items") == items.source("items")
    after = read_head(items.path("items"), "shop", items.name("items"))
    assert after is not None
    assert after.version == before.version + 1


def test_a_column_that_appears_during_a_snapshot_comes_with_the_first_increment(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = World(mariadb, tmp_path, spark)
    world.sql(ITEMS, ROWS, "ANALYZE TABLE items")
    world.configure(chunk_rows=5)

    def first_only(job: JobSpec) -> StepResult:
        from dataclasses import replace

        world.execute(replace(job, operations=job.operations[:1]))
        raise JobLostError("killed")

    world.run(execute_with=first_only)
    world.sql("ALTER TABLE items ADD COLUMN note INT, DROP COLUMN name", "UPDATE items SET note = 1 WHERE id IN (1, 20)")
    assert_done(world.run())
    assert_done(world.run())
    assert_done(fill(world, "note"))
    assert world.lake("items", "id, amount, shipped, updated_at, note") == world.source("items", "id, amount, shipped, updated_at, note")
    assert dict(world.lake("items", "id, name"))[1] in {"n1", None}


def test_a_rebuilt_ledger_knows_the_keys_and_the_columns_from_the_lake(items: World) -> None:
    from cdc_ops.steps.discovery import discover
    from cdc_ops.steps.recover import rebuild_table
    from tests.world import request

    items.sql("ALTER TABLE items DROP COLUMN name", "UPDATE items SET amount = 1 WHERE id = 1")
    assert_done(items.run())
    items.ledger = f"sqlite:///{items.folder / 'new.db'}"
    context, asked = items.context(), request()
    source = context.connect(items.pipeline.source)
    for config in discover(items.pipeline, source, asked):
        rebuild_table(context, asked, config)
    source.close()
    context.store.close()
    items.sql("UPDATE items SET amount = 2 WHERE id = 1")
    report = items.run()
    assert_done(report)
    assert not report.warnings
    items.sql("ALTER TABLE items MODIFY id INT NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (id, amount)")
    assert "keys changed" in stopped(items.run()).what
