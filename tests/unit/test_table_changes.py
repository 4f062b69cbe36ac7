"""What follows from statements: under which names older events have columns, and what a run says."""

import pytest

from cdc_ops.core.events.column_drift import ColumnDrift
from cdc_ops.core.events.ddl_changes import DdlChange, Renaming, Statement, TableChangeKind, renamings, reportable_changes
from cdc_ops.core.json_codec import dumps, loads
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.schema.tables import TableName
from cdc_ops.events.ddl import table_changes

ITEMS = TableName(schema="shop", name="items")
KIND = TableChangeKind


def statements(*texts: str) -> tuple[Statement, ...]:
    """Statements at the places 10, 20, ..."""
    return tuple(Statement(text=text, place=(10 * n,), changes=table_changes(text, ITEMS)) for n, text in enumerate(texts, 1))


def pairs(columns: str, *texts: str) -> list[str]:
    """Old and new names of columns as `a>b 10-20`: in events from place 10 on, before 20."""
    found = renamings(reversed(statements(*texts)), columns.split())
    return sorted(f"{one.old}>{one.new} {one.since[0] if one.since else 0}-{one.until[0]}" for one in found)


def spoken(columns: str, *texts: str) -> list[str]:
    """What a run says, and in brackets which columns are to be read again."""
    found = statements(*texts)
    read = {(one.old, one.until) for one in renamings(found, columns.split())}
    return [f"{change.kind} {change.column} {list(change.unread)}" for _, change in reportable_changes(found, columns.split(), read)]


RENAME = "ALTER TABLE items RENAME COLUMN {} TO {}"
A_TO_B, B_TO_C = RENAME.format("a", "b"), RENAME.format("b", "c")


def test_events_from_before_a_rename_have_the_old_name() -> None:
    assert renamings(statements(A_TO_B), ["id", "b"]) == (Renaming(old="a", new="b", since=(), until=(10,)),)


def test_names_differ_in_case_and_the_columns_is_the_one_that_the_table_has() -> None:
    assert pairs("id Title", "ALTER TABLE items CHANGE NAME title TEXT") == ["name>Title 0-10"]


def test_a_column_that_was_renamed_twice_is_followed_through_each_stretch() -> None:
    assert pairs("id c", A_TO_B, B_TO_C) == ["a>c 0-10", "b>c 10-20"]


def test_a_name_that_another_column_had_before_is_that_columns() -> None:
    assert pairs("id c", "ALTER TABLE items DROP b", A_TO_B, B_TO_C) == ["a>c 0-10", "a>c 10-20", "b>c 20-30"]


def test_other_statements_before_and_behind_do_not_matter() -> None:
    assert pairs("id b x", "ALTER TABLE items ADD i INT", A_TO_B, "ALTER TABLE items ADD x INT, DROP i") == ["a>b 0-10", "a>b 10-20"]


@pytest.mark.parametrize(
    ("columns", "texts"),
    [
        ("id a b", ["ALTER TABLE items RENAME COLUMN a TO b, RENAME COLUMN b TO a"]),  # two names are exchanged
        ("id a b", [A_TO_B, "ALTER TABLE items ADD a INT"]),  # the old name is another column's now
        ("id a b", ["ALTER TABLE items RENAME COLUMN a TO b, ADD a INT"]),
        ("id b", ["ALTER TABLE items DROP b", A_TO_B]),  # before the first, the new name was another column's
        ("id b", ["ALTER TABLE items DROP b, RENAME COLUMN a TO b"]),
        ("id c", [A_TO_B]),  # the column is not there, or has another name by now
        ("id b", [A_TO_B, "ALTER TABLE items CONVERT TO CHARACTER SET utf8mb4"]),  # not understood
        ("id b", [A_TO_B, "RENAME TABLE items TO items_1, items_2 TO items"]),  # another table
        ("id b", [A_TO_B, "DROP TABLE items"]),
        ("id b", [A_TO_B, "ALTER TABLE items DROP b", "ALTER TABLE items ADD b INT"]),  # the column is a new one
    ],
)
def test_nothing_is_concluded_where_a_name_stands_for_two_columns_or_something_is_not_known(columns: str, texts: list[str]) -> None:
    assert [pair for pair in pairs(columns, *texts) if pair.endswith(" 0-10")] == []


