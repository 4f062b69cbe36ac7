"""BIGINT UNSIGNED at the border of a BIGINT, end to end: stored narrow, and widened by the very operation that brings a larger value."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import cdc_ops
from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.operation.job import JobSpec, Step, StepResult
from cdc_ops.core.operation.run_request import AskedComparison, ResyncMode, RunKind
from cdc_ops.core.pipeline.archive_config import OnBadRecord
from cdc_ops.core.pipeline.pipeline import TableRule
from cdc_ops.core.pipeline.tables.paths import history_root
from cdc_ops.core.reconcile.diff import CompareLevel
from cdc_ops.core.schema.schema_evolution import SchemaPolicy
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import JobLostError
from cdc_ops.lake.log.head import read_head
from cdc_ops.lake.merge import apply as apply_module
from cdc_ops.steps.runs.run import RunReport
from tests.integration.test_log_method import Sink, change, log_world
from tests.integration.test_scd import verified
from tests.world import World

LARGEST, TOP = 2**63 - 1, 2**64 - 1
ITEMS = """CREATE TABLE items (
    id BIGINT UNSIGNED PRIMARY KEY, big BIGINT UNSIGNED, other BIGINT UNSIGNED, name VARCHAR(20),
    updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at, id))"""
NARROW, WIDE = "bigint", "decimal(20,0)"


@pytest.fixture
def world(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    world = World(mariadb, tmp_path, spark)
    world.sql(ITEMS)
    return world


@pytest.fixture
def small(world: World) -> World:
    """A table whose values fit, up to the border."""
    world.sql("INSERT INTO items (id, big, other, name) SELECT seq, seq * 2, NULL, 'n' FROM seq_1_to_20")
    world.sql(f"INSERT INTO items (id, big, other) VALUES ({LARGEST}, {LARGEST}, 0)")
    done(world.run())
    assert types(world) == (NARROW, NARROW, NARROW)
    return world


def done(report: RunReport) -> RunReport:
    assert not report.failures, [str(failure.error) for failure in report.failures]
    return report


def types(world: World, table: str = "items", names: tuple[str, ...] = ("id", "big", "other")) -> tuple[str, ...]:
    head = read_head(world.path(table), "shop", world.name(table))
    assert head is not None
    return tuple(dict(head.columns)[name] for name in names)


def rows(world: World, columns: str = "id, big, other, name") -> list[tuple[Any, ...]]:
    """The rows of the lake, its decimals as the whole numbers that they are."""
    return [tuple(int(v) if isinstance(v, Decimal) else v for v in row) for row in world.lake("items", columns)]


def same(world: World, columns: str = "id, big, other, name") -> bool:
    found = rows(world, columns)
    assert found
    return found == world.source("items", columns)


def files(world: World) -> set[str]:
    return set(world.spark.read.format("delta").load(world.path("items")).inputFiles())


def resync_keys(world: World, **parts: Any) -> RunReport:
    return world.resync(ResyncMode.KEYS, tables=(str(world.name("items")),), **parts)


def put(world: World, *keys: int, big: int | None = None, name: str = "new") -> None:
    value = "NULL" if big is None else str(big)
    world.sql(f"REPLACE INTO items (id, big, name) VALUES {', '.join(f'({key}, {value}, {name!r})' for key in keys)}")


def test_an_increment_widens_the_columns_of_its_values_and_no_others(small: World) -> None:
    before, state = files(small), small.state("items")
    put(small, 3, LARGEST + 1, TOP)
    report = done(small.run())
    assert (types(small), small.jobs) == ((WIDE, NARROW, NARROW), 2)  # in one job
    assert files(small) >= before  # nothing was rewritten
    assert (report.runs[0].result.counts.inserted, report.runs[0].result.counts.updated) == (2, 1)
    assert small.state("items").op_seq == state.op_seq + 1
    assert "widened from BIGINT to DECIMAL(20,0), for values above 2^63 - 1: id" in report.runs[0].messages.message
    assert same(small)
    put(small, 4, big=LARGEST)
    put(small, 5, big=LARGEST + 1)
    put(small, 6, big=TOP)
    done(small.run())
    assert types(small) == (WIDE, WIDE, NARROW)
    assert same(small)
    put(small, 7, TOP - 1, big=8)
    report = done(small.run())
    assert "widened" not in report.runs[0].messages.message  # that is no news any more
    assert same(small)
    assert verified(small, "items")
    for strength in CompareLevel:
        [run] = done(small.run(kind=RunKind.RECONCILE, compare=AskedComparison(strength=strength))).runs
        assert run.result.counts.inserted == run.result.counts.updated == run.result.counts.deleted == 0
    small.sql(f"DELETE FROM items WHERE id IN (1, {TOP})", f"UPDATE items SET big = {TOP}, updated_at = '2020-01-01' WHERE id = 2")
    assert not verified(small, "items")
    [run] = done(small.run(kind=RunKind.RECONCILE, compare=AskedComparison(strength=CompareLevel.ROWS))).runs
    assert (run.result.counts.updated, run.result.counts.deleted) == (1, 2)
    assert same(small)
    assert verified(small, "items")


def test_a_snapshot_in_parts_is_as_wide_as_the_first_value_that_needs_it(world: World) -> None:
    world.sql(
        "INSERT INTO items (id, big) SELECT seq, seq FROM seq_1_to_3000", f"INSERT INTO items (id, big) VALUES ({TOP}, {LARGEST + 1})"
    )
    world.sql("ANALYZE TABLE items")
    world.configure(chunk_rows=1000)
    report = done(world.run())
    assert len(world.data_commits("items")) > 1, report
    assert types(world) == (WIDE, WIDE, NARROW)
    assert same(world)
    assert verified(world, "items")


@pytest.mark.long
def test_a_table_that_is_wide_stays_so_until_a_full_resync_and_that_is_no_change_of_its_schema(small: World) -> None:
    put(small, TOP, big=TOP)
    done(small.run())
    small.sql(f"DELETE FROM items WHERE id = {TOP}")
    small.configure(schema_changes=SchemaPolicy.FAIL)
    done(small.run(kind=RunKind.RECONCILE))
    put(small, 30)
    report = done(small.run())
    assert types(small) == (WIDE, WIDE, NARROW)
    assert not [text for text in report.warnings if "big" in text], report.warnings
    assert same(small)
    done(small.resync(ResyncMode.FULL))
    assert types(small) == (NARROW, NARROW, NARROW)
    assert same(small)
    put(small, LARGEST + 1)
    done(small.resync(ResyncMode.FULL))
    assert types(small) == (WIDE, NARROW, NARROW)
    assert same(small)
    assert verified(small, "items")


@pytest.mark.long
def test_what_a_reconcile_a_backfill_and_a_resync_of_keys_find_widens_too(small: World) -> None:
    small.sql(f"INSERT INTO items (id, big, updated_at) VALUES ({TOP}, 1, '2020-01-01')")
    done(small.run(kind=RunKind.RECONCILE))
    assert types(small) == (WIDE, NARROW, NARROW)
    assert same(small)
    small.sql(f"UPDATE items SET big = {LARGEST + 1}, updated_at = '2020-01-01' WHERE id = 2")
    assert not verified(small, "items")
    done(small.run(kind=RunKind.BACKFILL, columns=("big",)))
    assert types(small) == (WIDE, WIDE, NARROW)
    assert same(small)
    small.sql(f"UPDATE items SET other = {TOP}, updated_at = '2020-01-01' WHERE id = {TOP}", f"DELETE FROM items WHERE id = {LARGEST}")
    done(resync_keys(small, keys=((str(TOP),), (str(LARGEST),), (str(LARGEST + 1),))))
    assert types(small) == (WIDE, WIDE, WIDE)
    assert same(small)
    by_rows = AskedComparison(strength=CompareLevel.ROWS)
    done(small.run(kind=RunKind.RECONCILE, compare=by_rows))  # the backfill left the cursor of its row as it was
    assert verified(small, "items")


@pytest.mark.long
def test_columns_that_were_added_renamed_or_altered_at_the_source_are_widened_in_the_same_operation(small: World) -> None:
    small.sql(
        "ALTER TABLE items ADD COLUMN num INT UNSIGNED",
        "UPDATE items SET num = id WHERE id < 9",
    )
    done(small.run())
    small.configure(renamed=(("other", "another"),))
    small.sql(
        "ALTER TABLE items ADD COLUMN hash BIGINT UNSIGNED, CHANGE other another BIGINT UNSIGNED, MODIFY num BIGINT UNSIGNED",
        f"UPDATE items SET hash = {TOP} - id, another = {LARGEST + 1}, num = {TOP} WHERE id = 7",
    )
    done(small.run())
    columns = ("id", "big", "hash", "another", "num")
    assert types(small, names=columns) == (NARROW, NARROW, WIDE, WIDE, WIDE)
    assert [row for row in rows(small, "id, hash, another, num") if row[0] == 7] == [(7, TOP - 7, LARGEST + 1, TOP)]
    small.sql("UPDATE items SET updated_at = NOW(6)")
    done(small.run())
    assert same(small, ", ".join(columns))
    # What is signed now was unsigned when the table was loaded: the lake keeps the decimal, and a negative number its sign.
    small.sql("UPDATE items SET another = NULL", "ALTER TABLE items MODIFY another BIGINT", "UPDATE items SET another = -1 WHERE id = 8")
    done(small.run())
    assert types(small, names=("another",)) == (WIDE,)
    assert same(small, "id, another")
    assert verified(small, "items")


def test_a_table_without_keys_is_replaced_by_wider_rows(world: World) -> None:
    world.configure(cursor=())
    world.sql(
        "CREATE TABLE bare (big BIGINT UNSIGNED, name VARCHAR(9))",
        "DROP TABLE items",
        f"INSERT INTO bare VALUES (1, 'a'), ({LARGEST}, 'b')",
    )
    done(world.run())
    assert types(world, "bare", ("big",)) == (NARROW,)
    for value, kind in ((TOP, WIDE), (3, WIDE)):
        world.sql(f"INSERT INTO bare VALUES ({value}, 'c')", f"DELETE FROM bare WHERE big = {TOP}" if value == 3 else "SELECT 1")
        done(world.run())
        assert types(world, "bare", ("big",)) == (kind,)
        assert sorted(int(row[0]) for row in world.lake("bare", "big")) == sorted(row[0] for row in world.source("bare", "big"))


def test_keys_above_the_border_are_asked_for_in_a_narrow_table(small: World) -> None:
    small.sql(f"DELETE FROM items WHERE id = {LARGEST}")
    done(resync_keys(small, keys=((str(LARGEST),), (str(TOP),))))
    assert types(small) == (NARROW, NARROW, NARROW)
    assert same(small)


class Dies(RuntimeError):
    """The process ends here."""


@pytest.mark.parametrize("place", ["before the table is altered", "before the statement", "after the statement"])
def test_a_run_that_dies_on_the_way_is_finished_by_the_next_with_what_was_landed(
    small: World, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    put(small, TOP, 3, big=LARGEST + 1)
    name = "ensure_table" if place.startswith("before the table") else "execute"
    kept: Callable[..., Any] = getattr(apply_module, name)

    def dying(*given: Any) -> Any:
        if place.startswith("after"):
            kept(*given)
        raise Dies(place)

    with monkeypatch.context() as patched:
        patched.setattr(apply_module, name, dying)
        report = small.run()
    assert len(report.failures) == (0 if place.startswith("after") else 1)  # what is committed is found
    altered = (NARROW, NARROW, NARROW) if place.startswith("before the table") else (WIDE, WIDE, NARROW)
    assert types(small) == altered
    small.sql("RENAME TABLE items TO aside")  # the source is not asked for these rows again
    done(small.run())
    small.sql("RENAME TABLE aside TO items")
    assert types(small) == (WIDE, WIDE, NARROW)
    assert same(small)
    put(small, 4, big=5)
    done(small.run())
    assert same(small)


def test_rows_that_were_landed_narrow_are_merged_into_a_table_that_became_wider(small: World) -> None:
    """Two operations are landed, the first wide and the second narrow, and then merged one after the other."""

    def refuse(job: JobSpec) -> StepResult:
        raise JobLostError("lost")

    put(small, TOP)
    assert small.run(execute_with=refuse).failures
    put(small, 3, name="asked for")

    def in_steps(job: JobSpec) -> StepResult:
        assert len(job.operations) == 2
        landed = small.execute(replace(job, step=Step.EXTRACT))
        assert not any(table.error for table in landed.tables), landed
        return small.execute(replace(job, step=Step.MERGE))

    done(resync_keys(small, keys=(("3",),), execute_with=in_steps))
    assert types(small) == (WIDE, NARROW, NARROW)
    assert same(small)


@pytest.mark.long
def test_an_old_key_and_deletes_that_stay_are_as_wide_as_the_key(world: World) -> None:
    world.configure(cursor=("updated_at",), previous_key=("other",), deletes=Deletes.SOFT)
    put(world, 1, 2, LARGEST)
    done(world.run())
    assert types(world) == (NARROW, NARROW, NARROW)
    world.sql(
        f"UPDATE items SET id = {TOP}, other = 1 WHERE id = 1",
        f"UPDATE items SET id = {LARGEST + 1}, other = {LARGEST} WHERE id = {LARGEST}",
    )
    done(world.run())
    assert types(world) == (WIDE, NARROW, NARROW)
    assert rows(world, "id, _deleted") == [(1, True), (2, False), (LARGEST, True), (LARGEST + 1, False), (TOP, False)]
    world.sql(f"UPDATE items SET id = 5, other = {TOP} WHERE id = {TOP}")
    done(world.run())
    assert types(world) == (WIDE, NARROW, WIDE)
    living = [row[0] for row in rows(world, "id, _deleted") if not row[1]]
    assert living == [2, 5, LARGEST + 1]
    done(world.resync(ResyncMode.FULL))
    assert len(rows(world, "id, _deleted")) == 6
    assert verified(world, "items")


@pytest.mark.long
def test_versions_of_rows_go_on_over_the_border(world: World) -> None:
    world.configure(stored_as_scd_type=2)
    put(world, 1, LARGEST, big=1)
    done(world.run())
    put(world, 1, big=TOP)
    put(world, LARGEST + 1, big=2)
    done(world.run())
    assert types(world) == (WIDE, WIDE, NARROW)
    found = rows(world, "id, big, __END_AT IS NULL")
    assert found == [(1, 1, False), (1, TOP, True), (LARGEST, 1, True), (LARGEST + 1, 2, True)]
    world.sql(f"DELETE FROM items WHERE id = {LARGEST + 1}")
    done(world.run(kind=RunKind.RECONCILE))
    assert [row[0] for row in rows(world, "id, big, __END_AT IS NULL") if row[2]] == [1, LARGEST]


def test_versions_that_were_landed_narrow_are_merged_into_a_table_that_became_wider(world: World) -> None:
    """Their keys have versions in the table by then that only the wide type holds."""
    world.configure(stored_as_scd_type=2)
    put(world, 1, 3, big=1)
    done(world.run())
    put(world, 3, big=TOP)

    def refuse(job: JobSpec) -> StepResult:
        raise JobLostError("lost")

    assert world.run(execute_with=refuse).failures

    def in_turns(job: JobSpec) -> StepResult:
        first, second = job.operations
        assert not world.execute(replace(job, step=Step.EXTRACT, operations=(first,))).tables[0].error
        put(world, 3, big=2)
        assert not world.execute(replace(job, step=Step.EXTRACT, operations=(second,))).tables[0].error
        return world.execute(replace(job, step=Step.MERGE))

    done(world.run(kind=RunKind.RECONCILE, compare=AskedComparison(strength=CompareLevel.ROWS), execute_with=in_turns))
    assert types(world) == (NARROW, WIDE, NARROW)
    found = rows(world, "id, big, __END_AT IS NULL")
    assert sorted(found) == [(1, 1, True), (3, 1, False), (3, 2, True), (3, TOP, False)]


def test_a_cursor_goes_on_over_the_border(world: World) -> None:
    world.configure(cursor=("id",))
    put(world, 1, LARGEST - 1)
    done(world.run())
    for key in (LARGEST, LARGEST + 1, TOP - 1):
        put(world, key)
        done(world.run())
        done(world.run())
    assert types(world) == (WIDE, NARROW, NARROW)
    assert rows(world, "id") == [(key,) for key in (1, LARGEST - 1, LARGEST, LARGEST + 1, TOP - 1)]


def test_columns_that_order_changes_and_tables_without_widening_are_wide_from_the_start(world: World) -> None:
    put(world, 1, big=1)
    world.sql("CREATE TABLE plain LIKE items", "INSERT INTO plain SELECT * FROM items")
    rules = (
        TableRule(pattern=str(world.name("items")), settings=world.settings.changed(sequence_by=("big",))),
        TableRule(pattern=str(world.name("plain")), settings=world.settings.changed(properties=(("delta.enableTypeWidening", "false"),))),
    )
    world.pipeline = replace(world.pipeline, tables=rules)
    done(world.run())
    assert types(world) == (NARROW, WIDE, NARROW)
    assert types(world, "plain") == (WIDE, WIDE, WIDE)


# ------------------------------------------------------------------------------------------------------------ the log method

EVENTS = "CREATE TABLE items (id BIGINT UNSIGNED PRIMARY KEY, big BIGINT UNSIGNED, name VARCHAR(20))"


def image(key: int, big: int | None = None, name: str = "n") -> dict[str, Any]:
    """A row as Debezium writes it with `bigint.unsigned.handling.mode=long`: large numbers wrap around."""
    return {"id": _wrapped(key), "big": None if big is None else _wrapped(big), "name": name}


def _wrapped(value: int) -> int:
    return value - 2**64 if value > LARGEST else value


@pytest.mark.long
@pytest.mark.parametrize("scd_type", [1, 2])
def test_events_widen_what_they_bring_and_what_is_late_finds_its_deletes(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path, scd_type: int
) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.configure(stored_as_scd_type=scd_type)
    world.sql(EVENTS)
    sink, db, names = Sink(tmp_path / "archive", world.database, "items"), world.database, ("id", "big")
    living = "WHERE __END_AT IS NULL" if scd_type == 2 else ""

    def now() -> list[tuple[Any, ...]]:
        found = world.spark.sql(f"SELECT id, big FROM delta.`{world.path('items')}` {living} ORDER BY id").collect()
        return [tuple(int(v) if isinstance(v, Decimal) else v for v in row) for row in found]

    sink.write(*(change("c", 100 + n, after=image(key), database=db) for n, key in enumerate((1, 2, LARGEST))))
    sink.write(change("d", 110, before=image(2), database=db), change("c", 111, after=image(3), database=db))
    done(world.run())
    assert (types(world, names=names), now()) == ((NARROW, NARROW), [(1, None), (3, None), (LARGEST, None)])
    sink.write(change("d", 120, before=image(3), database=db), change("c", 121, after=image(4), database=db))
    done(world.run())  # a delete that is remembered while the keys are narrow
    sink.write(change("c", 200, after=image(TOP), database=db), change("u", 201, after=image(1, LARGEST + 1), database=db))
    done(world.run())
    wide = [(1, LARGEST + 1), (4, None), (LARGEST, None), (TOP, None)]
    assert (types(world, names=names), now()) == ((WIDE, WIDE), wide)
    sink.write(change("d", 300, before=image(TOP), database=db), change("c", 301, after=image(LARGEST + 1), database=db))
    done(world.run())
    # Late ones, from before the deletes: of keys that were deleted while they were narrow, and since.
    sink.write(change("u", 115, after=image(3, 9), database=db), change("u", 250, after=image(TOP, 9), database=db))
    done(world.run())
    assert now() == [(1, LARGEST + 1), (4, None), (LARGEST, None), (LARGEST + 1, None)]


@pytest.mark.long
def test_an_event_history_tells_and_replays_values_of_both_sides_of_the_border(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.configure(event_history=True)
    world.sql(EVENTS)
    sink, db, names = Sink(tmp_path / "archive", world.database, "items"), world.database, ("id", "big")
    sink.write(change("c", 100, after=image(1, LARGEST), database=db), change("c", 101, after=image(2), database=db))
    done(world.run())
    assert types(world, names=names) == (NARROW, NARROW)
    sink.write(change("c", 200, after=image(TOP, TOP), database=db))
    done(world.run())
    sink.write(change("d", 300, before=image(TOP, TOP), database=db))
    done(world.run())
    before = rows(world, "id, big, name")
    # The source's rows, all small: the new generation is narrow, and its history is not.
    world.sql(f"INSERT INTO items VALUES (1, {LARGEST}, 'n'), (2, NULL, 'n')")
    done(world.resync(ResyncMode.FULL))
    assert (types(world, names=names), rows(world, "id, big, name")) == ((NARROW, NARROW), before)
    sink.write(change("c", 400, after=image(3), database=db))
    done(world.run())
    found = cdc_ops.as_of(spark, world.path("items"), datetime.now(UTC)).collect()
    assert sorted(int(row["id"]) for row in found) == [1, 2, 3]
    sink.write(change("c", 500, after=image(LARGEST + 1, 7), database=db))
    done(world.run())
    assert types(world, names=names) == (WIDE, NARROW)
    done(world.resync(ResyncMode.REPLAY))
    assert [row[0] for row in rows(world, "id")] == [1, 2, 3, LARGEST + 1]


def test_a_replay_widens_a_table_that_its_history_does_not_fit(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    """Events are noted before their rows are merged, also those of an operation that is given up then."""
    world = log_world(mariadb, tmp_path, spark)
    world.configure(event_history=True)
    world.sql(EVENTS)
    sink, db, names = Sink(tmp_path / "archive", world.database, "items"), world.database, ("id", "big")
    sink.write(change("c", 100, after=image(1, LARGEST), database=db))
    done(world.run())
    [history] = [path for path in Path(history_root(world.pipeline, world.name("items"))).iterdir() if path.is_dir()]
    table = f"delta.`{history}`"
    for field in ("key.id", "after.id", "after.big"):
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN {field} TYPE {WIDE}")
    top, above = f"CAST('{TOP}' AS {WIDE})", f"CAST('{LARGEST + 1}' AS {WIDE})"
    values = {
        **{name: name for name in ("event_date", "op_seq", "kind", "op", "identity", "happened_at", "present")},
        "position": "transform(position, (one, index) -> IF(index = 1, 300L, one))",
        "key": f"named_struct('id', {top})",
        "after": f"named_struct('id', {top}, 'big', {above}, 'name', 'n')",
    }
    noted = ", ".join(f"{value} AS {name}" for name, value in values.items())
    spark.sql(f"INSERT INTO {table} ({', '.join(values)}) SELECT {noted} FROM {table} WHERE kind = 'change'")
    assert types(world, names=names) == (NARROW, NARROW)
    done(world.resync(ResyncMode.REPLAY))
    assert (types(world, names=names), rows(world, "id, big")) == ((WIDE, WIDE), [(1, LARGEST), (TOP, LARGEST + 1)])


@pytest.mark.long
def test_records_that_could_not_be_read_widen_their_table_once_they_can(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = log_world(mariadb, tmp_path, spark, bad_records=OnBadRecord.QUARANTINE)
    world.sql("CREATE TABLE items (id BIGINT UNSIGNED PRIMARY KEY, big BIGINT UNSIGNED, name VARCHAR(20), flag INT)")
    sink, db, names = Sink(tmp_path / "archive", world.database, "items"), world.database, ("id", "big")
    bad = change("c", 101, after={**image(TOP, LARGEST + 1), "flag": "x"}, database=db)
    sink.write(change("c", 100, after={**image(1, LARGEST), "flag": 1}, database=db), json.dumps(bad))
    done(world.run())
    assert rows(world, "id, big") == [(1, LARGEST)]
    world.sql("ALTER TABLE items DROP COLUMN flag", "ALTER TABLE items ADD COLUMN flag VARCHAR(9)")
    world.configure(except_column_list=("flag",))
    report = done(world.resync(ResyncMode.QUARANTINE))
    assert report.runs[0].result.counts.inserted == 1
    assert (types(world, names=names), rows(world, "id, big")) == ((WIDE, WIDE), [(1, LARGEST), (TOP, LARGEST + 1)])
