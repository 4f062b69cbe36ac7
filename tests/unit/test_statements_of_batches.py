"""Which statement a batch enters its table with."""

from dataclasses import replace
from typing import Any

import pytest

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.apply.metadata_columns import MetadataColumns
from cdc_ops.core.operation.merging.merge_plan import MergePlan
from cdc_ops.core.operation.merging.metadata_values import MetadataValues
from cdc_ops.core.operation.merging.statement import (
    LEAST_FILES,
    MOST_FILES,
    MOST_LITERALS,
    Statement,
    StoredTable,
    can_use_literals,
    choose_statement,
    key_condition,
)
from cdc_ops.core.operation.results import KeyRange

PLAN = MergePlan(mode=ApplyMode.MERGE, keys=("id",), columns=("id", "Name"))
TABLE = StoredTable(columns=(("id", "int"), ("name", "string")), deletion_vectors=True, files=12)
RANGES = (KeyRange(column="id", low="1", high="9"),)


EMPTY = replace(TABLE, files=0)


@pytest.mark.parametrize(
    "plan", [{}, {"deleted_flag": "gone"}, {"present": "names"}, {"sequence": "at"}, {"delete_missing_where": "t.id = 1"}], ids=str
)
def test_a_table_without_rows_is_inserted_into(plan: dict[str, Any]) -> None:
    changed = replace(EMPTY, deletion_vectors=False, change_feed=True, row_tracking=True)
    assert choose_statement(replace(PLAN, **plan), changed, one_row_per_key=False) == (Statement.INSERT, "")


def test_what_cannot_be_appended_is_chosen_for_as_ever() -> None:
    assert choose_statement(PLAN, EMPTY, one_row_per_key=True, appends=False)[0] is Statement.REPLACE
    assert choose_statement(PLAN, EMPTY, one_row_per_key=False, appends=False)[0] is Statement.MERGE


@pytest.mark.parametrize(
    ("plan", "table"),
    [
        ({"mode": ApplyMode.OVERWRITE}, {}),
        ({"columns": ("id", "Name", "more")}, {}),
        ({"versions": True}, {}),
        ({"update_only": ("Name",)}, {}),
        ({"metadata": MetadataValues(own=MetadataColumns(op="op"), at="NULL", operation=1)}, {}),
        ({}, {"partition_by": ("name",)}),
        ({}, {"columns": (*TABLE.columns, ("theirs", "string"))}),
        ({}, {"files": None}),
        ({}, {"files": 1}),
    ],
    ids=str,
)
def test_nothing_else_is_inserted_into(plan: dict[str, Any], table: dict[str, Any]) -> None:
    assert choose_statement(replace(PLAN, **plan), replace(EMPTY, **table), one_row_per_key=True)[0] is not Statement.INSERT


def test_whole_rows_replace_those_with_their_keys() -> None:
    assert choose_statement(PLAN, TABLE, one_row_per_key=True) == (Statement.REPLACE, "")


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ({"mode": ApplyMode.OVERWRITE}, "the whole table is written"),
        ({"versions": True}, "a key may have several rows"),
        ({"deleted_flag": "gone"}, "rows are deleted"),
        ({"delete_missing_where": "t.id = 1"}, "rows are deleted"),
        ({"update_only": ("Name",)}, "only some columns are set"),
        ({"present": "has"}, "only some columns are set"),
        ({"sequence": "seq"}, "older rows are left out"),
        ({"metadata": MetadataValues(own=MetadataColumns(op="op"), at="NULL", operation=1)}, "rows say whether they were inserted"),
        ({"columns": ("id",)}, "the table keeps the column name"),
    ],
)
def test_a_batch_is_merged_where_a_row_of_the_table_has_a_say(plan: dict[str, Any], why: str) -> None:
    assert choose_statement(replace(PLAN, **plan), TABLE, one_row_per_key=True) == (Statement.MERGE, why)


@pytest.mark.parametrize("plan", [{"deleted_flag": "gone"}, {"sequence": "seq"}, {"deleted_flag": "gone", "sequence": "seq"}])
def test_tasks_delete_rows_and_keep_an_order(plan: dict[str, Any]) -> None:
    ordered = replace(PLAN, **plan)
    for table in (TABLE, EMPTY):
        assert choose_statement(ordered, table, one_row_per_key=False, by_tasks=True) == (Statement.REPLACE, "")


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ({"versions": True}, "a key may have several rows"),
        ({"delete_missing_where": "t.id = 1"}, "rows are deleted"),
        ({"deleted_flag": "gone", "deleted_column": "_deleted"}, "deleted rows stay, and are marked"),
        ({"update_only": ("Name",)}, "only some columns are set"),
        ({"present": "has"}, "only some columns are set"),
        ({"columns": ("id",)}, "the table keeps the column name"),
    ],
)
def test_tasks_set_whole_rows_only(plan: dict[str, Any], why: str) -> None:
    assert choose_statement(replace(PLAN, **plan), TABLE, one_row_per_key=True, by_tasks=True) == (Statement.MERGE, why)