def test_nothing_is_concluded_of_statements_without_a_place_of_their_own() -> None:
    first, second = statements(A_TO_B, B_TO_C)
    assert renamings([Statement(text=first.text, place=(), changes=first.changes), second], ["id", "c"]) == ()
    assert renamings([Statement(text=first.text, place=second.place, changes=first.changes), second], ["id", "c"]) == ()


def test_only_what_leaves_rows_wrong_asks_for_columns_to_be_read_again() -> None:
    assert spoken("id a", "ALTER TABLE items ADD a INT") == []
    assert spoken("id a", "ALTER TABLE items ADD a INT DEFAULT 5") == ["added a ['a']"]
    assert spoken("id", "ALTER TABLE items ADD a INT DEFAULT 5") == [], "a column that is not copied"
    assert spoken("id", "ALTER TABLE items DROP a") == ["dropped a []"]
    assert spoken("id a", "ALTER TABLE items DROP a", "ALTER TABLE items ADD a INT") == ["dropped a ['a']"]
    assert spoken("id b", A_TO_B) == ["renamed b []"]
    assert spoken("id c", A_TO_B, B_TO_C) == ["renamed b []", "renamed c []"]
    assert spoken("id a b", "ALTER TABLE items RENAME COLUMN a TO b, RENAME COLUMN b TO a") == [
        "renamed b ['b', 'a']",
        "renamed a ['a', 'b']",
    ]
    assert spoken("id b", "ALTER TABLE items DROP b, RENAME COLUMN a TO b") == ["dropped b ['b']", "renamed b ['b']"]
    assert spoken("id a", "ALTER TABLE items MODIFY a BIGINT, MODIFY gone INT") == ["retyped a []"]
    assert spoken("id", "CREATE TABLE items (id INT)", "DROP TABLE items") == ["table-dropped  []"]


def test_a_truncate_is_said_unless_an_event_of_it_empties_the_table() -> None:
    found = statements("TRUNCATE TABLE items")
    assert [change.kind for _, change in reportable_changes(found, ["id"], ())] == [KIND.TRUNCATED]
    assert reportable_changes(found, ["id"], (), (10,)) == ()
    assert [change.kind for _, change in reportable_changes(found, ["id"], (), (9,))] == [KIND.TRUNCATED]


def test_a_run_says_what_happened_to_columns_and_how_to_read_them() -> None:
    added = DdlChange(kind=KIND.ADDED, column="a", detail="DEFAULT 5", place="file_no 3, pos 300", unread=("a",))
    retyped = DdlChange(kind=KIND.RETYPED, column="b", detail="INT")
    news = ColumnDrift(changes=(retyped, added))
    assert "column 'a' was added with DEFAULT 5 (file_no 3, pos 300); column 'b' changed its type to INT" in news.warning
    assert "'cdc-ops backfill --columns a'" in news.warning
    assert "'cdc-ops verify'" in news.warning
    assert news.alert == ""


def test_columns_that_are_to_be_read_are_named_once() -> None:
    added = DdlChange(kind=KIND.ADDED, column="a", detail="DEFAULT 5", unread=("a",))
    said = ColumnDrift(lacking=("b", "a"), rows=2, changes=(added,)).warning
    assert "'cdc-ops backfill --columns b,a'" in said
    assert said.count("backfill") == 1


@pytest.mark.parametrize("kind", [KIND.TABLE_DROPPED, KIND.TABLE_RENAMED, KIND.TABLE_REPLACED, KIND.TRUNCATED])
def test_rows_that_are_gone_without_events_are_an_alert_and_not_a_warning_too(kind: TableChangeKind) -> None:
    news = ColumnDrift(changes=(DdlChange(kind=kind, other="items_1", place="pos 300"),))
    assert "(pos 300)" in news.alert
    assert "'cdc-ops reconcile'" in news.alert
    assert news.warning == ""


def test_what_statements_did_travels_with_the_counts() -> None:
    counts = Counts(columns=ColumnDrift(changes=(DdlChange(kind=KIND.ADDED, column="a", detail="DEFAULT 5", unread=("a",)),)))
    assert loads(Counts, dumps(counts)) == counts
    assert ColumnDrift.total([counts.columns, counts.columns]) == counts.columns
