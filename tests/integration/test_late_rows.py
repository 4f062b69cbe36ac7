"""Rows that turn up below a watermark, on real servers: found in the band, merged, counted; lost where there is no bound and no band."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.pipeline.pipeline import TableRule
from cdc_ops.core.pipeline.table_settings import NullCursor, TableSettings
from cdc_ops.dev.servers import MariaDBServer, PostgresServer
from cdc_ops.errors import SourceTableError
from cdc_ops.sources.bounds.activity import ServerActivity
from cdc_ops.sources.mysql.bounds import bound_probe as mysql_bounds
from cdc_ops.sources.postgres import bound_probe as postgres_bounds
from cdc_ops.state.table_run import TableRun, TableRunStatus
from tests.world import World

MINUTE = timedelta(minutes=1)
EVENTS = {
    MariaDBServer: """CREATE TABLE {name} (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL,
        updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at, id))""",
    PostgresServer: """CREATE TABLE {name} (id BIGSERIAL PRIMARY KEY, v INT NOT NULL, updated_at TIMESTAMPTZ NOT NULL DEFAULT now())""",
}
CURSORS = {"stamped": ("updated_at",), "counted": ("id",), "paired": ("updated_at", "id")}


@pytest.fixture(params=["mariadb", pytest.param("postgres", marks=pytest.mark.long)])
def world(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> World:
    server = request.getfixturevalue(request.param)
    made = World(server, tmp_path, spark, settings=TableSettings.of(cursor=("updated_at",), lookback=MINUTE, parallelism=1))
    made.sql(EVENTS[type(server)].format(name="events"), "INSERT INTO events (v) VALUES (1), (2)")
    return made


@pytest.fixture
def bare(world: World) -> World:
    """A world without tables."""
    world.sql("DROP TABLE events")
    return world


def make(world: World, create: str, fill: str, tables: dict[str, dict[str, Any]]) -> None:
    """Makes several tables alike, each with settings of its own over the world's: one run reads them all."""
    for name in tables:
        world.sql(create.format(name=name), fill.format(name=name))
    rules = (TableRule(pattern=f"{world.schema}.{name}", settings=world.settings.changed(**own)) for name, own in tables.items())
    world.pipeline = replace(world.pipeline, tables=tuple(rules))


@contextmanager
def transaction(world: World) -> Iterator[Any]:
    """A second application's open transaction; it commits at the end of the block."""
    server = world.server
    login: dict[str, Any] = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    if isinstance(server, PostgresServer):
        connection: Any = psycopg.connect(dbname=world.database, **login)
    else:
        connection = pymysql.connect(database=world.database, **login)
    try:
        with connection.cursor() as cursor:
            yield cursor
        connection.commit()
    finally:
        connection.close()


def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches the safe bound off: the source believes that nobody is writing."""
    for module in (mysql_bounds, postgres_bounds):
        seen = module.observe

        def nobody(session: Any, seen: Any = seen) -> ServerActivity:
            return replace(seen(session), writers=(), complete=True)

        monkeypatch.setattr(module, "observe", nobody)


def runs(world: World, *tables: str) -> dict[str, TableRun]:
    """What one run did, by table; of all tables unless some are named."""
    report = world.run(tables=tuple(str(world.name(table)) for table in tables))
    assert not report.failures, [str(failure.error) for failure in report.failures]
    return {line.table.name: line for line in report.runs}


def run(world: World) -> TableRun:
    [only] = runs(world).values()
    return only


def insert_late(world: World, tables: dict[str, dict[str, Any]]) -> tuple[dict[str, TableRun], dict[str, TableRun]]:
    """A writes and holds, B writes later and commits, a run, A commits, B goes on, a run."""
    make(world, EVENTS[type(world.server)], "INSERT INTO {name} (v) VALUES (1), (2)", tables)
    runs(world)
    with transaction(world) as a:
        for name in tables:
            a.execute(f"INSERT INTO {name} (v) VALUES (100)")
        world.sql(*(f"INSERT INTO {name} (v) VALUES (200)" for name in tables))
        first = runs(world)
    world.sql(*(f"INSERT INTO {name} (v) VALUES (300)" for name in tables))
    return first, runs(world)


def test_a_row_that_commits_late_is_not_lost_and_not_late(bare: World) -> None:
    _, second = insert_late(bare, {name: {"cursor": cursor, "lookback": timedelta(0)} for name, cursor in CURSORS.items()})
    for name in CURSORS:
        assert bare.lake(name, "id, v") == bare.source(name, "id, v"), name
        assert second[name].result.late_rows == 0, name


def test_without_the_safe_bound_it_is_lost_unless_a_band_finds_it_and_says_so(bare: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables without a band are the proof that the reproduction can fail."""
    blind(monkeypatch)
    without = {f"{name}_without": {"cursor": cursor, "lookback": timedelta(0)} for name, cursor in CURSORS.items()}
    first, second = insert_late(bare, without | {name: {"cursor": cursor} for name, cursor in CURSORS.items()})
    for name, cursor in CURSORS.items():
        assert [v for [v] in bare.lake(f"{name}_without", "v")] == [1, 2, 200, 300], name
        assert bare.lake(name, "id, v") == bare.source(name, "id, v"), name
        assert (first[name].result.late_rows, first[name].messages.advice) == (0, ""), name
        assert second[name].result.late_rows == 1, name
        assert "1 late row was found below the watermark" in second[name].messages.advice
        assert (second[name].result.max_commit_lag is None) == (cursor == ("id",))
        assert (second[name].result.counts.inserted, second[name].result.counts.updated) == (2, 0), name


