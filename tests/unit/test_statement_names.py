"""Names that look like SQL, in statements on Delta tables and in lists: each is found again as it is."""

from dataclasses import replace
from itertools import product

import pytest
import sqlglot
from sqlglot import exp

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.apply.metadata_columns import START, MetadataColumns
from cdc_ops.core.operation.merging.merge_plan import FROM, GONE, REUSED, MergePlan, keys_condition, older_than, position_literal
from cdc_ops.core.operation.merging.metadata_values import MetadataValues
from cdc_ops.core.operation.results import KeyRange
from cdc_ops.core.schema.tables import TableName, folder_name, name_of_folder
from cdc_ops.core.text import split_list
from cdc_ops.lake.merge.sql import merge_statement, versions_statement
from cdc_ops.lake.sql_text import path_name, text_literal
from cdc_ops.lake.table.columns import column_list, listed_columns

KEYS = ("k`1", "größe, b = s.c")
VALUES = ("a.b", "select", ") THEN DELETE --", "o'clock \\", "*", " ")
OWN = ("del`eted", "pre sent", "seq;uence", "marked.as")
STAMPS = MetadataColumns(op="o`p", synced_at="sync at", operation="op.no", deleted_at="gone, at")
"""Columns of ours, which may be called anything too."""
TARGET = path_name("/lake/a`b c/d.e")
PLAN = MergePlan(
    mode=ApplyMode.MERGE,
    keys=KEYS,
    columns=(*KEYS, *VALUES),
    prune=(KeyRange(column=KEYS[0], low="1", high="9"),),
    deleted_flag=OWN[0],
    metadata=MetadataValues(own=STAMPS, at="TIMESTAMP '2026-01-01'", operation=1),
)


def identifiers(sql: str) -> set[str]:
    return {found.name for found in sqlglot.parse_one(sql, dialect="databricks").find_all(exp.Identifier)}


@pytest.mark.parametrize(("present", "sequence", "marker", "only"), list(product([False, True], repeat=4)))
def test_a_merge_has_the_names_of_its_plan_and_no_others(present: bool, sequence: bool, marker: bool, only: bool) -> None:
    plan = replace(
        PLAN,
        present=OWN[1] if present else "",
        sequence=OWN[2] if sequence else "",
        deleted_column=OWN[3] if marker else "",
        metadata=replace(PLAN.metadata, marker=OWN[3] if marker else ""),
        columns=(*PLAN.columns, *(OWN[3:] if marker else ())),
        update_only=VALUES[:2] if only else (),
        delete_missing_where=keys_condition(KEYS, ("int", "string"), (("1", "it's \\"),)) + f" OR {older_than(OWN[2], 'array(1L)')}",
        truncates=(position_literal((1, 2)),),
    )
    found = identifiers(merge_statement(TARGET, "batch", plan))
    used = {*KEYS, *(VALUES[:2] if only else VALUES), OWN[0], OWN[2], *(OWN[1:2] if present else ()), *(OWN[3:] if marker else ())}
    used |= {STAMPS.synced_at, STAMPS.operation, *((STAMPS.deleted_at,) if marker else ()), *((STAMPS.op,) if marker or not only else ())}
    assert found == used | {"delta", "/lake/a`b c/d.e", "t", "s", "batch"}


def test_a_merge_of_versions_has_the_names_of_its_plan_and_no_others() -> None:
    found = identifiers(versions_statement(TARGET, "batch", replace(PLAN, versions=True)))
    assert found == {
        *KEYS,
        *VALUES,
        STAMPS.op,
        STAMPS.synced_at,
        STAMPS.operation,
        REUSED,
        FROM,
        GONE,
        START,
        "delta",
        "/lake/a`b c/d.e",
        "t",
        "s",
        "batch",
    }


@pytest.mark.parametrize("keys", [KEYS, KEYS[:1]])
def test_keys_are_looked_up_by_their_names_and_values_stay_literals(keys: tuple[str, ...]) -> None:
    rows = (("it's", "a' OR 'x' = 'x"), ("\\", "\\' OR 1 = 1 --"))
    parsed = sqlglot.parse_one(keys_condition(keys, ("string",) * len(keys), tuple(row[: len(keys)] for row in rows)), dialect="databricks")
    assert {found.name for found in parsed.find_all(exp.Identifier)} == {"t", *keys}
    assert {found.name for found in parsed.find_all(exp.Literal)} == {value for row in rows for value in row[: len(keys)]}


@pytest.mark.parametrize("value", ["it's", "\\", "\\'", "a\\nb", "', x = '", "größe"])
def test_a_text_literal_is_its_value(value: str) -> None:
    [literal] = sqlglot.parse_one(f"SELECT {text_literal(value)}", dialect="databricks").find_all(exp.Literal)
    assert literal.name == value


@pytest.mark.parametrize("names", [[], ["id"], ["größe", "имя", "日本"], ["a,b", "c`d", "e.f", " g ", "``", "`,`", "select", "x'y\"z"]])
def test_a_list_of_columns_is_read_as_it_was_written(names: list[str]) -> None:
    assert listed_columns(column_list(names)) == names


def test_a_list_of_columns_may_have_been_written_without_backticks() -> None:
    assert listed_columns("id, updated_at,`a``b`,größe") == ["id", "updated_at", "a`b", "größe"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("4711", ("4711",)),
        ("a, b,c ", ("a", "b", "c")),
        ("", ("",)),
        ('"a, b", 5', ("a, b", "5")),
        ('"say ""yes"""', ('say "yes"',)),
        ('5" wide', ('5" wide',)),
        ('" leading", " both " ,plain ', (" leading", " both ", "plain")),
        ('"', ('"',)),
        ("a,", ("a", "")),
    ],
)
def test_a_list_on_the_command_line_may_hold_commas_and_blanks_in_quotes(text: str, parts: tuple[str, ...]) -> None:
    assert split_list(text) == parts


@pytest.mark.parametrize("name", ["orders", "Größe 1", "имя", "a.b", "100%", "%zz", "#1", "~", "_x", ".x", "..."])
def test_the_folder_of_a_name_that_every_store_takes_is_the_name(name: str) -> None:
    assert folder_name(name) == name_of_folder(name) == name


@pytest.mark.parametrize("name", ["a/b", "../x", "..", ".", "{a,b}", "[x]", "a?", "*", "back\\slash", "a:b", "new\nline", "tab\t"])
def test_the_folder_of_any_other_name_has_no_sign_that_a_store_or_spark_takes_for_something_else(name: str) -> None:
    folder = folder_name(name)
    assert not set(folder) & set("/\\:*?[]{}\n\t")
    assert folder not in {".", ".."}
    assert name_of_folder(folder) == name
    assert TableName(schema=name, name=name).folder == f"{folder}/{folder}"


def test_a_folder_is_never_longer_than_file_systems_take_it() -> None:
    one, other = (folder_name("日" * 64 + "." + "本" * 64 + sign) for sign in "ab")
    assert one != other
    assert max(len(one.encode()), len(other.encode())) <= 255
    assert folder_name("日" * 64) == "日" * 64
