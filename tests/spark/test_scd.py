"""SCD types 1 and 2: a table comes to the same, whatever way a history is cut into batches and in whatever order it comes."""

import json
import random
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import cdc_ops
from cdc_ops.cli import app
from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import END, SEQUENCE, START, MetadataColumns
from cdc_ops.core.apply.scd import POSITION_TYPE, Sequence, SequenceKind, TableStorage
from cdc_ops.core.archive.watermarks import ArchiveWatermark
from cdc_ops.core.cursor.cursors import Cursor
from cdc_ops.core.operation.log_batch import LogBatchResult
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Manifest, OperationResult, Outcome
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.merge.deletes import tombstones
from cdc_ops.lake.spark.session import sibling_session
from cdc_ops.steps.stage.deletes import marked_rows
from cdc_ops.steps.stage.latest_rows import latest_rows
from cdc_ops.testing.scd_model import Told, all_versions, completed, current_rows, known_after
from tests import stores
from tests.lake_case import Case, schema
from tests.lake_rows import table_rows
from tests.operations import with_fields

TABLE = schema(("id", "bigint"), ("name", "string"), ("role", "string"))
COLUMNS = f"id bigint, name string, role string, {DELETE_MARK} boolean, {SEQUENCE} {POSITION_TYPE}"
ORDER = Sequence(kind=SequenceKind.POSITION, type=POSITION_TYPE)
OWN = MetadataColumns(op="_op", synced_at="_synced_at", operation="_operation", sequence="_place")
DAYS = tuple(datetime(2026, 1, day, tzinfo=UTC) for day in (1, 5, 9))
"""Of batches: the first is older than the window of late changes when the third comes."""
FILE = """\
pipeline: shop
source: {{kind: mysql, connection: shop_db}}
target: {{root: {folder}, staging: {folder}/staging}}
tables: {{shop.orders: {{path: {path}, cursor: updated_at}}}}
"""
EMPLOYEES = (
    (1, "Alex", "chef", "INSERT", 1),
    (2, "Jessica", "owner", "INSERT", 2),
    (3, "Mikhail", "security", "INSERT", 3),
    (4, "Gary", "cleaner", "INSERT", 4),
    (5, "Chris", "owner", "INSERT", 6),
    (5, "Chris", "manager", "UPDATE", 5),
    (6, "Pat", "mechanic", "DELETE", 8),
    (6, "Pat", "mechanic", "INSERT", 7),
)


def change(key: int, place: int, name: str | None, role: str = "") -> Told:
    return Told(key=key, place=(place,), values=None if name is None else {"id": key, "name": name, "role": role})


def employees() -> list[Told]:
    return [change(key, place, None if kind == "DELETE" else name, role) for key, name, role, kind, place in EMPLOYEES]


class Lake:
    """One table, fed from events."""

    def __init__(self, spark: SparkSession, folder: Path, scd_type: int, **stored: Any) -> None:
        self.spark, self.case, self.number = spark, Case(root=str(folder)), 0
        self.stored = TableStorage(scd_type=scd_type, sequence=ORDER, tombstones=f"{stores.place(folder)}/tombstones", own=OWN, **stored)

    def operation(self, **changes: Any) -> Operation:
        self.number += 1
        return self.case.operation(self.number, schema=TABLE, stored_as=self.stored, **changes)

    def give(
        self, batch: Iterable[Told], truncates: tuple[tuple[int, ...], ...] = (), times: int = 1, **changes: Any
    ) -> list[OperationResult]:
        """Applies a batch, folded as the log method folds it."""
        rows = list(batch)
        if self.stored.scd_type == 1:
            newest: dict[int, Told] = {}
            for one in sorted(rows, key=lambda item: item.place):
                newest[one.key] = one
            rows = list(newest.values())
        data = [
            (one.key, *((one.values["name"], one.values["role"]) if one.values else (None, None)), one.values is None, list(one.place))
            for one in rows
        ]
        operation = self.operation(**changes)
        deletes = sum(one.values is None for one in rows)
        reading = LogBatchResult.of(watermark=ArchiveWatermark(), truncates=truncates, deletes=deletes)
        manifest = Manifest.of(
            operation_id=operation.operation_id, attempt="a", rows=len(rows), bytes=0, schema_fingerprint="", log=reading
        )
        frame = self.spark.createDataFrame(data, COLUMNS)
        return [apply(operation, Batch(rows=frame, plan=plan_merge(operation, manifest), read_rows=len(rows))) for _ in range(times)]

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        found = table_rows(self.spark, self.case.path, ", ".join(columns or ("id", "name", "role")))
        return sorted((tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in found), key=str)

    def versions(self, tracked: tuple[str, ...] = ("name", "role")) -> list[tuple[Any, ...]]:
        return self.rows("id", START, END, *tracked)


