"""The part of the conformance suite for sources that proves the safe bound: nothing that commits later falls below it."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

import pytest

from cdc_ops.core.cursor.cursors import Cursor, CursorValue, format_datetime
from cdc_ops.core.cursor.windows import SafeBound, Window, next_window
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.sources.base import Source
from cdc_ops.testing.late_commit import EARLY, LATER, Windowed, read_around_a_late_commit
from cdc_ops.testing.source_harness import Application, SourceHarness, background, wait_until

LOOKBACK: Final = timedelta(seconds=1)
_INSERT: Final = "INSERT INTO events (v) VALUES ({})"
_MOST_TURNS: Final = 30
_CURSORS: Final = (("at",), ("at", "id"), ("id",))


class SourceBoundSuite:
    """Tests what holds a bound back, what does not, and what a bound promises; the fixtures are in `SourceSuite`."""

    @pytest.fixture
    def connect(self, harness: SourceHarness, tables: Application) -> Iterator[Callable[[], Application]]:
        """Opens applications on the suite's tables, with three rows in `events`."""
        tables.run(*(_INSERT.format(value) for value in (1, 2, 3)))
        opened: list[Application] = []

        def another() -> Application:
            """Opens one more application; it is closed at the end of the test."""
            opened.append(harness.connect())
            return opened[-1]

        yield another
        for application in opened:
            application.close()

    def test_an_idle_server_holds_nothing_back(self, harness: SourceHarness, source: Source, connect: Callable[[], Application]) -> None:
        """Without open transactions the bound is the server's clock."""
        bound = _held_bound(harness, source, "at", by="")
        assert bound.warnings == ()
        assert bound.value == bound.clock

    @pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK"])
    def test_an_open_writer_holds_the_bound_until_it_ends(
        self, harness: SourceHarness, source: Source, connect: Callable[[], Application], ending: str
    ) -> None:
        """The bound stays at or below what an open transaction wrote, and names it, until it commits or rolls back."""
        writer = connect()
        writer.run("BEGIN", harness.statements.touch.format(id=1))
        written = _stamp(harness, writer, 1)
        bound = _held_bound(harness, source, "at", by=writer.label)
        assert bound.value.parts[0] <= written <= bound.clock.parts[0]
        assert bound.value.parts[0] < bound.clock.parts[0]
        writer.run(ending)
        assert _held_bound(harness, source, "at", by="").value.parts[0] >= written

    def test_a_transaction_that_has_only_read_holds_back_only_where_its_clock_is_old(
        self, harness: SourceHarness, source: Source, connect: Callable[[], Application]
    ) -> None:
        """A reader holds the bound back exactly where its later writes would carry an older time."""
        reader = connect()
        reader.run("BEGIN", "SELECT * FROM events")
        _held_bound(harness, source, "at", by=reader.label if harness.statements.readers_hold else "")
        begun = source.now()
        wait_until(lambda: source.now() > begun, "the next instant of the server's clock")
        before = source.now()
        reader.run(harness.statements.touch.format(id=1))
        # The test above relies on this: where a reader does not hold the bound back, its later writes have later times.
        stamped_late = _stamp(harness, reader, 1) >= format_datetime(before.replace(tzinfo=None))
        assert stamped_late is not harness.statements.readers_hold
        reader.run("ROLLBACK")

    def test_a_statement_that_waits_for_a_lock_holds_back(
        self, harness: SourceHarness, source: Source, connect: Callable[[], Application]
    ) -> None:
        """A statement that waits for a lock holds the bound back, because it stamps its row before it waits."""
        locker, waiter = connect(), connect()
        locker.run("BEGIN", "SELECT * FROM events WHERE id = 1 FOR UPDATE")
        with background(lambda: waiter.run(harness.statements.touch.format(id=1))):
            wait_until(waiter.is_running, "the statement that waits")
            bound = _bound(harness, source, "at")
            locker.run("COMMIT")
        assert bound.held_by
        assert bound.value.parts[0] <= _stamp(harness, waiter, 1)

    def test_a_prepared_transaction_without_a_connection_holds_back(
        self, harness: SourceHarness, source: Source, connect: Callable[[], Application]
    ) -> None:
        """A prepared transaction holds the bound back after its connection has ended."""
        if not harness.statements.prepare:
            pytest.skip("this server has no prepared transactions")
        begin, prepare = harness.statements.prepare
        since = _bound(harness, source, "at").value
        gone, other = harness.connect(), connect()
        gone.run(begin.format(name="suite-1"), harness.statements.touch.format(id=3))
        written = _stamp(harness, gone, 3)
        gone.run(*(statement.format(name="suite-1") for statement in prepare))
        connection = gone.label
        gone.close()
        try:
            wait_until(lambda: connection not in _bound(harness, source, "at", since=since).held_by, "the end of the connection")
            bound = _bound(harness, source, "at", since=since)
            assert bound.held_by
            assert bound.value.parts[0] <= written
        finally:
            other.run(harness.statements.rollback_prepared.format(name="suite-1"))
        _held_bound(harness, source, "at", by="")

    def test_what_is_written_after_a_bound_is_never_below_it(
        self, harness: SourceHarness, source: Source, connect: Callable[[], Application]
    ) -> None:
        """Rows that are written after a bound was taken are at or above it."""
        writer = connect()
        for value in range(8):
            bound = _bound(harness, source, "at")
            writer.run(_INSERT.format(value))
            [[newest]] = writer.run("SELECT MAX(id) FROM events")
            assert _stamp(harness, writer, newest) >= bound.value.parts[0]

    @pytest.mark.parametrize("columns", _CURSORS, ids=",".join)
    def test_a_late_commit_is_read_by_the_next_window(
        self, harness: SourceHarness, source: Source, connect: Callable[[], Application], columns: tuple[str, ...]
    ) -> None:
        """Two overlapping writers, the older commits last: both rows are read once, for each kind of cursor."""
        schema, cursor = _table(harness, source, *columns)
        windows = Windowed(source=source, schema=schema, cursor=cursor, lookback=LOOKBACK)
        first, second = read_around_a_late_commit(windows, connect(), connect())
        assert EARLY not in first
        assert sorted(value for value in first + second if value in (EARLY, LATER)) == [EARLY, LATER]

    def test_without_the_bound_the_late_commit_would_be_lost(
        self, harness: SourceHarness, source: Source, connect: Callable[[], Application]
    ) -> None:
        """The same with the clock as bound: the row is lost, so the reproduction works on this server."""
        a, b = connect(), connect()
        schema, cursor = _table(harness, source, "at")
        a.run("BEGIN", _INSERT.format(100))
        clock = source.safe_bound(schema, cursor, LOOKBACK, None).clock
        first = b.run(f"SELECT v FROM events WHERE {source.window_predicate(cursor, Window(low=None, high=clock))}")
        a.run("COMMIT")
        second = b.run(f"SELECT v FROM events WHERE {source.window_predicate(cursor, Window(low=clock, high=None))}")
        assert (100,) not in first + second

    def test_a_counter_stays_where_it_is_while_an_insert_is_open(
        self, harness: SourceHarness, source: Source, connect: Callable[[], Application]
    ) -> None:
        """The bound of a counter waits for an open insert; after its rollback the next window reads beyond the missing number."""
        a, b = connect(), connect()
        a.run("BEGIN", _INSERT.format(4))
        b.run(_INSERT.format(5))
        since = CursorValue(parts=("4",))
        assert _bound(harness, source, "id", since=since).value == since
        _held_bound(harness, source, "id", by=a.label, since=since)
        a.run("ROLLBACK")
        schema, cursor = _table(harness, source, "id")
        window = next_window(cursor, since, source.safe_bound(schema, cursor, timedelta(seconds=10), since))
        assert window is not None
        assert b.run(f"SELECT v FROM events WHERE {source.window_predicate(cursor, window)}") == [(5,)]

    def test_a_counter_follows_writers_that_overlap_for_ever_and_loses_none_of_them(
        self, harness: SourceHarness, source: Source, connect: Callable[[], Application]
    ) -> None:
        """The bound of a counter moves on although a writer is always open, and every row is read once."""
        schema, cursor = _table(harness, source, "id")
        windows = Windowed(source=source, schema=schema, cursor=cursor, lookback=timedelta(0))
        watermark, readings, passed = CursorValue(parts=("4",)), None, 0
        reader, writer, seen = connect(), connect(), list[int]()
        writer.run("BEGIN", _INSERT.format(EARLY))
        for turn in range(1, _MOST_TURNS):
            following = connect()
            following.run("BEGIN", _INSERT.format(EARLY + turn))  # before the other ends, so that one is always open
            writer.run("COMMIT")
            writer, before = following, watermark
            watermark, values, readings = windows.read(reader, watermark, readings)
            passed, seen = passed + (watermark != before), seen + values
            if passed == 2:
                break
        assert passed == 2, "the bound does not follow"
        assert EARLY + turn not in seen
        writer.run("COMMIT")
        _, values, _ = windows.read(reader, watermark, readings)
        assert sorted(seen + values) == list(range(EARLY, EARLY + turn + 1))

    def test_a_counter_that_has_not_moved_asks_nobody(
        self, harness: SourceHarness, source: Source, connect: Callable[[], Application]
    ) -> None:
        """The bound of a counter without new numbers is the watermark, and needs no look at open transactions."""
        since = _bound(harness, source, "id").value
        connect().run("BEGIN", harness.statements.touch.format(id=1))
        bound = _bound(harness, source, "id", since=since)
        assert (bound.value, bound.held_by) == (since, "")


def _table(harness: SourceHarness, source: Source, *columns: str) -> tuple[TableSchema, Cursor]:
    schema = source.schema(harness.table("events"))
    return schema, source.cursor(schema, columns)[0]


def _bound(harness: SourceHarness, source: Source, *columns: str, since: CursorValue | None = None) -> SafeBound:
    return source.safe_bound(*_table(harness, source, *columns), LOOKBACK, since)


def _held_bound(harness: SourceHarness, source: Source, *columns: str, by: str, since: CursorValue | None = None) -> SafeBound:
    """Returns the bound when the connection `by` holds it back, or nobody does ("").

    A connection that ended just before may be listed a little longer than it lives, and hold the bound back in that time.
    """
    bounds: list[SafeBound] = []

    def is_held_by() -> bool:
        bounds.append(_bound(harness, source, *columns, since=since))
        return by in bounds[-1].held_by if by else not bounds[-1].held_by

    wait_until(is_held_by, f"a bound that {by or 'nobody'} holds back")
    return bounds[-1]


def _stamp(harness: SourceHarness, application: Application, id_: int) -> str:
    shown = harness.statements.shown.format(column="at")
    [[text]] = application.run(f"SELECT {shown} FROM events WHERE id = {id_}")
    return str(text)
