"""The conformance suite for sources: what every implementation of `Source` has to prove; for third parties too; outside the data path.

    class TestMyServer(SourceSuite):
        @pytest.fixture
        def harness(self) -> SourceHarness:
            return MyHarness()

It needs pytest and a real server, no Spark. The tests of bounds are in `source_suite_bounds`.
"""

import random
import socket
import traceback
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType, CursorValue
from cdc_ops.core.cursor.windows import Window, contains
from cdc_ops.errors import ConfigError, RequestError, SourceAccessError, SourceTableError, SourceUnreachableError
from cdc_ops.sources.base import Source
from cdc_ops.sources.chunks.chunks import ChunkSize
from cdc_ops.testing.source_harness import Application, SourceHarness
from cdc_ops.testing.source_suite_bounds import SourceBoundSuite

__all__ = ["SourceSuite"]

_SEED = 20240229
_MOMENTS = tuple(f"2024-01-01 00:00:00.{micros:06d}" for micros in range(6))
_COMPOSITE = Cursor(
    columns=(CursorColumn(name="u", type=CursorType.DATETIME, precision=6), CursorColumn(name="id", type=CursorType.INTEGER))
)
_HOSTILE_KEYS = ("plain", "it's", 'a"b', "back\\slash", "per%cent", "col:on", "é", "x'; DROP TABLE keyed; -- ", "{brace}", "")


