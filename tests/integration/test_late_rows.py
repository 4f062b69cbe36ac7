"""Rows that turn up below a watermark, on real servers: found in the band, merged, counted; lost where there is no bound and no band."""

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

from cdc_ops.core.pipeline import NullCursor, TableSettings
from cdc_ops.errors import SourceTableError
from cdc_ops.sources import mysql_bounds, postgres_bounds
from cdc_ops.sources.observation import Observation
from cdc_ops.state.base import TableRun, TableRunStatus
from cdc_ops.testing.servers import MariaDBServer, PostgresServer
from tests.world import World

MINUTE = timedelta(minutes=1)
EVENTS = {
    MariaDBServer: """CREATE TABLE events (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL,
        updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at, id))""",
    PostgresServer: """CREATE TABLE events (id BIGSERIAL PRIMARY KEY, v INT NOT NULL, updated_at TIMESTAMPTZ NOT NULL DEFAULT now())""",
}
CURSORS = [("updated_at",), ("id",), ("updated_at", "id")]


@pytest.fixture(params=["mariadb", "postgres"])
def world(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> World:
    server = request.getfixturevalue(request.param)
    made = World(server, tmp_path, spark, settings=TableSettings(cursor=("updated_at",), overlap=MINUTE, readers=1))
    made.sql(EVENTS[type(server)], "INSERT INTO events (v) VALUES (1), (2)")
    return made


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

        def nobody(session: Any, seen: Any = seen) -> Observation:
            return replace(seen(session), writers=(), complete=True)

        monkeypatch.setattr(module, "observe", nobody)


def run(world: World) -> TableRun:
    report = world.run()
    assert not report.failures, [str(failure.error) for failure in report.failures]
    return report.runs[0]


def insert_late(world: World) -> tuple[TableRun, TableRun]:
    """A writes and holds, B writes later and commits, a run, A commits, B goes on, a run."""
    run(world)
    with transaction(world) as a:
        a.execute("INSERT INTO events (v) VALUES (100)")
        world.sql("INSERT INTO events (v) VALUES (200)")
        first = run(world)
    world.sql("INSERT INTO events (v) VALUES (300)")
    return first, run(world)


@pytest.mark.parametrize("cursor", CURSORS, ids=",".join)
def test_a_row_that_commits_late_is_not_lost_and_not_late(world: World, cursor: tuple[str, ...]) -> None:
    world.configure(cursor=cursor, overlap=timedelta(0))
    insert_late(world)
    assert world.lake("events", "id, v") == world.source("events", "id, v")


@pytest.mark.parametrize("cursor", CURSORS, ids=",".join)
def test_without_the_safe_bound_and_without_overlap_it_is_lost(
    world: World, cursor: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proof that the reproduction can fail."""
    blind(monkeypatch)
    world.configure(cursor=cursor, overlap=timedelta(0))
    insert_late(world)
    assert [v for [v] in world.lake("events", "v")] == [1, 2, 200, 300]


@pytest.mark.parametrize("cursor", CURSORS, ids=",".join)
def test_without_the_safe_bound_the_band_finds_it_and_says_so(
    world: World, cursor: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    blind(monkeypatch)
    world.configure(cursor=cursor)
    first, second = insert_late(world)
    assert world.lake("events", "id, v") == world.source("events", "id, v")
    assert (first.late_rows, first.advice) == (0, "")
    assert second.late_rows == 1
    assert "1 late row was found below the watermark" in second.advice
    assert (second.max_commit_lag is None) == (cursor == ("id",))
    assert second.counts.inserted == 2
    assert second.counts.updated == 0


def test_an_idle_table_whose_band_changes_is_read_and_then_idle_again(world: World) -> None:
    """The application stamps a row in the past while nothing else happens."""
    for _ in range(2):
        run(world)
    assert run(world).status is TableRunStatus.IDLE
    jobs = world.jobs
    world.sql("INSERT INTO events (v, updated_at) SELECT 50, updated_at FROM events WHERE id = 1")
    found = run(world)
    assert (found.late_rows, found.counts.inserted, found.counts.updated) == (1, 1, 0)
    assert world.jobs == jobs + 1
    assert run(world).status is TableRunStatus.IDLE
    assert world.jobs == jobs + 1


def test_a_quiet_band_is_not_read_and_nothing_of_it_is_written_again(world: World) -> None:
    run(world)
    world.sql("INSERT INTO events (v) VALUES (3), (4), (5)")
    assert run(world).counts.read == 3
    world.sql("INSERT INTO events (v) VALUES (6)")
    last = run(world)
    assert (last.counts.read, last.counts.inserted, last.counts.updated) == (1, 1, 0)


def test_a_writer_that_stays_open_too_long_raises_an_alert_and_holds_the_watermark(world: World) -> None:
    run(world)
    world.configure(max_hold=timedelta(0))
    with transaction(world) as writer:
        writer.execute("UPDATE events SET v = 9, updated_at = CURRENT_TIMESTAMP(6) WHERE id = 1")
        world.sql("INSERT INTO events (v) VALUES (3)")
        held = run(world)
        before = world.state("events").watermark
    assert "longer than 'max_hold'" in held.alert
    assert "Look at it: SELECT * FROM " in held.alert
    assert held.notices == (held.alert,)
    after = run(world)
    assert after.alert == ""
    assert before is not None
    assert world.lake("events", "id, v") == world.source("events", "id, v")


def test_a_writer_within_the_limit_raises_no_alert(world: World) -> None:
    run(world)
    with transaction(world) as writer:
        writer.execute("UPDATE events SET v = 9, updated_at = CURRENT_TIMESTAMP(6) WHERE id = 1")
        assert run(world).alert == ""


COARSE = {
    MariaDBServer: """CREATE TABLE days (id BIGINT PRIMARY KEY, v INT NOT NULL, day DATE NOT NULL DEFAULT (CURRENT_DATE),
        at DATETIME NOT NULL DEFAULT NOW() ON UPDATE NOW(), KEY (day), KEY (at))""",
    PostgresServer: """CREATE TABLE days (id BIGINT PRIMARY KEY, v INT NOT NULL, day DATE NOT NULL DEFAULT CURRENT_DATE,
        at TIMESTAMP(0) NOT NULL DEFAULT now())""",
}


@pytest.fixture
def days(world: World) -> World:
    world.sql("DROP TABLE events", COARSE[type(world.server)], "INSERT INTO days (id, v) VALUES (1, 1), (2, 2)")
    world.pipeline = replace(world.pipeline, source=replace(world.pipeline.source, time_zone="UTC"))
    return world


def insert_into_the_open_unit(days: World, cursor: str) -> int:
    """Inserts a row and runs before its day or second is over, and returns its key; what was too late for that is tried again."""
    for key in range(3, 30):
        days.sql(f"INSERT INTO days (id, v) VALUES ({key}, {key})")
        assert run(days).counts.inserted == 1
        [(unit,)] = days.sql(f"SELECT {cursor} FROM days WHERE id = {key}")
        if str(days.state("days").watermark).startswith(str(unit)):
            return key
    raise AssertionError("no run was planned in the second of the row's insert")


@pytest.mark.parametrize("overlap", [timedelta(0), MINUTE], ids=["without overlap", "with overlap"])
@pytest.mark.parametrize("cursor", ["day", "at"])
def test_the_unit_that_is_not_over_is_read_and_read_again_when_it_changes(days: World, cursor: str, overlap: timedelta) -> None:
    """Rows of today, and changes within the same value of the cursor, arrive with the next run, not with the next day."""
    days.configure(cursor=(cursor,), overlap=overlap)
    run(days)
    key = insert_into_the_open_unit(days, cursor)
    same = "day = day, at = at" if isinstance(days.server, MariaDBServer) else "day = day"
    days.sql(f"UPDATE days SET v = 30, {same} WHERE id = {key}", "INSERT INTO days (id, v) VALUES (100, 100)")
    changed = run(days)
    assert (changed.counts.inserted, changed.counts.updated, changed.late_rows) == (1, 1, 0)
    assert days.lake("days", "id, v") == days.source("days", "id, v")
    jobs = days.jobs
    assert run(days).status is TableRunStatus.IDLE
    assert days.jobs == jobs


def test_rows_without_a_cursor_are_swept_when_they_change(world: World) -> None:
    world.sql("DROP TABLE events", "CREATE TABLE drafts (id INT PRIMARY KEY, v INT, at TIMESTAMP(6) NULL)", "CREATE INDEX i ON drafts (at)")
    world.sql("INSERT INTO drafts VALUES (1, 1, NULL), (2, 2, CURRENT_TIMESTAMP(6))")
    world.pipeline = replace(world.pipeline, source=replace(world.pipeline.source, time_zone="UTC"))
    world.configure(cursor=("at",), null_cursor=NullCursor.SWEEP)
    run(world)
    assert run(world).status is TableRunStatus.IDLE
    world.sql("UPDATE drafts SET v = 10, at = NULL WHERE id = 1", "INSERT INTO drafts VALUES (3, 3, NULL)")
    swept = run(world)
    assert (swept.counts.inserted, swept.counts.updated, swept.late_rows) == (1, 1, 0)
    world.sql("INSERT INTO drafts VALUES (4, 4, NULL)")
    swept = run(world)
    assert (swept.counts.inserted, swept.counts.updated, swept.late_rows) == (1, 0, 0)
    assert world.lake("drafts", "id, v") == world.source("drafts", "id, v")
    jobs = world.jobs
    assert run(world).status is TableRunStatus.IDLE
    assert world.jobs == jobs


def test_rows_without_a_cursor_are_left_alone_unless_that_is_asked_for(world: World) -> None:
    world.sql("DROP TABLE events", "CREATE TABLE drafts (id INT PRIMARY KEY, v INT, at TIMESTAMP(6) NULL)")
    world.configure(cursor=("at",))
    run(world)
    world.sql("INSERT INTO drafts VALUES (1, 1, NULL)")
    assert run(world).status is TableRunStatus.IDLE


def test_rows_that_are_marked_as_deleted_are_not_late(world: World) -> None:
    world.configure(apply_as_deletes="v < 0")
    run(world)
    world.sql("INSERT INTO events (v) VALUES (-1), (3)")
    run(world)
    world.sql("INSERT INTO events (v, updated_at) SELECT 4, updated_at FROM events WHERE id = 1")
    found = run(world)
    assert (found.late_rows, found.counts.inserted) == (1, 1)
    assert [v for [v] in world.lake("events", "v")] == [1, 2, 3, 4]
    assert run(world).status is TableRunStatus.IDLE


ORDERS = """CREATE TABLE orders (id INT PRIMARY KEY, v INT, created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    updated_at TIMESTAMP(6) NULL)"""


@pytest.mark.parametrize("cursor", [("COALESCE(updated_at, created_at)",), ("coalesce( updated_at,created_at )", "id")], ids=str)
def test_a_cursor_may_be_the_first_of_several_columns_that_is_not_null(
    world: World, cursor: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.sql("DROP TABLE events", ORDERS, "INSERT INTO orders (id, v) VALUES (1, 1), (2, 2)")
    world.pipeline = replace(world.pipeline, source=replace(world.pipeline.source, time_zone="UTC"))
    world.configure(cursor=cursor)
    run(world)
    world.sql("UPDATE orders SET v = 10, updated_at = CURRENT_TIMESTAMP(6) WHERE id = 1", "INSERT INTO orders (id, v) VALUES (3, 3)")
    changed = run(world)
    assert (changed.counts.inserted, changed.counts.updated, changed.late_rows) == (1, 1, 0)
    blind(monkeypatch)
    with transaction(world) as late:
        late.execute("INSERT INTO orders (id, v) VALUES (4, 4)")
        world.sql("INSERT INTO orders (id, v) VALUES (5, 5)")
        run(world)
    found = run(world)
    assert (found.counts.inserted, found.counts.updated, found.late_rows) == (1, 0, 1)
    assert world.lake("orders", "id, v") == world.source("orders", "id, v")
    assert run(world).status is TableRunStatus.IDLE


def test_an_index_for_such_a_cursor_is_asked_for_and_recognised(world: World) -> None:
    world.sql("DROP TABLE events", ORDERS, "INSERT INTO orders (id, v) VALUES (1, 1)")
    world.configure(cursor=("COALESCE(updated_at, created_at)",))
    [advice] = [text for text in world.run().warnings if "No index" in text]
    if isinstance(world.server, MariaDBServer):
        assert "ADD COLUMN cdc_cursor TIMESTAMP(6) AS (COALESCE(`updated_at`, `created_at`)) STORED" in advice
    else:
        world.sql(advice.partition("Create one: ")[2])
        assert not [text for text in world.run().warnings if "No index" in text]


@pytest.mark.parametrize("cursor", ["COALESCE(created_at, id)", "GREATEST(updated_at, created_at)", "COALESCE(nowhere, created_at)"])
def test_what_source_and_lake_might_order_differently_is_no_cursor(world: World, cursor: str) -> None:
    world.sql("DROP TABLE events", ORDERS)
    world.configure(cursor=(cursor,))
    [failure] = world.run().failures
    assert isinstance(failure.error, SourceTableError)