def test_an_idle_table_whose_band_changes_is_read_and_then_idle_again(world: World) -> None:
    """The application stamps a row in the past while nothing else happens."""
    for _ in range(2):
        run(world)
    assert run(world).status is TableRunStatus.IDLE
    jobs = world.jobs
    world.sql("INSERT INTO events (v, updated_at) SELECT 50, updated_at FROM events WHERE id = 1")
    found = run(world)
    assert (found.result.late_rows, found.result.counts.inserted, found.result.counts.updated) == (1, 1, 0)
    assert world.jobs == jobs + 1
    assert run(world).status is TableRunStatus.IDLE
    assert world.jobs == jobs + 1


def test_a_quiet_band_is_not_read_and_nothing_of_it_is_written_again(world: World) -> None:
    run(world)
    world.sql("INSERT INTO events (v) VALUES (3), (4), (5)")
    assert run(world).result.counts.read == 3
    world.sql("INSERT INTO events (v) VALUES (6)")
    last = run(world)
    assert (last.result.counts.read, last.result.counts.inserted, last.result.counts.updated) == (1, 1, 0)


def test_a_writer_that_stays_open_too_long_raises_an_alert_and_holds_the_watermark(world: World) -> None:
    run(world)
    world.configure(long_transaction_alert=timedelta(0))
    with transaction(world) as writer:
        writer.execute("UPDATE events SET v = 9, updated_at = CURRENT_TIMESTAMP(6) WHERE id = 1")
        world.sql("INSERT INTO events (v) VALUES (3)")
        held = run(world)
        before = world.state("events").progress.watermark
    assert "longer than 'long_transaction_alert'" in held.messages.alert
    assert "To inspect it: SELECT * FROM " in held.messages.alert
    assert held.notices == (held.messages.alert,)
    after = run(world)
    assert after.messages.alert == ""
    assert before is not None
    assert world.lake("events", "id, v") == world.source("events", "id, v")


def test_a_writer_within_the_limit_raises_no_alert(world: World) -> None:
    run(world)
    with transaction(world) as writer:
        writer.execute("UPDATE events SET v = 9, updated_at = CURRENT_TIMESTAMP(6) WHERE id = 1")
        assert run(world).messages.alert == ""


COARSE = {
    MariaDBServer: """CREATE TABLE {name} (id BIGINT PRIMARY KEY, v INT NOT NULL, day DATE NOT NULL DEFAULT (CURRENT_DATE),
        at DATETIME NOT NULL DEFAULT NOW() ON UPDATE NOW(), gone INT, KEY (day), KEY (at))""",
    PostgresServer: """CREATE TABLE {name} (id BIGINT PRIMARY KEY, v INT NOT NULL, day DATE NOT NULL DEFAULT CURRENT_DATE,
        at TIMESTAMP(0) NOT NULL DEFAULT now(), gone INT)""",
}


def in_utc(world: World) -> None:
    world.pipeline = replace(world.pipeline, source=replace(world.pipeline.source, time_zone="UTC"))


def insert_into_the_open_units(world: World, cursors: dict[str, str]) -> dict[str, int]:
    """Inserts a row into each table and runs before its day or second is over, and returns their keys; what was too late is tried again."""
    found: dict[str, int] = {}
    for key in range(3, 30):
        left = [table for table in cursors if table not in found]
        time.sleep(1 - time.time() % 1)  # a second begins
        world.sql(*(f"INSERT INTO {table} (id, v) VALUES ({key}, {key})" for table in left))
        inserted = {table: line.result.counts.inserted for table, line in runs(world, *left).items()}
        assert inserted == dict.fromkeys(left, 1)
        for table in left:
            [(unit,)] = world.sql(f"SELECT {cursors[table]} FROM {table} WHERE id = {key}")
            if str(world.state(table).progress.watermark).startswith(str(unit)):
                found[table] = key
        if len(found) == len(cursors):
            return found
    raise AssertionError("no run was planned in the second of the row's insert")


