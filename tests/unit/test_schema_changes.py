"""Schema changes: what is recognised, what each policy makes of it, and that no value is ever cast to a type that does not hold it."""

from typing import Any

import pytest

from cdc_ops.core.schema.schema_evolution import (
    ChangeKind,
    Decision,
    Recorded,
    SchemaChange,
    SchemaPolicy,
    SchemaSettings,
    compare_columns,
    compare_keys,
    decide,
    drift,
    keeps_position,
    only_columns,
)
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.core.schema.type_widening import common_type, holds
from cdc_ops.errors import SchemaChangedError
from tests.lake_case import TABLE, schema

STORED = (("id", "int"), ("name", "string"), ("amount", "decimal(10,2)"), ("updated_at", "timestamp_ntz"))
EVOLVE, FREEZE, FAIL = SchemaPolicy


def changed(**columns: str | None) -> TableSchema:
    """The stored columns with some added, of another type, or gone (None)."""
    kept = {name: kind for name, kind in ({**dict(STORED), **columns}).items() if kind is not None}
    return schema(*kept.items())


def kinds(now: TableSchema, renamed: tuple[tuple[str, str], ...] = ()) -> list[tuple[str, str]]:
    return [(change.kind.value, change.column) for change in compare_columns(STORED, now, renamed)]


def decided(policy: SchemaPolicy, now: TableSchema, **parts: Any) -> Decision:
    renamed, recorded, filled = parts.get("renamed", ()), parts.get("recorded", Recorded()), parts.get("filled", ())
    changes = compare_columns(STORED, now, renamed)
    changes += compare_keys(recorded.keys, parts.get("keys", ("id",)), changes)
    return decide(
        SchemaSettings(pipeline="shop", policy=policy, renamed=renamed, filled=filled), now, changes, recorded, ("id", "updated_at")
    )


@pytest.mark.parametrize(
    ("stored", "now", "common"),
    [
        ("tinyint", "bigint", "bigint"),
        ("smallint", "int", "int"),
        ("int", "double", "double"),
        ("int", "decimal(5,2)", "decimal(12,2)"),
        ("bigint", "decimal(20,0)", "decimal(20,0)"),
        ("bigint", "decimal(5,2)", "decimal(22,2)"),
        ("float", "double", "double"),
        ("decimal(10,2)", "decimal(12,4)", "decimal(12,4)"),
        ("decimal(10,2)", "decimal(10,4)", "decimal(12,4)"),
        ("decimal(36,0)", "decimal(10,2)", "decimal(38,2)"),
        ("decimal(37,0)", "decimal(10,2)", None),
        ("decimal(38,0)", "decimal(38,2)", None),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("date", "timestamp", None),
        ("timestamp", "timestamp_ntz", None),
        ("bigint", "double", None),
        ("int", "float", None),
        ("decimal(10,2)", "double", None),
        ("int", "string", None),
        ("string", "binary", None),
        ("boolean", "int", None),
        ("array<int>", "array<bigint>", None),
    ],
)
def test_the_common_type_is_what_delta_widens_both_to(stored: str, now: str, common: str | None) -> None:
    assert common_type(stored, now) == common
    assert common_type(now, stored) == common
    if common is not None:
        assert holds(common, stored)
        assert holds(common, now)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("bigint", "int", True),
        ("int", "bigint", False),
        ("decimal(3,0)", "tinyint", True),
        ("decimal(2,0)", "tinyint", False),
        ("decimal(5,0)", "smallint", True),
        ("decimal(4,0)", "smallint", False),
        ("decimal(10,0)", "int", True),
        ("decimal(9,0)", "int", False),
        ("decimal(19,0)", "bigint", True),
        ("decimal(18,0)", "bigint", False),
        ("decimal(21,2)", "bigint", True),
        ("decimal(20,2)", "bigint", False),
        ("string", "int", False),
    ],
)
def test_a_type_holds_what_fits_exactly(kind: str, value: str, expected: bool) -> None:
    assert holds(kind, value) is expected