class SourceSuite(SourceBoundSuite):
    """Subclass it with a fixture `harness`; every method is one promise of the protocol."""

    @pytest.fixture
    def harness(self) -> SourceHarness:
        """The server and the source under test. Subclasses override this fixture."""
        raise NotImplementedError("a subclass of SourceSuite must override the fixture 'harness'")

    @pytest.fixture
    def tables(self, harness: SourceHarness) -> Iterator[Application]:
        """The suite's tables, empty, and a connection to fill them."""
        application = harness.connect()
        application.run(*harness.statements.tables)
        yield application
        application.close()

    @pytest.fixture
    def source(self, harness: SourceHarness, tables: Application) -> Iterator[Source]:
        """The source under test."""
        opened = harness.open_source()
        yield opened
        opened.close()

    # -------------------------------------------------------------------------------------------------------------- schemas

    def test_base_tables_are_listed_and_a_view_is_refused(self, harness: SourceHarness, source: Source, tables: Application) -> None:
        """`tables` lists base tables only; `schema` of a view raises SourceTableError."""
        tables.run("DROP VIEW IF EXISTS a_view", "CREATE VIEW a_view AS SELECT 1 AS one")
        listed = source.tables()
        assert {harness.table("numbers"), harness.table("events"), harness.table("keyed")} <= set(listed)
        assert harness.table("a_view") not in listed
        with pytest.raises(SourceTableError, match="view"):
            source.schema(harness.table("a_view"))

    def test_every_type_is_mapped_and_every_expression_is_accepted(
        self, harness: SourceHarness, source: Source, tables: Application
    ) -> None:
        """`schema` maps every type to its Delta type, and the server runs each column's expression, whatever the names hold."""
        statements = harness.statements
        odd = "odd " + statements.quote + "name" + statements.quote + " ü"
        columns = [(f"c{index} {statements.quote} select", *kind) for index, kind in enumerate(statements.types)]
        declared = ", ".join(f"{statements.name(name)} {kind}" for name, kind, _ in columns)
        quoted = statements.name(odd)
        tables.run(f"DROP TABLE IF EXISTS {quoted}", f"CREATE TABLE {quoted} (id INT NOT NULL PRIMARY KEY, {declared})")
        tables.run(f"INSERT INTO {quoted} (id) VALUES (7)")
        schema = source.schema(harness.table(odd))
        assert [(c.name, c.delta_type, c.nullable) for c in schema.columns[1:]] == [(name, lake, True) for name, _, lake in columns]
        assert (schema.columns[0].delta_type, schema.columns[0].nullable, schema.primary_key) == ("int", False, ("id",))
        [relation] = source.jdbc_read(schema, ("",)).relations
        [row] = tables.run(f"SELECT * FROM {relation}")
        assert len(row) >= len(schema.columns)  # a source may select further columns for its decoders
        assert [value for value in row if value is not None] == [7]
        tables.run(f"DROP TABLE {quoted}")

    def test_a_fingerprint_changes_with_the_columns_only(self, harness: SourceHarness, source: Source, tables: Application) -> None:
        """A schema's fingerprint stays when rows change, and changes with the columns."""
        table = harness.table("numbers")
        before = source.schema(table)
        tables.run("INSERT INTO numbers (id, v, u) VALUES (1, 2, " + harness.statements.moment.format(text=_MOMENTS[0]) + ")")
        assert source.schema(table).fingerprint == before.fingerprint
        tables.run("ALTER TABLE numbers ADD COLUMN w INT")
        after = source.schema(table)
        assert [column.name for column in after.columns] == ["id", "v", "u", "w"]
        assert after.fingerprint != before.fingerprint

    def test_columns_can_be_chosen_and_left_out(self, harness: SourceHarness, source: Source) -> None:
        """`schema` keeps the key with chosen columns, in the table's order."""
        table = harness.table("numbers")
        assert [c.name for c in source.schema(table, columns=("u", "id")).columns] == ["id", "u"]
        assert [c.name for c in source.schema(table, except_columns=("v",)).columns] == ["id", "u"]

    def test_a_missing_name_is_answered_with_the_nearest_one(self, harness: SourceHarness, source: Source) -> None:
        """SourceTableError names the nearest table or column that exists."""
        with pytest.raises(SourceTableError, match="'numbers'"):
            source.schema(harness.table("nubmers"))
        with pytest.raises(SourceTableError, match="'at'"):
            source.schema(harness.table("events"), columns=("att",))
        with pytest.raises(SourceTableError, match="'at'"):
            source.cursor(source.schema(harness.table("events")), ("att",))

    # -------------------------------------------------------------------------------------------------------------- cursors

    def test_cursors_are_typed_and_what_has_no_order_is_none(self, harness: SourceHarness, source: Source, tables: Application) -> None:
        """`cursor` gives type and precision of each column, and refuses a column without an order."""
        numbers = source.schema(harness.table("numbers"))
        cursor, _ = source.cursor(numbers, ("u", "id"))
        assert [(c.name, c.type, c.precision) for c in cursor.columns] == [("u", CursorType.DATETIME, 6), ("id", CursorType.INTEGER, 0)]
        counter, _ = source.cursor(source.schema(harness.table("events")), ("id",))
        assert counter.lead.type is CursorType.INTEGER
        tables.run(f"ALTER TABLE numbers ADD COLUMN w {harness.statements.not_orderable}")
        with pytest.raises(SourceTableError):
            source.cursor(source.schema(harness.table("numbers")), ("w",))

    def test_a_cursor_that_can_be_null_or_has_no_index_is_warned_of(
        self, harness: SourceHarness, source: Source, tables: Application
    ) -> None:
        """`cursor` warns of NULLs, and of a missing index with the statement that creates it."""
        _, good = source.cursor(source.schema(harness.table("numbers")), ("u",))
        _, bad = source.cursor(source.schema(harness.table("numbers")), ("v",))
        assert "NULL" in "".join(bad)
        assert "NULL" not in "".join(good)
        assert "CREATE INDEX" in "".join(bad)
        assert "CREATE INDEX" not in "".join(good)

    def test_an_instant_becomes_a_literal_and_a_counter_has_none(self, harness: SourceHarness, source: Source) -> None:
        """`literal` turns a UTC instant into the cursor's own text; for a counter it raises RequestError."""
        schema = source.schema(harness.table("numbers"))
        cursor, _ = source.cursor(schema, ("u",))
        assert source.literal(schema, cursor, datetime(2024, 7, 1, 12, 0, 0, 123456, UTC)).parts == ("2024-07-01 12:00:00.123456",)
        counter, _ = source.cursor(schema, ("id",))
        with pytest.raises(RequestError):
            source.literal(schema, counter, datetime(2024, 7, 1, tzinfo=UTC))

    # ----------------------------------------------------------------------------------------------------------- predicates

    def test_a_window_reads_what_the_reference_says(self, harness: SourceHarness, source: Source, tables: Application) -> None:
        """80 random half-open windows on a cursor of two columns select the rows that `core.cursor.windows.contains` selects."""
        rows = {id_: CursorValue(parts=(_MOMENTS[id_ % 5], str(id_))) for id_ in range(12)}
        _fill(harness, tables, {id_: value.parts[0] for id_, value in rows.items()})
        chosen = random.Random(_SEED)
        ends = [None, *(CursorValue(parts=(moment,)) for moment in _MOMENTS)]
        ends += [CursorValue(parts=(moment, str(number))) for moment in _MOMENTS for number in range(13)]
        for _ in range(80):
            window = Window(low=chosen.choice(ends), high=chosen.choice(ends))
            read = _ids(tables, source.window_predicate(_COMPOSITE, window))
            assert read == sorted(id_ for id_, value in rows.items() if contains(_COMPOSITE, window, value)), str(window)

    def test_windows_tile_the_axis(self, harness: SourceHarness, source: Source, tables: Application) -> None:
        """Adjacent windows select every row exactly once."""
        _fill(harness, tables, {id_: _MOMENTS[id_ % 5] for id_ in range(40)})
        chosen = random.Random(_SEED)
        every = [CursorValue(parts=(moment, str(number))) for moment in _MOMENTS for number in range(0, 41, 3)]
        for _ in range(10):
            cuts = sorted(chosen.sample(every, chosen.randint(1, 8)), key=_COMPOSITE.order)
            windows = [Window(low=low, high=high) for low, high in zip([None, *cuts], [*cuts, None], strict=True)]
            read = [id_ for window in windows for id_ in _ids(tables, source.window_predicate(_COMPOSITE, window))]
            assert sorted(read) == list(range(40))

    def test_what_is_no_value_of_the_cursor_is_refused(self, source: Source) -> None:
        """`window_predicate` raises ConfigError for text that is no literal, so that nothing can be injected."""
        for parts in (("2024-01-01' OR 1=1 -- ",), (_MOMENTS[0], "1 OR 1=1")):
            with pytest.raises(ConfigError):
                source.window_predicate(_COMPOSITE, Window(low=CursorValue(parts=parts), high=None))

    def test_keys_are_looked_up_whatever_is_in_them(self, harness: SourceHarness, source: Source, tables: Application) -> None:
        """`keys_predicate` finds each row by keys with quotes, backslashes, percent signs and colons; no keys find no row."""
        table = harness.table("keyed")
        schema = source.schema(table)
        wanted = tuple((key, f"{index}.50", "00FF") for index, key in enumerate(_HOSTILE_KEYS))
        assert source.count(table, source.keys_predicate(schema, ("t", "n", "b"), wanted), 100) == len(_HOSTILE_KEYS)
        for index, row in enumerate(wanted):
            assert source.count(table, source.keys_predicate(schema, ("t", "n", "b"), (row,)), 100) == 1, _HOSTILE_KEYS[index]
            assert source.count(table, source.keys_predicate(schema, ("t",), (row[:1],)), 100) == 1, _HOSTILE_KEYS[index]
        assert source.count(table, source.keys_predicate(schema, ("d",), (("2024-01-01",),)), 100) == len(_HOSTILE_KEYS)
        assert source.count(table, source.keys_predicate(schema, ("t",), ()), 100) == 0

    @pytest.mark.parametrize(("key", "value"), [("n", "1 OR 1=1"), ("n", "1e5"), ("b", "xyz"), ("b", "abc"), ("d", "yesterday")])
    def test_a_key_that_is_no_value_of_its_column_is_refused(self, harness: SourceHarness, source: Source, key: str, value: str) -> None:
        """`keys_predicate` raises RequestError for text that its column cannot hold."""
        with pytest.raises(RequestError):
            source.keys_predicate(source.schema(harness.table("keyed")), (key,), ((value,),))

    # ----------------------------------------------------------------------------------------------------------------- cuts

    def test_slices_and_chunks_tile_a_table_exactly(self, harness: SourceHarness, source: Source, tables: Application) -> None:
        """Slices and chunks select every row once; a chunk's `rest` selects the rows of all later chunks."""
        chosen = random.Random(_SEED)
        v = harness.statements.name("v")
        for round_ in range(12):
            edge = [-(2**63), 2**63 - 1, 0, -1]
            ids = {chosen.randint(-50, 50) for _ in range(chosen.randint(0, 30))} | set(chosen.sample(edge, round_ % 4))
            _fill(harness, tables, {id_: _MOMENTS[abs(id_) % 6] for id_ in sorted(ids)})
            schema = replace(source.schema(harness.table("numbers")), approximate_rows=len(ids))
            window = source.window_predicate(_COMPOSITE, Window(low=None, high=CursorValue(parts=(_MOMENTS[4],))))
            for where in ("", f"{v} >= 3", f"{v} = 1 OR {v} = 2", window):
                parts = chosen.randint(1, 9)
                slices = source.slices(schema, ("id",), where, parts)
                assert len(slices) <= parts
                assert sorted(id_ for one in slices for id_ in _ids(tables, one)) == _ids(tables, where)
            plan = source.chunks(schema, ("id",), ChunkSize(rows=max(len(ids) // 4, 1), readers=2))
            assert sorted(id_ for chunk in plan.chunks for one in chunk.slices for id_ in _ids(tables, one)) == sorted(ids)
            for place, chunk in enumerate(plan.chunks[:-1]):
                behind = [id_ for later in plan.chunks[place + 1 :] for one in later.slices for id_ in _ids(tables, one)]
                assert sorted(behind) == _ids(tables, chunk.rest)

    def test_a_count_stops_at_its_limit(self, harness: SourceHarness, source: Source, tables: Application) -> None:
        """`count` returns the rows of a condition, and at most the limit."""
        _fill(harness, tables, dict.fromkeys(range(30), _MOMENTS[0]))
        table = harness.table("numbers")
        assert (source.count(table, "", 100), source.count(table, "", 10)) == (30, 10)
        assert source.count(table, f"{harness.statements.name('id')} < 7", 10) == 7

    # ------------------------------------------------------------------------------------------------------------ checksums

    def test_a_checksum_depends_on_rows_and_values_and_on_nothing_else(
        self, harness: SourceHarness, source: Source, tables: Application
    ) -> None:
        """`checksum` is the same in any order of rows, and differs for a deleted row, for NULL and for zero."""
        table = harness.table("numbers")
        expressions = tuple(column.expression for column in source.schema(table).columns)
        rows = {id_: _MOMENTS[abs(id_) % 6] for id_ in range(20)}
        _fill(harness, tables, rows)
        first = source.checksum(table, expressions, "")
        assert first[0] == len(rows)
        _fill(harness, tables, dict(reversed(rows.items())))
        assert source.checksum(table, expressions, "") == first
        seen = {first}
        for change in (
            "UPDATE numbers SET v = NULL WHERE id = 3",
            "UPDATE numbers SET v = 0 WHERE id = 3",
            "DELETE FROM numbers WHERE id = 4",
        ):
            tables.run(change)
            seen.add(source.checksum(table, expressions, ""))
        assert len(seen) == 4
        assert source.checksum(table, expressions, "1 = 0")[0] == 0

    # --------------------------------------------------------------------------------------------------------------- errors

    def test_a_wrong_password_is_an_access_error_that_does_not_show_it(self, harness: SourceHarness, source: Source) -> None:
        """A wrong password raises SourceAccessError, not retryable, without the password in text, traceback or repr."""
        wrong = harness.open_source(password="a-wrong-secret")
        with pytest.raises(SourceAccessError) as caught:
            wrong.tables()
        shown = str(caught.value) + "".join(traceback.format_exception(caught.value)) + repr(wrong)
        assert "a-wrong-secret" not in shown
        assert not caught.value.retryable
        wrong.close()

    def test_an_unreachable_server_is_retryable_and_named(self, harness: SourceHarness, source: Source) -> None:
        """A server that does not answer raises SourceUnreachableError, retryable, with its port."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            away = harness.open_source(port=port)
            with pytest.raises(SourceUnreachableError, match=str(port)) as caught:
                away.now()
        assert caught.value.retryable

    def test_the_password_is_only_in_the_properties_of_a_read(self, harness: SourceHarness, source: Source) -> None:
        """`jdbc_read` carries the password in `properties`, and nowhere that is logged."""
        schema = source.schema(harness.table("numbers"))
        read = source.jdbc_read(schema, (*source.slices(schema, ("id",), "", 1), "1 = 0"))
        assert len(read.relations) == 2
        assert len(read.decoders) == len(schema.columns)
        assert harness.secret in read.properties.values()
        assert harness.secret not in repr(read) + repr(source) + read.url + "".join(read.relations) + read.session_init

    def test_the_clock_is_the_servers_and_a_closed_source_opens_again(self, source: Source) -> None:
        """`now` is in UTC and does not go back; a source works again after `close`."""
        first = source.now()
        source.close()
        again = source.now()
        assert timedelta(0) <= again - first < timedelta(minutes=5)
        assert again.utcoffset() == timedelta(0)


def _fill(harness: SourceHarness, application: Application, rows: dict[int, str]) -> None:
    values = ", ".join(f"({id_}, {id_ % 7}, {harness.statements.moment.format(text=moment)})" for id_, moment in rows.items())
    application.run("DELETE FROM numbers", *([f"INSERT INTO numbers (id, v, u) VALUES {values}"] if rows else []))


def _ids(application: Application, where: str) -> list[int]:
    return sorted(row[0] for row in application.run(f"SELECT id FROM numbers{f' WHERE {where}' if where else ''}"))