def test_the_unit_that_is_not_over_is_read_and_read_again_when_it_changes(bare: World) -> None:
    """Rows of today, and changes within the same value of the cursor, arrive with the next run, not with the next day."""
    in_utc(bare)
    cursors = {"days": "day", "days_in_a_band": "day", "seconds": "at", "seconds_in_a_band": "at"}
    lookbacks = {name: MINUTE if name.endswith("band") else timedelta(0) for name in cursors}
    hidden = {"apply_as_deletes": "gone = 1", "except_column_list": ("gone",)}  # what deletes a row is not stored
    settings = {name: {"cursor": (cursor,), "lookback": lookbacks[name], **hidden} for name, cursor in cursors.items()}
    make(bare, COARSE[type(bare.server)], "INSERT INTO {name} (id, v) VALUES (1, 1), (2, 2)", settings)
    runs(bare)
    same = "day = day, at = at" if isinstance(bare.server, MariaDBServer) else "day = day"
    keys = insert_into_the_open_units(bare, cursors)
    for name, cursor in cursors.items():
        bare.sql(f"UPDATE {name} SET v = 30, {same} WHERE id = {keys[name]}", f"INSERT INTO {name} (id, v) VALUES (100, 100)")
        if cursor == "day":
            bare.sql(f"UPDATE {name} SET gone = 1, {same} WHERE id = 2")
    for name, changed in runs(bare).items():
        gone = cursors[name] == "day"
        counts = changed.result.counts
        assert (counts.inserted, counts.updated, counts.deleted, changed.result.late_rows) == (1, 1, int(gone), 0), name
        assert bare.lake(name, "id, v") == [row for row in bare.source(name, "id, v") if not gone or row[0] != 2], name
    jobs = bare.jobs
    assert {line.status for line in runs(bare).values()} == {TableRunStatus.IDLE}
    assert bare.jobs == jobs


def test_rows_without_a_cursor_are_swept_when_they_change(bare: World) -> None:
    in_utc(bare)
    bare.sql("CREATE TABLE drafts (id INT PRIMARY KEY, v INT, at TIMESTAMP(6) NULL)", "CREATE INDEX i ON drafts (at)")
    bare.sql("INSERT INTO drafts VALUES (1, 1, NULL), (2, 2, CURRENT_TIMESTAMP(6))")
    bare.configure(cursor=("at",), null_cursor=NullCursor.CHECKSUM)
    run(bare)
    assert run(bare).status is TableRunStatus.IDLE
    bare.sql("UPDATE drafts SET v = 10, at = NULL WHERE id = 1", "INSERT INTO drafts VALUES (3, 3, NULL)")
    swept = run(bare)
    assert (swept.result.counts.inserted, swept.result.counts.updated, swept.result.late_rows) == (1, 1, 0)
    bare.sql("INSERT INTO drafts VALUES (4, 4, NULL)")
    swept = run(bare)
    assert (swept.result.counts.inserted, swept.result.counts.updated, swept.result.late_rows) == (1, 0, 0)
    assert bare.lake("drafts", "id, v") == bare.source("drafts", "id, v")
    jobs = bare.jobs
    assert run(bare).status is TableRunStatus.IDLE
    assert bare.jobs == jobs


OUTSIDE = {
    MariaDBServer: ("TIMESTAMP(6) NULL", "DATETIME NOT NULL", "DATE NOT NULL", "'0000-00-00'", "'0000-00-00'"),
    PostgresServer: ("timestamptz", "timestamp NOT NULL", "date NOT NULL", "'-infinity'", "'infinity'"),
}
"""Types of cursors, and what a row has that is in no window: by its default, and otherwise."""


def test_rows_with_a_zero_or_infinite_cursor_are_told_with_their_number_and_swept_when_they_change(bare: World) -> None:
    in_utc(bare)
    *kinds, preset, other = OUTSIDE[type(bare.server)]
    allowed = ("SET sql_mode = ''",) if isinstance(bare.server, MariaDBServer) else ()
    names = tuple(f"drafts_{number}" for number, _ in enumerate(kinds))
    for name, kind in zip(names, kinds, strict=True):
        bare.sql(
            *allowed,
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT, at {kind} DEFAULT {preset})",
            f"CREATE INDEX {name}_at ON {name} (at)",
            f"INSERT INTO {name} (id, v) VALUES (1, 1)",
            f"INSERT INTO {name} (id, v, at) VALUES (2, 2, CURRENT_TIMESTAMP)",
        )
    bare.configure(cursor=("at",))
    report = bare.run()
    assert not report.failures, [str(failure.error) for failure in report.failures]
    for name in names:
        told = " ".join(text for text in report.warnings if name in text)
        assert f"1 row of {bare.name(name)} are in no window" in told, told
        assert f"has the default {preset}"[:-1] in told, told
    bare.configure(null_cursor=NullCursor.CHECKSUM)  # as the warning says: from then on they are swept, and not told
    swept_from_now = bare.run()
    assert "in no window" not in " ".join((*swept_from_now.warnings, *swept_from_now.unchanged))
    for name in names:
        bare.sql(*allowed, f"UPDATE {name} SET v = 10, at = {other} WHERE id = 1", f"INSERT INTO {name} (id, v) VALUES (3, 3)")
    for name, swept in runs(bare).items():
        assert (swept.result.counts.inserted, swept.result.counts.updated, swept.result.late_rows) == (1, 1, 0), name
        assert bare.lake(name, "id, v") == bare.source(name, "id, v")
    jobs = bare.jobs
    assert {line.status for line in runs(bare).values()} == {TableRunStatus.IDLE}
    assert bare.jobs == jobs


