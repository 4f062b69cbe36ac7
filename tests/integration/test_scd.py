"""SCD types 1 and 2 through whole runs: change events that come late, versions, tables of changes read by query."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.operation.run_request import ResyncMode, RunKind
from cdc_ops.core.pipeline.archive_config import OnBadRecord
from cdc_ops.core.pipeline.pipeline import TableRule
from cdc_ops.core.pipeline.tables.paths import quarantine_path
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import NullSequenceError, RequestError
from cdc_ops.lake.quarantine.read import read_quarantine
from cdc_ops.steps.discovery import discover
from cdc_ops.steps.planning.reconcile import plan_verification
from cdc_ops.steps.table.source_table import read_source_table
from cdc_ops.steps.verify import verify
from tests.integration.test_log_method import ITEMS, Sink, change, counts, log_world, only_error
from tests.world import World, request

FEED = """CREATE TABLE {} (
    change_id BIGINT PRIMARY KEY AUTO_INCREMENT,
    id INT, name VARCHAR(20), role VARCHAR(20), operation VARCHAR(10), sequence_num INT)"""
EMPLOYEES = (
    (1, "Alex", "chef", "INSERT", 1),
    (6, "Pat", "mechanic", "DELETE", 8),
    (5, "Chris", "owner", "INSERT", 6),
    (5, "Chris", "manager", "UPDATE", 5),
    (6, "Pat", "mechanic", "INSERT", 7),
)


def item(number: int, name: str | None, price: str | None = "1.00") -> dict[str, Any]:
    return {"id": number, "name": name, "price": price}


def verified(world: World, table: str) -> bool:
    context, source = world.context(), world._connect(world.pipeline.source)
    try:
        [config] = discover(world.pipeline, source, request(tables=(str(world.name(table)),)))
        return verify(world.spark, source, plan_verification(source, read_source_table(context.pipeline, source, config), 2)).equal
    finally:
        source.close()
        context.store.close()


def versions(world: World, table: str, *columns: str) -> list[tuple[Any, ...]]:
    names = ", ".join((*columns, "__START_AT", "__END_AT"))
    return [tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in world.lake(table, names)]


def test_events_that_come_late_change_nothing_newer_and_bring_no_deleted_row_back(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.sql(ITEMS)
    sink, db = Sink(tmp_path / "archive", world.database, "items"), world.database
    sink.write(*(change("c", 100 + n, after=item(n, "first"), database=db) for n in (1, 2)))
    sink.write(change("u", 300, after=item(1, "third"), database=db), change("d", 310, before=item(2, "first"), database=db))
    assert counts(world.run()) == (1, 0, 0)  # 2 came and went within the batch
    # A connector that begins again from an older place delivers these once more, at new offsets.
    sink.write(change("u", 200, after=item(1, "second"), database=db), change("u", 210, after=item(2, "second"), database=db))
    report = world.run()
    assert counts(report) == (0, 0, 0)
    assert "2 events are older" in report.runs[0].messages.message
    assert world.lake("items", "id, name") == [(1, "third")]
    sink.write(change("t", 400, database=db), change("c", 410, after=item(3, "new"), database=db))
    world.run()
    sink.write(change("c", 350, after=item(4, "late"), database=db), change("u", 420, after=item(3, "newer"), database=db))
    world.run()
    assert world.lake("items", "id, name") == [(3, "newer")]


@pytest.mark.long
def test_deletes_and_nulls_that_are_ignored_leave_what_is_there(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.configure(deletes=Deletes.IGNORE, apply_as_deletes="flag = 'gone'", except_column_list=("flag",), ignore_null_updates=True)
    world.sql(ITEMS, "ALTER TABLE items ADD flag VARCHAR(9)")
    sink, db = Sink(tmp_path / "archive", world.database, "items"), world.database
    sink.write(
        *(change("c", 100 + n, after=item(n, "first"), database=db) for n in (1, 2, 3)),
        change("u", 110, after=item(1, "second", price=None) | {"flag": None}, database=db),
        change("u", 120, after=item(1, "third") | {"flag": "gone"}, database=db),
        change("t", 130, database=db),
    )
    assert counts(world.run()) == (3, 0, 0)
    sink.write(
        change("d", 200, before=item(2, "first"), database=db),
        change("u", 210, before=item(3, "first"), after=item(4, "moved") | {"flag": None}, database=db),
        change("u", 220, after=item(1, None, price="2.00") | {"flag": ""}, database=db),
        change("u", 230, after=item(5, "new", price=None) | {"flag": None}, database=db),
    )
    assert counts(world.run()) == (2, 1, 0)
    found = [(key, name, price and str(price)) for key, name, price in world.lake("items", "id, name, price")]
    assert spark.read.format("delta").load(world.path("items")).columns == ["id", "name", "price", SEQUENCE]
    assert found == [(1, "second", "2.00"), (2, "first", "1.00"), (3, "first", "1.00"), (4, "moved", "1.00"), (5, "new", None)]


def test_a_table_that_follows_a_log_keeps_every_version(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.configure(stored_as_scd_type=2)
    world.sql(ITEMS, "INSERT INTO items VALUES (1, 'b', 1.00), (2, 'x', 1.00)")
    sink, db = Sink(tmp_path / "archive", world.database, "items"), world.database
    sink.write(
        change("c", 100, after=item(1, "a"), database=db),
        change("c", 110, after=item(2, "x"), database=db),
        change("c", 120, after=item(3, "gone"), database=db),
        change("d", 130, before=item(3, "gone"), database=db),
    )
    world.run()
    sink.write(change("u", 200, after={"id": 1, "name": "b"}, database=db))  # says nothing of the price
    assert counts(world.run()) == (1, 1, 0)
    found = versions(world, "items", "id", "name", "price")
    assert [(row[0], row[1], str(row[2]), row[4] is None) for row in found] == [
        (1, "a", "1.00", False),
        (1, "b", "1.00", True),
        (2, "x", "1.00", True),
        (3, "gone", "1.00", False),
    ]
    assert found[0][4] == found[1][3] > found[0][3]
    assert verified(world, "items")
    for refused in ({"kind": RunKind.RECONCILE}, {"kind": RunKind.RESYNC, "mode": ResyncMode.FULL}):
        error = only_error(world.run(**refused))
        assert isinstance(error, RequestError)
        assert "keeps the versions" in str(error)


@pytest.mark.long
def test_rows_that_are_read_by_query_leave_versions_that_reconcile_ends(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = World(mariadb, tmp_path, spark)
    world.sql(
        "CREATE TABLE people (id INT PRIMARY KEY, city VARCHAR(20),"
        " updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at, id))",
        "INSERT INTO people (id, city) VALUES (1, 'Ulm'), (2, 'Bonn'), (3, 'Kiel')",
    )
    world.run()
    # What a table of current rows has are versions without a start from now on. The lookback compares them before the table is altered.
    world.configure(stored_as_scd_type=2, track_history_except_column_list=("updated_at",), lookback=timedelta(seconds=30))
    world.sql(
        "UPDATE people SET city = 'Jena' WHERE id = 1",
        "UPDATE people SET updated_at = NOW(6) WHERE id = 2",
        "DELETE FROM people WHERE id = 3",
    )
    world.run()
    found = versions(world, "people", "id", "city")
    assert [(row[0], row[1], row[3] is None) for row in found] == [
        (1, "Jena", True),
        (1, "Ulm", False),
        (2, "Bonn", True),
        (3, "Kiel", True),
    ]
    assert found[1][3] == found[0][2]  # one ends where the next begins
    assert [row[2] for row in found[1:]] == [None, None, None]
    assert world.lake("people", "updated_at")[0] is not None
    world.run(kind=RunKind.RECONCILE)
    assert [(row[0], row[3] is None) for row in versions(world, "people", "id", "city")] == [(1, True), (1, False), (2, True), (3, False)]
    assert world.run(kind=RunKind.RECONCILE).runs[0].result.counts.updated == 0


def test_tables_of_changes_are_applied_in_their_own_order(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = World(mariadb, tmp_path, spark)
    world.configure(
        keys=("id",),
        cursor=("change_id",),
        sequence_by=("sequence_num",),
        apply_as_deletes="operation = 'DELETE'",
        except_column_list=("operation", "sequence_num"),
    )
    tables = {f"employees_{scd_type}": world.settings.changed(stored_as_scd_type=scd_type) for scd_type in (1, 2)}
    tables["employees_2"] = tables["employees_2"].changed(sequence_by=("CAST(concat('0', sequence_num) AS int)",))
    rules = (TableRule(pattern=f"{world.schema}.{table}", settings=settings) for table, settings in tables.items())
    world.pipeline = replace(world.pipeline, tables=tuple(rules))
    insert = "INSERT INTO {} (id, name, role, operation, sequence_num) VALUES "
    world.sql(*(FEED.format(table) for table in tables))
    for rows in (EMPLOYEES[:3], EMPLOYEES[3:]):
        world.sql(*(insert.format(table) + ", ".join(str(row) for row in rows) for table in tables))
        assert not world.run().failures
    stored = spark.read.format("delta").load(world.path("employees_1")).columns
    assert [name for name in stored if "_" not in name[:2]] == ["change_id", "id", "name", "role"]
    assert world.lake("employees_1", "id, role") == [(1, "chef"), (5, "owner")]
    assert versions(world, "employees_2", "id", "role") == [
        (1, "chef", 1, None),
        (5, "manager", 5, 6),
        (5, "owner", 6, None),
        (6, "mechanic", 7, 8),
    ]
    # From here on types do not matter; an order that is told in another way is the same.
    world.sql("DROP TABLE employees_2")
    only: dict[str, Any] = {"tables": (str(world.name("employees_1")),)}
    world.configure(sequence_by=("CAST(sequence_num AS int)",))
    insert = insert.format("employees_1")
    world.sql(insert + "(1, 'Alex', 'owner', 'UPDATE', NULL), (1, 'Alex', 'cook', 'UPDATE', 9)")
    assert isinstance(only_error(world.run(**only)), NullSequenceError)
    world.configure(bad_records=OnBadRecord.QUARANTINE)  # the operation that has failed follows
    world.sql(insert + "(NULL, 'Eve', 'spy', 'INSERT', 10)")
    runs = [world.run(**only).runs[0] for _ in range(2)]
    assert [run.result.counts.quarantined for run in runs] == [1, 1]
    assert "quarantine list" in runs[0].messages.message
    assert world.lake("employees_1", "id, role") == [(1, "cook"), (5, "owner")]
    found = read_quarantine(quarantine_path(world.pipeline, world.name("employees_1")))
    assert [one.reason for one in found] == ["NULL in 'sequence_by' CAST(sequence_num AS int)", "NULL in key column id"]
    assert json.loads(found[0].raw) | {"change_id": 0} == {
        "change_id": 0, "id": 1, "name": "Alex", "role": "owner", "operation": "UPDATE", "sequence_num": None,
    }  # fmt: skip
    # All that is older than 20 goes, wherever it is and whenever it comes.
    world.configure(apply_as_truncates="operation = 'TRUNCATE'")
    emptied = "(NULL, NULL, NULL, 'TRUNCATE', 20)"
    world.sql(f"{insert} (7, 'Ann', 'old', 'INSERT', 19), (8, 'Joe', 'new', 'INSERT', 21), {emptied}, (1, 'Alex', 'boss', 'UPDATE', 20)")
    assert counts(world.run(**only)) == (1, 1, 1)
    world.sql(f"{insert} (9, 'Max', 'late', 'INSERT', 18), (8, 'Joe', 'chef', 'UPDATE', 22)")
    assert counts(world.run(**only)) == (0, 1, 0)
    assert world.lake("employees_1", "id, role") == [(1, "boss"), (8, "chef")]
    # A new generation knows what was deleted, too.
    world.sql(f"{insert} (8, 'Joe', NULL, 'DELETE', 30)")
    assert counts(world.resync(ResyncMode.FULL, **only)) == (1, 0, 0)
    world.sql(f"{insert} (8, 'Joe', 'late', 'UPDATE', 29), (9, 'Max', 'later', 'INSERT', 17)")
    assert counts(world.run(**only)) == (0, 0, 0)


def test_a_row_that_is_deleted_in_its_own_window_stays_where_deletes_are_ignored(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = World(mariadb, tmp_path, spark)
    world.configure(
        keys=("id",),
        cursor=("change_id",),
        sequence_by=("sequence_num",),
        apply_as_deletes="operation = 'DELETE'",
        deletes=Deletes.IGNORE,
        except_column_list=("operation",),
    )
    insert = "INSERT INTO staff (id, name, role, operation, sequence_num) VALUES "
    world.sql(FEED.format("staff"), insert + "(1, 'Alex', 'chef', 'INSERT', 1)")
    assert not world.run().failures
    world.sql(insert + "(1, 'Alex', 'cook', 'UPDATE', 2), (1, 'Alex', 'cook', 'DELETE', 3), (2, 'Pat', 'owner', 'INSERT', 4)")
    world.sql(insert + "(2, 'Pat', 'owner', 'DELETE', 5), (3, 'Joe', 'boss', 'DELETE', 6)")
    assert not world.run().failures
    assert world.lake("staff", "id, role") == [(1, "cook"), (2, "owner")]