@pytest.mark.parametrize(
    ("now", "renamed", "expected"),
    [
        (changed(), (), []),
        (changed(note="string"), (), [("added", "note")]),
        (changed(name=None), (), [("dropped", "name")]),
        (changed(name=None, title="string"), (), [("added", "title"), ("dropped", "name")]),
        (changed(name=None, title="string"), (("name", "title"),), [("renamed", "title")]),
        (changed(name=None, title="string"), (("other", "title"),), [("added", "title"), ("dropped", "name")]),
        (changed(title="string"), (("name", "title"),), [("added", "title")]),
        (changed(amount=None, total="decimal(12,4)"), (("amount", "total"),), [("renamed", "total"), ("widened", "total")]),
        (changed(id="bigint"), (), [("widened", "id")]),
        (changed(id="smallint"), (), [("narrowed", "id")]),
        (changed(amount="decimal(8,1)"), (), [("narrowed", "amount")]),
        (changed(amount="decimal(9,3)"), (), [("widened", "amount")]),
        (changed(id="string"), (), [("retyped", "id")]),
        (changed(updated_at="timestamp"), (), [("retyped", "updated_at")]),
        (schema(("ID", "int"), ("Name", "string"), ("AMOUNT", "decimal(10,2)"), ("updated_at", "timestamp_ntz")), (), []),
    ],
)
def test_changes_are_recognised(now: TableSchema, renamed: tuple[tuple[str, str], ...], expected: list[tuple[str, str]]) -> None:
    assert kinds(now, renamed) == expected


def test_a_rename_that_is_done_and_a_declared_length_are_no_changes() -> None:
    stored = (("id", "int"), ("title", "string"))
    now = schema(("id", "int"), ("title", "string"))
    title = Column(name="title", source_type="varchar(99)", delta_type="string", nullable=False, expression="title")
    longer = TableSchema(table=TABLE, columns=(now.columns[0], title), primary_key=("id",))
    assert compare_columns(stored, longer, (("name", "title"),)) == ()


@pytest.mark.parametrize(
    ("recorded", "now", "changes"),
    [
        (("id",), ("ID",), 0),
        ((), ("id",), 0),
        (("id",), ("id", "line"), 1),
        (("id", "line"), ("line", "id"), 0),
        (("id",), ("uuid",), 1),
    ],
)
def test_changed_keys_are_recognised(recorded: tuple[str, ...], now: tuple[str, ...], changes: int) -> None:
    assert len(compare_keys(recorded, now)) == changes


def test_a_renamed_key_is_the_same_key() -> None:
    rename = SchemaChange(kind=ChangeKind.RENAMED, column="number", before="id")
    assert compare_keys(("id",), ("number",), (rename,)) == ()
    assert compare_keys(("id",), ("number",))


def test_evolve_adds_and_widens_and_reads_what_fits_in_the_stored_type() -> None:
    decision = decided(EVOLVE, changed(id="bigint", name=None, amount="decimal(8,2)", note="string"))
    assert {change.kind for change in decision.alter} == {ChangeKind.WIDENED, ChangeKind.ADDED}
    assert {c.name: c.delta_type for c in decision.schema.columns} == {
        "id": "bigint", "amount": "decimal(10,2)", "updated_at": "timestamp_ntz", "note": "string",
    }  # fmt: skip
    text = "\n".join(decision.notes)
    assert "cdc-ops backfill --pipeline shop --table shop.orders --columns note" in text
    assert "column name was dropped at the source" in text
    assert "stays decimal(10,2)" in text


def test_only_columns_that_the_run_does_not_fill_are_told_with_the_command_that_fills_them() -> None:
    note, kind = decided(EVOLVE, changed(note="string", kind="string"), filled=("NOTE",)).notes
    assert note.endswith("is new: it is added as string, and this run fills it")
    assert kind.endswith("to fill them: cdc-ops backfill --pipeline shop --table shop.orders --columns kind")


def test_decimals_that_grow_in_one_direction_and_shrink_in_the_other_are_stored_with_room_for_both() -> None:
    decision = decided(EVOLVE, changed(amount="decimal(9,4)"))
    column = decision.schema.column("amount")
    assert column is not None
    assert column.delta_type == "decimal(12,4)"