def expected_versions(history: Iterable[Told], tracked: tuple[str, ...] = ("name", "role")) -> list[tuple[Any, ...]]:
    found = all_versions(history, tracked)
    return sorted(((one.key, one.start, one.end, *(one.values[name] for name in tracked)) for one in found), key=str)


def expected_rows(history: Iterable[Told]) -> list[tuple[Any, ...]]:
    return sorted(((key, values["name"], values["role"]) for key, values in current_rows(history).items()), key=str)


def random_histories(dice: random.Random, keys: int) -> list[Told]:
    """Histories with gaps in their sequences, deletes, re-inserts, changes that change nothing, and repeated events."""
    events = []
    for key in range(keys):
        places = dice.sample(range(1, 40), dice.randint(1, 7))
        events += [change(key, place, dice.choice(("a", "b", "c", None)), dice.choice(("x", "y"))) for place in places]
    return events


def cut(dice: random.Random, events: list[Told], batches: int) -> list[list[Told]]:
    """The events in any order, some of them twice, in so many batches."""
    shuffled = [*events, *dice.sample(events, len(events) // 5)]
    dice.shuffle(shuffled)
    borders = sorted(dice.sample(range(1, len(shuffled)), batches - 1))
    return [shuffled[low:high] for low, high in zip([0, *borders], [*borders, len(shuffled)], strict=True)]


def test_versions_of_a_table_that_is_partitioned_by_a_text_end_and_begin(spark: SparkSession, tmp_path: Path) -> None:
    events = sorted(employees(), key=lambda one: one.place)
    lake = Lake(spark, tmp_path, 2)
    for batch in (events[:5], events[5:]):
        lake.give(batch, partition_by=("role",))
    assert lake.versions() == expected_versions(events)
    lost = replace(events[-1], place=(99,), values={"name": "Ann", "role": ""})
    with pytest.raises(Exception, match="CDC_OPS_PARTITION"):
        lake.give([lost], partition_by=("role",))


def test_the_documented_feed_of_employees_gives_the_documented_versions_and_tells_their_changes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = employees()
    historical = Lake(spark, tmp_path, 2)
    for batch in (events[4:7], [*events[:4], *events[7:]]):
        historical.give(batch, properties=(("delta.enableChangeDataFeed", "true"),))
    versions = [
        (1, "chef", (1,), None),
        (2, "owner", (2,), None),
        (3, "security", (3,), None),
        (4, "cleaner", (4,), None),
        (5, "manager", (5,), (6,)),
        (5, "owner", (6,), None),
        (6, "mechanic", (7,), (8,)),
    ]
    assert historical.rows("id", "role", START, END) == versions
    now = cdc_ops.current(spark, historical.case.path)
    assert now.columns == ["id", "name", "role"]
    assert sorted(tuple(row)[::2] for row in now.collect()) == [row[:2] for row in versions if row[3] is None]
    (tmp_path / "shop.yaml").write_text(FILE.format(folder=tmp_path, path=historical.case.path))
    view = CliRunner().invoke(app, ["view", "shop.orders", "--name", "shop.staff", "--pipelines", str(tmp_path)])
    assert view.output == (
        f"CREATE OR REPLACE VIEW `shop`.`staff` AS\nSELECT `id`, `name`, `role` FROM delta.`{historical.case.path}`"
        f" WHERE `{END}` IS NULL;\n"
    )
    # All rows go at 10; what comes later and is from before ends there too.
    [emptied] = historical.give([change(7, 11, "Eve", "chef")], truncates=((10,),))
    [last] = historical.give([change(1, 9, "Alex", "owner"), change(8, 10, "Max", "chef")])
    late = [(1, "chef", (1,), (9,)), (1, "owner", (9,), (10,)), (7, "chef", (11,), None), (8, "chef", (10,), None)]
    ended = [row if row[3] else (*row[:3], (10,)) for row in versions[1:]]
    assert historical.rows("id", "role", START, END) == sorted([*late, *ended], key=str)
    assert emptied.delta_version is not None
    monkeypatch.setattr("cdc_ops.cli.commands.changes.LocalSpark.session", lambda _: spark)
    ends_of_range = ["--from", str(emptied.delta_version - 1), "--to", str(last.delta_version), "--pipelines", str(tmp_path)]
    shown = CliRunner().invoke(app, ["changes", "shop.orders", *ends_of_range])
    assert shown.exit_code == 0, shown.output
    told = [json.loads(line) for line in shown.stdout.splitlines()]
    told_keys = {(row["op"], row["key"]["id"], tuple(row["key"][START]), row["version"] - emptied.delta_version) for row in told}
    ends = {("u", row[0], row[2], 0) for row in versions if row[3] is None}
    assert told_keys == ends | {("i", 7, (11,), 0), ("u", 1, (1,), 1), ("i", 1, (9,), 1), ("i", 8, (10,), 1)}
    newest = [row for row in told if row["version"] == last.delta_version]
    chef = {"id": 1, "name": "Alex", "role": "chef", START: [1], END: [10]}
    owner = {"id": 1, "name": "Alex", "role": "owner", START: [9], END: [10]}
    assert [(one["op"], one["key"], one["before"], one["after"]) for one in newest] == [
        ("u", {"id": 1, START: [1]}, chef, {**chef, END: [9]}),
        ("i", {"id": 1, START: [9]}, None, owner),
        ("i", {"id": 8, START: [10]}, None, {"id": 8, "name": "Max", "role": "chef", START: [10], END: None}),
    ]


@pytest.mark.parametrize(("scd_type", "tracked"), [pytest.param(1, (), marks=pytest.mark.long), (2, ("name",))])
def test_any_split_and_any_order_of_500_histories_comes_to_the_same(
    spark: SparkSession, tmp_path: Path, scd_type: int, tracked: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deletes that only the first batch has told are out of date, and cleaned up, when the third comes: the model says what is then."""
    monkeypatch.setattr(tombstones, "COMPACTED", 2)
    dice = random.Random(20260101 + scd_type)
    events = random_histories(dice, 500)
    lake = Lake(spark, tmp_path, scd_type, tracked=tracked)
    batches = list(zip(DAYS, cut(dice, events, 3), strict=True))

    def held() -> list[tuple[Any, ...]]:
        return lake.rows() if scd_type == 1 else lake.versions(tracked)

    def expected(batches: list[tuple[datetime, list[Told]]]) -> list[tuple[Any, ...]]:
        known = known_after(batches, lake.stored.tombstone_retention, keeps_versions=scd_type == 2)
        return expected_rows(known) if scd_type == 1 else expected_versions(known, tracked)

    for day, batch in batches:
        lake.give(batch, planned_at=day)
    found = held()
    assert found == expected(batches)
    # But for keys whose deletes are forgotten, all histories come to what they are, however they were told.
    forgotten = {one.key for one in batches[0][1] if one.values is None}
    whole = expected_rows(events) if scd_type == 1 else expected_versions(events, tracked)
    differing = {row[0] for row in set(found) ^ set(whole)}
    assert differing
    assert differing < forgotten
    if scd_type == 2:  # of columns that are not tracked, the current version has the last values
        living = spark.read.format("delta").load(lake.case.path).where(f"{END} IS NULL").select("id", "name", "role").collect()
        known = known_after(batches, lake.stored.tombstone_retention, keeps_versions=True)
        assert sorted(map(tuple, living), key=str) == expected_rows(known)
    suffix = [one for _, batch in batches[-2:] for one in batch]
    again = lake.give(suffix, planned_at=DAYS[-1])[0]
    after = held()
    # Versions stay as they are; a row that had been left out because of a delete that is forgotten now, comes back.
    assert after == expected([*batches, (DAYS[-1], suffix)])
    assert (again.counts.inserted, again.counts.deleted) == (len(after) - len(found), 0)
    assert scd_type == 1 or after == found


class Accounts:
    """A table of accounts. Each batch moves amounts between them, deletes those that become empty and brings them back: the sum stays."""

    def __init__(self, spark: SparkSession, folder: Path, scd_type: int) -> None:
        self.lake, self.dice = Lake(spark, folder, scd_type), random.Random(scd_type)
        self.places, self.balances = iter(range(1, 1000)), dict.fromkeys(range(8), 100)
        self.lake.give([change(key, next(self.places), "100") for key in self.balances], mode=ApplyMode.APPEND)

    def moved(self) -> list[Told]:
        """The changes of a batch: what left accounts, and then what came to another."""
        givers = self.dice.sample(sorted(key for key, balance in self.balances.items() if balance), 2)
        taker = self.dice.choice([key for key in self.balances if key not in givers])
        given = (self.balances[givers[0]], self.dice.randint(1, self.balances[givers[1]]))
        for key, amount in zip(givers, given, strict=True):
            self.balances[key] -= amount
        self.balances[taker] += sum(given)
        return [change(key, next(self.places), str(self.balances[key]) if self.balances[key] else None) for key in (*givers, taker)]

    def seen(self, session: SparkSession) -> tuple[int, int]:
        """The sum of the current rows, and how many rows of a key hold at the same time."""
        frame = session.read.format("delta").load(self.lake.case.path)
        if self.lake.stored.scd_type == 1:
            found = frame.selectExpr("CAST(sum(name) AS int)", "count(*) - count(DISTINCT id)")
        else:
            later = frame.selectExpr("*", f"lead({START}) OVER (PARTITION BY id ORDER BY {START}) later")
            overlaps = f"count_if(later IS NOT NULL AND ({END} IS NULL OR {END} > later))"
            found = later.selectExpr(f"CAST(sum(IF({END} IS NULL, name, 0)) AS int)", overlaps)
        return tuple(found.collect()[0])


def test_a_reader_never_sees_half_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    tables = [Accounts(spark, tmp_path / f"type{scd_type}", scd_type) for scd_type in (1, 2)]
    done, looked = Event(), Event()

    def watch(session: SparkSession) -> set[tuple[int, int]]:
        seen = set()
        while not done.is_set():
            seen |= {table.seen(session) for table in tables}
            looked.set()
            done.wait(1)
        return seen

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch, sibling_session(spark))
        try:
            while not looked.wait(0.1) and not watching.done():
                pass
            versions = [table.lake.give(table.moved())[0].delta_version for table in tables]
        finally:
            done.set()
        assert watching.result() == {(800, 0)}
    # A batch is one version, and nothing but versions can be seen: it holds whenever a reader looks.
    assert [DeltaLog(table.lake.case.path).newest() for table in tables] == versions == [2, 2]
    assert [table.seen(spark) for table in tables] == [(800, 0)] * 2
    tables[1].lake.give(tables[1].moved()[:1])
    assert tables[1].seen(spark) != (800, 0), "a batch in two statements would be seen"


def test_a_replay_of_an_operation_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, 2)
    first, again = lake.give([change(1, 1, "a"), change(1, 2, "b"), change(2, 1, "c"), change(2, 3, None)], times=2)
    assert (first.outcome, again.outcome) == (Outcome.APPLIED, Outcome.ALREADY_APPLIED)
    assert (again.delta_version, again.counts) == (first.delta_version, first.counts)
    assert spark.read.format("delta").load(lake.stored.tombstones).count() == 1
    assert lake.versions(("name",)) == [(1, (1,), (2,), "a"), (1, (2,), None, "b"), (2, (1,), (3,), "c")]


@pytest.mark.parametrize("scd_type", [pytest.param(1, marks=pytest.mark.long), 2])
def test_nulls_of_updates_keep_what_was_there_however_the_changes_are_cut(spark: SparkSession, tmp_path: Path, scd_type: int) -> None:
    dice = random.Random(20260301)
    events = []
    for key in range(200):
        for place in dice.sample(range(1, 40), dice.randint(1, 7)):
            values = {"name": dice.choice(("a", "b", None)), "role": dice.choice(("x", "y", None))}
            events.append(Told(key=key, place=(place,), values=values if dice.random() < 0.8 else None))
    lake = Lake(spark, tmp_path, scd_type, nulls_ignored=("name", "role"), tracked=("name", "role"))
    lake.stored = replace(lake.stored, sequence=Sequence(kind=SequenceKind.COLUMNS, type="bigint", columns=("at",)))
    table = schema(("id", "bigint"), ("name", "string"), ("role", "string"), ("op", "string"), ("at", "bigint"))
    for low, high in ((0, 20), (20, 40)):  # in their order from batch to batch, in any within one
        data = [
            (one.key, one.values and one.values["name"], one.values and one.values["role"], "U" if one.values else "D", *one.place)
            for one in events
            if low <= one.place[0] < high
        ]
        dice.shuffle(data)
        operation = with_fields(lake.operation(), schema=table, delete_where="op = 'D'", cursor=Cursor(columns=()))
        rows = spark.createDataFrame([*data, *data[:50]], "id bigint, name string, role string, op string, at bigint")
        apply(
            operation,
            Batch(rows=marked_rows(latest_rows(rows, operation), operation), plan=plan_merge(operation, None), read_rows=len(data)),
        )
    if scd_type == 1:
        assert lake.rows() == expected_rows(completed(events))
    else:
        places = [(key, start[0], end and end[0], *values) for key, start, end, *values in expected_versions(completed(events))]
        assert lake.versions() == sorted(places, key=str)


def test_what_is_older_than_a_delete_that_is_remembered_does_not_bring_the_row_back(spark: SparkSession, tmp_path: Path) -> None:
    stored = TableStorage(tombstones=str(tmp_path / "tombstones"), tombstone_retention=timedelta(days=1))
    operation = Case(root=str(tmp_path)).operation(1, stored_as=stored)
    deleted = spark.sql("SELECT * FROM VALUES (7L, array(5L)), (7L, array(3L)), (9L, array(5L)) AS t(id, place)")
    tombstones.remember(spark, operation, deleted, "place")
    rows = "(7L, array(4L), false), (7L, array(6L), false), (7L, array(2L), true), (8L, array(1L), false), (9L, array(5L), false)"
    batch = spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, place, gone)")
    later = replace(operation, op_seq=2)

    def left(deleted: str) -> list[tuple[int, list[int]]]:
        kept = tombstones.without_deleted(spark, later, batch, "place", deleted)
        return sorted((row["id"], row["place"]) for row in kept.collect())

    assert left("gone") == [(7, [2]), (7, [6]), (8, [1]), (9, [5])], "deletes stay: the row may be there in spite of it"
    assert left("") == [(7, [6]), (8, [1]), (9, [5])]


def test_deletes_are_remembered_for_the_tombstone_retention_and_by_the_generation_that_told_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    stored = TableStorage(tombstones=str(tmp_path / "tombstones"), tombstone_retention=timedelta(days=1))
    operation = Case(root=str(tmp_path)).operation(1, stored_as=stored)
    tombstones.remember(spark, operation, spark.sql("SELECT 7L AS id, array(5L) AS place"), "place")
    tombstones.remember(spark, operation, spark.sql("SELECT 8L AS id, array(6L) AS place"), "place")  # the same operation again

    def remembered(**changes: Any) -> list[tuple[int, list[int]]]:
        found = tombstones.recalled(spark, with_fields(operation, op_seq=2, **changes))
        assert found is not None
        return [(row["key"]["k0"], row["sequence"]) for row in found.collect()]

    assert remembered() == [(7, [5])]
    assert remembered(planned_at=operation.plan.planned_at + timedelta(days=1)) == [(7, [5])]
    assert remembered(planned_at=operation.plan.planned_at + timedelta(days=1, microseconds=1)) == []
    assert remembered(generation=operation.generation + 1) == [], "a table that was created again has its rows from the source"


def test_deletes_are_remembered_while_their_key_becomes_wider(spark: SparkSession, tmp_path: Path) -> None:
    stored = TableStorage(tombstones=str(tmp_path / "tombstones"), tombstone_retention=timedelta(days=1))
    first = Case(root=str(tmp_path)).operation(1, stored_as=stored)

    def told(op_seq: int, kind: str, key: str, place: int, **changes: Any) -> Operation:
        keys = tuple(f"k{index}" for index in range(len(key.split(", "))))
        operation = with_fields(first, op_seq=op_seq, schema=schema(*((one, kind) for one in keys), keys=keys), keys=keys, **changes)
        columns = ", ".join(f"CAST({value} AS {kind}) AS {one}" for one, value in zip(keys, key.split(", "), strict=True))
        tombstones.remember(spark, operation, spark.sql(f"SELECT {columns}, array({place}L) AS place"), "place")
        return replace(operation, op_seq=op_seq + 1)

    def older(operation: Operation, *keys: str) -> list[bool]:
        kind = operation.source.schema.columns[0].delta_type
        rows = ", ".join(f"({number}, CAST({key} AS {kind}), array(4L))" for number, key in enumerate(keys))
        batch = spark.sql(f"SELECT * FROM VALUES {rows} AS t(number, k0, place)")
        left = {row["number"] for row in tombstones.without_deleted(spark, operation, batch, "place", "").collect()}
        return [number not in left for number in range(len(keys))]

    narrow = told(1, "int", "7", 5)
    assert older(narrow, "7", "8") == [True, False]
    wide = told(2, "bigint", str(2**40), 5)
    assert older(wide, "7", str(2**40), str(2**40 + 1)) == [True, True, False]
    widest = told(3, "decimal(20,0)", str(2**63), 5)
    assert older(widest, "7", str(2**40), str(2**63)) == [True] * 3
    told(4, "bigint", "9", 5)  # its column became narrower at the source: what is remembered stays
    assert older(widest, "9", str(2**63)) == [True, True]
    # A full resync made a generation with other keys, of which nothing is remembered yet.
    other = with_fields(replace(widest, op_seq=5), generation=2, schema=schema(("k0", "binary"), keys=("k0",)), keys=("k0",))
    assert older(other, "'7'") == [False]
    assert older(told(5, "binary", "'7'", 5, generation=2), "'7'") == [True]
    found = tombstones.recalled(spark, told(6, "int", "1, 2", 5, generation=3))
    assert found is not None
    assert [(row["key"]["k0"], row["key"]["k1"]) for row in found.collect()] == [(1, 2)]
    told(7, "date", "'2026-01-02'", 5, generation=4)
    days = told(8, "timestamp_ntz", "'2026-01-03 00:00:01'", 5, generation=4)
    assert older(days, *(f"'2026-01-{day}'" for day in ("02", "03", "03 00:00:01"))) == [True, False, True]


def test_a_new_generation_whose_changes_have_another_order_remembers_its_own_deletes(spark: SparkSession, tmp_path: Path) -> None:
    def known(generation: int, kind: str, place: str) -> list[Any]:
        sequence = Sequence(kind=SequenceKind.COLUMNS, type=kind, columns=("at",))
        stored = TableStorage(tombstones=str(tmp_path / "tombstones"), tombstone_retention=timedelta(days=1), sequence=sequence)
        operation = with_fields(Case(root=str(tmp_path)).operation(generation, stored_as=stored), generation=generation)
        before = tombstones.recalled(spark, operation)
        assert before is None or before.isEmpty()
        batch = spark.sql(f"SELECT 7L AS id, CAST({place} AS {kind}) AS at")
        assert tombstones.without_deleted(spark, operation, batch, "at", "").count() == 1
        tombstones.remember(spark, operation, batch, "at")
        found = tombstones.recalled(spark, replace(operation, op_seq=generation + 1))
        assert found is not None
        return [row["sequence"] for row in found.collect()]

    assert known(1, "int", "5") == [5]
    assert known(2, "timestamp_ntz", "'2026-01-01'") == [datetime(2026, 1, 1)]
    assert known(3, "bigint", "5") == [5]
