"""A batch whose table was altered: what its statements and the pipeline file come to."""

from dataclasses import replace
from typing import Any, cast

import pytest

from cdc_ops.core.column_news import STATEMENT_LENGTH
from cdc_ops.core.events import FormatFacts
from cdc_ops.core.table_changes import Renaming, TableChangeKind
from cdc_ops.core.tables import Column, TableName, TableSchema
from cdc_ops.formats.base import open_format
from cdc_ops.steps.log_columns import Altered, statements_of

ITEMS = TableName(schema="shop", name="items")
MYSQL = open_format("debezium-mysql").facts
A_TO_B = "ALTER TABLE items RENAME COLUMN a TO b"
PLACE = (3, 300, 1, -1, 0)


def found(*statements: tuple[str, tuple[int | None, ...]], facts: FormatFacts = MYSQL, schema: str = "shop") -> Any:
    """Statements as they are collected of two files that both have all of them."""
    rows = [{"statements": [{"text": text, "schema": schema, "place": list(place)} for text, place in statements]}] * 2
    return statements_of(cast(Any, rows), ITEMS, facts)


def altered(columns: str, *texts: str, facts: FormatFacts = MYSQL, renamed: tuple[tuple[str, str], ...] = ()) -> Altered:
    """A table with columns, altered by statements at the places 3:300, 3:301, ..."""
    named = tuple(Column(name=name, source_type="int", delta_type="int", nullable=True, expression=f"`{name}`") for name in columns.split())
    schema = TableSchema(table=ITEMS, columns=named, primary_key=("id",))
    placed = ((text, (3, 300 + number, 1, -1, 0)) for number, text in enumerate(texts))
    return Altered(schema=schema, facts=facts, statements=found(*placed, facts=facts), renamed=renamed)


def test_a_statement_that_was_delivered_twice_is_one() -> None:
    [one] = found((A_TO_B, PLACE), (A_TO_B, PLACE))
    assert (one.text, one.place) == (A_TO_B, PLACE)


def test_statements_of_other_tables_and_databases_are_left_out() -> None:
    assert found(("DROP TABLE other", PLACE), ("DROP DATABASE other", PLACE)) == ()
    assert found(("DROP TABLE items", PLACE), schema="other") == ()


def test_a_statement_that_may_be_cut_or_is_of_another_dialect_is_not_understood() -> None:
    [cut] = found(("ALTER TABLE items ADD a INT DEFAULT 1" + " " * 20_000, PLACE))
    [other] = found((A_TO_B, (300,)), facts=open_format("debezium-sqlserver").facts)
    assert cut.changes is None
    assert other.changes is None
    news = altered("id b", "ALTER TABLE items DISABLE KEYS" + " " * 1000).news([], ())
    assert [len(text) for text in news.statements] == [STATEMENT_LENGTH]


def test_what_the_pipeline_file_says_of_a_column_is_not_said_again() -> None:
    assert altered("id b", A_TO_B).renamings == (Renaming(old="a", new="b", since=(), until=PLACE),)
    assert altered("id b", A_TO_B, renamed=(("A", "b"),)).renamings == ()
    assert altered("id b", A_TO_B, renamed=(("a", "gone"),)).renamings != (), "a pair that does not count"
    [change] = altered("id b", A_TO_B, renamed=(("a", "b"),)).news([], ()).changes
    assert (change.unread, change.place) == ((), "file_no 3, pos 300")


def test_events_without_one_order_are_left_as_they_are_and_the_run_says_so() -> None:
    facts = replace(MYSQL, one_order=False)
    table = altered("id b", A_TO_B, facts=facts)
    assert table.renamings == ()
    [change] = table.news([], ()).changes
    assert change.unread == ("b",)


@pytest.mark.parametrize(("place", "said"), [((3, 300, 1, 1, 0, 77), False), ((3, 299, 1, 1, 0, 99), True), (None, True)])
def test_a_truncate_is_said_unless_an_event_at_its_place_or_behind_it_empties_the_table(place: tuple[int, ...] | None, said: bool) -> None:
    news = altered("id", "TRUNCATE TABLE items").news([], [place] if place else [])
    assert [change.kind for change in news.changes] == [TableChangeKind.TRUNCATED] * said
    assert bool(news.alert) is said


def test_names_that_only_older_events_have_are_not_asked_for_where_a_statement_dropped_them() -> None:
    rows = [{"lacking": 2, "told": [["id"]], "unmapped": ["Old", "strange"], "undeclared": ["old", "odd"]}]
    news = altered("id a", "ALTER TABLE items DROP old").news(cast(Any, rows), ())
    assert (news.unmapped, news.undeclared) == (("strange",), ("odd",))