def test_what_tasks_cannot_replace_is_inserted_into_a_table_without_rows_all_the_same() -> None:
    told = replace(EMPTY, change_feed=True)
    assert choose_statement(PLAN, told, one_row_per_key=True, by_tasks=True) == (Statement.INSERT, "")


def test_a_batch_that_may_have_a_key_twice_is_merged_which_would_notice() -> None:
    assert choose_statement(PLAN, TABLE, one_row_per_key=False) == (Statement.MERGE, "a key may have several rows")


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"deletion_vectors": False}, "the table has no deletion vectors"),
        ({"change_feed": True}, "the table has a change data feed"),
        ({"row_tracking": True}, "the table tracks its rows"),
    ],
)
def test_a_table_that_is_told_of_updates_is_merged_into(table: dict[str, Any], why: str) -> None:
    assert choose_statement(PLAN, replace(TABLE, **table), one_row_per_key=True) == (Statement.MERGE, why)


def test_of_a_table_of_many_files_those_are_opened_that_literals_leave() -> None:
    large = replace(TABLE, files=MOST_FILES + 1)
    assert choose_statement(replace(PLAN, prune=RANGES), large, one_row_per_key=True)[0] is Statement.MERGE
    assert choose_statement(PLAN, large, one_row_per_key=True)[0] is Statement.REPLACE  # each file is opened anyway
    assert choose_statement(replace(PLAN, prune=RANGES), replace(TABLE, files=None), one_row_per_key=True)[0] is Statement.REPLACE


LARGE = replace(TABLE, files=LEAST_FILES)


@pytest.mark.parametrize("kind", ["tinyint", "smallint", "int", "bigint"])
def test_few_keys_of_a_large_table_are_looked_for_as_literals(kind: str) -> None:
    table = replace(LARGE, columns=(("ID", kind), ("name", "string")))
    assert can_use_literals(PLAN, table, 1)
    assert can_use_literals(PLAN, table, MOST_LITERALS)


@pytest.mark.parametrize(
    ("keys", "columns", "files", "rows"),
    [
        (("id",), TABLE.columns, LEAST_FILES, MOST_LITERALS + 1),
        (("id",), TABLE.columns, LEAST_FILES, 0),
        (("id",), TABLE.columns, LEAST_FILES - 1, 10),
        (("id",), TABLE.columns, None, 10),
        (("id", "name"), TABLE.columns, LEAST_FILES, 10),
        *(
            (("id",), (("id", kind),), LEAST_FILES, 10)
            for kind in ("string", "date", "decimal(20,0)", "timestamp", "timestamp_ntz", "binary")
        ),
    ],
)
def test_other_keys_are_looked_for_by_a_join(keys: tuple[str, ...], columns: Any, files: int | None, rows: int) -> None:
    assert not can_use_literals(replace(PLAN, keys=keys), replace(LARGE, columns=columns, files=files), rows)


def test_a_batch_whose_literals_skip_files_is_replaced_in_a_table_of_any_number_of_files() -> None:
    large, plan = replace(TABLE, files=MOST_FILES + 1), replace(PLAN, prune=RANGES)
    assert choose_statement(plan, large, one_row_per_key=True, rows=MOST_LITERALS)[0] is Statement.REPLACE
    assert choose_statement(plan, large, one_row_per_key=True, rows=MOST_LITERALS + 1)[0] is Statement.MERGE


def test_the_condition_has_each_key_in_the_list_of_all_and_in_one_group() -> None:
    text = key_condition("t.id", "bigint", range(45, 0, -1))
    everything, _, groups = text.partition(" AND ")
    assert everything == f"t.id IN ({', '.join(f'{key}L' for key in range(1, 46))})"
    assert groups.count(" IN ") == 3
    assert [groups.count(f"{key}L") for key in (20, 21, 45)] == [1, 1, 1]
    assert key_condition("t.d", "tinyint", [-3, -3]) == "t.d IN (-3Y) AND (t.d IN (-3Y))"