@pytest.mark.parametrize("policy", [EVOLVE, FREEZE, FAIL])
@pytest.mark.parametrize("now", [changed(amount="double"), changed(name="binary"), changed(id="string")], ids=["double", "binary", "key"])
def test_another_type_stops_the_table_under_every_policy_and_names_both_types_and_the_ways_out(
    policy: SchemaPolicy, now: TableSchema
) -> None:
    with pytest.raises(SchemaChangedError, match="retyped") as caught:
        decided(policy, now)
    assert "is stored as" in caught.value.why
    assert "resync --pipeline shop --table shop.orders --mode full" in caught.value.next
    assert "except_column_list" in caught.value.next


@pytest.mark.parametrize("policy", [EVOLVE, FREEZE, FAIL])
def test_changed_keys_stop_the_table_under_every_policy(policy: SchemaPolicy) -> None:
    with pytest.raises(SchemaChangedError, match=r"keys changed from \(id\) to \(id, name\)") as caught:
        decided(policy, changed(), keys=("id", "name"), recorded=Recorded(keys=("id",)))
    assert "--mode full" in caught.value.next


def test_freeze_leaves_new_columns_out_and_says_so_each_time() -> None:
    now = changed(note="string", name=None, amount="decimal(8,2)")
    for recorded in (Recorded(), Recorded(keys=("id",), fingerprint=now.fingerprint)):
        decision = decided(FREEZE, now, recorded=recorded)
        assert decision.alter == ()
        assert [c.name for c in decision.schema.columns] == ["id", "amount", "updated_at"]
        assert decision.schema.columns[1].delta_type == "decimal(10,2)"
        assert any("note" in text and "not copied" in text for text in decision.notes)


def test_freeze_stops_where_values_outgrow_the_stored_type_or_a_needed_column_is_new() -> None:
    with pytest.raises(SchemaChangedError, match="amount widened"):
        decided(FREEZE, changed(amount="decimal(20,2)"))
    now = changed(line="int")
    with pytest.raises(SchemaChangedError, match="line added"):
        decide(SchemaSettings(pipeline="shop", policy=FREEZE), now, compare_columns(STORED, now), Recorded(), ("id", "line"))


@pytest.mark.parametrize("now", [changed(note="string"), changed(name=None), changed(id="bigint"), changed(id="smallint")])
def test_fail_stops_at_any_change_until_it_is_known(now: TableSchema) -> None:
    with pytest.raises(SchemaChangedError) as caught:
        decided(FAIL, now)
    assert "schema_changes: evolve" in caught.value.next


def test_fail_goes_on_with_changes_that_a_commit_has_recorded() -> None:
    now = changed(name=None)
    assert decided(FAIL, now, recorded=Recorded(fingerprint=now.fingerprint)).notes == ()


def test_evolve_reports_what_stays_different_once() -> None:
    now = changed(name=None)
    assert decided(EVOLVE, now).notes
    assert decided(EVOLVE, now, recorded=Recorded(fingerprint=now.fingerprint)).notes == ()


def test_a_frozen_read_drifts_when_a_column_is_gone_or_read_differently_and_not_when_a_text_grows() -> None:
    frozen = changed()
    assert drift(frozen, changed(note="string")) == ()
    assert drift(frozen, changed(name=None)) == ("name is gone",)
    assert drift(frozen, changed(amount="decimal(12,4)")) == ("amount changed from decimal(10,2) to decimal(12,4)",)
    longer = tuple(
        Column(name="name", source_type="varchar(99)", delta_type="string", nullable=True, expression="name") if c.name == "name" else c
        for c in frozen.columns
    )
    assert drift(frozen, TableSchema(table=TABLE, columns=longer, primary_key=("id",))) == ()


def test_only_columns_keeps_the_order_of_the_table() -> None:
    assert [c.name for c in only_columns(changed(), ("AMOUNT", "id")).columns] == ["id", "amount"]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("int", "bigint", True),
        ("bigint", "decimal(20,0)", True),
        ("date", "timestamp_ntz", True),
        ("timestamp_ntz", "date", False),
        ("timestamp", "timestamp_ntz", False),
        ("int", "timestamp", False),
    ],
)
def test_a_watermark_outlives_a_change_of_its_columns_type_only_where_it_stays_the_same_position(
    before: str, now: str, expected: bool
) -> None:
    assert keeps_position(before, now) is expected
