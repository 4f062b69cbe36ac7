"""One statement per operation, and text that cannot become SQL."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core.apply.apply_spec import ApplyMode, Landing
from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType
from cdc_ops.core.operation.merging.merge_plan import keys_condition, plan_merge, spark_literal
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.results import KeyRange, Manifest
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.core.text import quoted
from cdc_ops.errors import NullKeyError
from tests.operations import operation_with, with_fields

TABLE = TableName(schema="shop", name="orders")
COLUMNS = tuple(
    Column(name=name, source_type="int", delta_type="int", nullable=False, expression=f"`{name}`") for name in ("a", "b", "note")
)
SPEC = operation_with(
    pipeline="p",
    table=TABLE,
    op_seq=1,
    operation_id="id",
    run_id="r",
    kind=OperationKind.INCREMENT,
    generation=1,
    planned_at=datetime(2026, 1, 1, tzinfo=UTC),
    path="",
    staging="",
    schema=TableSchema(table=TABLE, columns=COLUMNS, primary_key=("a", "b")),
    keys=("a", "b"),
    cursor=Cursor(columns=(CursorColumn(name="a", type=CursorType.INTEGER),)),
    slices=(),
    mode=ApplyMode.MERGE,
    landing=Landing.STAGED,
)
RANGES = (KeyRange(column="a", low="1", high="9"),)


def manifest(**parts: Any) -> Manifest:
    return Manifest.of(operation_id="id", attempt="1", rows=3, bytes=9, schema_fingerprint="f", key_ranges=RANGES, **parts)


def test_the_condition_joins_all_keys_and_prunes_by_literals() -> None:
    assert plan_merge(SPEC, manifest()).condition == "t.`a` = s.`a` AND t.`b` = s.`b` AND t.`a` BETWEEN 1 AND 9"


def test_without_a_landing_nothing_is_pruned() -> None:
    plan = plan_merge(with_fields(SPEC, mode=ApplyMode.APPEND, landing=Landing.DIRECT), None)
    assert (plan.mode, plan.prune, plan.columns) == (ApplyMode.APPEND, (), ("a", "b", "note"))


def test_where_missing_rows_are_deleted_nothing_is_pruned_away_from_the_delete() -> None:
    plan = plan_merge(with_fields(SPEC, delete_missing_where="t.`a` IN (1)"), manifest())
    assert (plan.prune, plan.delete_missing_where) == ((), "t.`a` IN (1)")


def test_rows_without_a_key_are_refused_with_their_number() -> None:
    with pytest.raises(NullKeyError, match=r"2 rows of shop\.orders have NULL in key columns a, b"):
        plan_merge(SPEC, manifest(null_keys=2))


@given(st.text())
def test_a_quoted_name_ends_where_it_should(name: str) -> None:
    inner = re.fullmatch(r"`((?:[^`]|``)*)`", quoted(name), re.DOTALL)
    assert inner is not None
    assert inner[1].replace("``", "`") == name


@given(st.text())
def test_a_literal_ends_where_it_should(text: str) -> None:
    inner = re.fullmatch(r"CAST\('((?:[^'\\]|\\.)*)' AS string\)", spark_literal("string", text), re.DOTALL)
    assert inner is not None
    assert re.sub(r"\\(.)", r"\1", inner[1], flags=re.DOTALL) == text


def test_one_key_column_becomes_a_list() -> None:
    assert keys_condition(("id",), ("int",), (("1",), ("2",))) == "t.`id` IN (CAST('1' AS int), CAST('2' AS int))"


def test_several_key_columns_stay_together_row_by_row() -> None:
    assert keys_condition(("a", "b"), ("int", "string"), (("1", "x"), ("2", "y"))) == (
        "((t.`a` = CAST('1' AS int) AND t.`b` = CAST('x' AS string)) OR (t.`a` = CAST('2' AS int) AND t.`b` = CAST('y' AS string)))"
    )


def test_a_row_with_too_few_key_values_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        keys_condition(("a", "b"), ("int", "int"), (("1",),))


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"approximate_rows": 9}, True),
        ({"indexes": (("b",),)}, True),
        ({"columns": tuple(replace(column, nullable=True) for column in COLUMNS)}, True),
        ({"primary_key": ("a",)}, False),
        ({"columns": COLUMNS[:2]}, False),
        ({"columns": COLUMNS[::-1]}, False),
        ({"columns": (replace(COLUMNS[0], delta_type="bigint"), *COLUMNS[1:])}, False),
        ({"columns": (replace(COLUMNS[0], expression="CAST(`a` AS CHAR)"), *COLUMNS[1:])}, False),
    ],
)
def test_the_fingerprint_changes_with_what_is_read_or_stored_and_with_nothing_else(change: dict[str, Any], same: bool) -> None:
    assert (replace(SPEC.source.schema, **change).fingerprint == SPEC.source.schema.fingerprint) is same


def test_keys_of_bytes_are_looked_up_in_the_lake_as_the_bytes_that_their_digits_stand_for() -> None:
    assert keys_condition(("k",), ("binary",), (("6b",), ("0x00fF",), ("\\x0a",), ("",))) == "t.`k` IN (X'6b', X'00fF', X'0a', X'')"
    assert keys_condition(("id", "k"), ("int", "binary"), (("1", "6b"),)) == "((t.`id` = CAST('1' AS int) AND t.`k` = X'6b'))"
    assert keys_condition(("k",), ("string",), (("6b",),)) == "t.`k` IN (CAST('6b' AS string))"