def test_rows_without_a_cursor_are_left_alone_unless_that_is_asked_for(bare: World) -> None:
    bare.sql("CREATE TABLE drafts (id INT PRIMARY KEY, v INT, at TIMESTAMP(6) NULL)")
    bare.configure(cursor=("at",))
    run(bare)
    bare.sql("INSERT INTO drafts VALUES (1, 1, NULL)")
    assert run(bare).status is TableRunStatus.IDLE


def test_rows_that_are_marked_as_deleted_are_not_late(world: World) -> None:
    world.configure(apply_as_deletes="v < 0")
    run(world)
    world.sql("INSERT INTO events (v) VALUES (-1), (3)")
    run(world)
    world.sql("INSERT INTO events (v, updated_at) SELECT 4, updated_at FROM events WHERE id = 1")
    found = run(world)
    assert (found.result.late_rows, found.result.counts.inserted) == (1, 1)
    assert [v for [v] in world.lake("events", "v")] == [1, 2, 3, 4]
    assert run(world).status is TableRunStatus.IDLE


ORDERS = """CREATE TABLE {name} (id INT PRIMARY KEY, v INT, created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    updated_at TIMESTAMP(6) NULL)"""


def test_a_cursor_may_be_the_first_of_several_columns_that_is_not_null(bare: World, monkeypatch: pytest.MonkeyPatch) -> None:
    in_utc(bare)
    tables = {
        "orders": {"cursor": ("COALESCE(updated_at, created_at)",)},
        "with_id": {"cursor": ("coalesce( updated_at,created_at )", "id")},
    }
    make(bare, ORDERS, "INSERT INTO {name} (id, v) VALUES (1, 1), (2, 2)", tables)
    runs(bare)
    for name in tables:
        bare.sql(f"UPDATE {name} SET v = 10, updated_at = CURRENT_TIMESTAMP(6) WHERE id = 1", f"INSERT INTO {name} (id, v) VALUES (3, 3)")
    for name, changed in runs(bare).items():
        assert (changed.result.counts.inserted, changed.result.counts.updated, changed.result.late_rows) == (1, 1, 0), name
    blind(monkeypatch)
    with transaction(bare) as late:
        for name in tables:
            late.execute(f"INSERT INTO {name} (id, v) VALUES (4, 4)")
            bare.sql(f"INSERT INTO {name} (id, v) VALUES (5, 5)")
        runs(bare)
    for name, found in runs(bare).items():
        assert (found.result.counts.inserted, found.result.counts.updated, found.result.late_rows) == (1, 0, 1), name
        assert bare.lake(name, "id, v") == bare.source(name, "id, v"), name
    assert {line.status for line in runs(bare).values()} == {TableRunStatus.IDLE}


def test_an_index_for_such_a_cursor_is_asked_for_and_recognised(bare: World) -> None:
    bare.sql(ORDERS.format(name="orders"), "INSERT INTO orders (id, v) VALUES (1, 1)")
    bare.configure(cursor=("COALESCE(updated_at, created_at)",))
    [advice] = [text for text in bare.run().warnings if "No index" in text]
    if isinstance(bare.server, MariaDBServer):
        assert "ADD COLUMN cdc_cursor TIMESTAMP(6) AS (COALESCE(`updated_at`, `created_at`)) STORED" in advice
    else:
        bare.sql(advice.partition("Create one: ")[2])
        assert not [text for text in bare.run().warnings if "No index" in text]


@pytest.mark.parametrize("cursor", ["COALESCE(created_at, id)", "GREATEST(updated_at, created_at)", "COALESCE(nowhere, created_at)"])
def test_what_source_and_lake_might_order_differently_is_no_cursor(bare: World, cursor: str) -> None:
    bare.sql(ORDERS.format(name="orders"))
    bare.configure(cursor=(cursor,))
    [failure] = bare.run().failures
    assert isinstance(failure.error, SourceTableError)
