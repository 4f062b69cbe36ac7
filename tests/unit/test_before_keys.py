"""Changed keys: what is read to learn which old keys are gone, and which settings make no sense."""

from dataclasses import replace
from typing import cast

import pytest

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.schema.collated_keys import PREFIX as STANDS_FOR
from cdc_ops.core.schema.collated_keys import with_key_columns
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.errors import SourceTableError
from cdc_ops.sources.base import Source
from cdc_ops.sources.postgres.dialect import PostgresDialect
from cdc_ops.sources.sql.dialect import Dialect
from cdc_ops.steps.table.columns.previous_keys import before_columns
from tests.lake_case import TABLE, Case, schema
from tests.operations import with_fields

COLUMNS = schema(
    ("id", "bigint"), ("line", "int"), ("old_id", "bigint"), ("old_line", "int"), ("price", "decimal(9,2)"), ("was", "decimal(9,4)")
)


class Asked:
    """The part of a source that is asked."""

    def moved_from(self, table: TableSchema, keys: tuple[str, ...], before: tuple[str, ...]) -> str:
        return Dialect().moved_from(table.table, keys, before)


SOURCE = cast(Source, Asked())


def test_the_old_key_is_brought_only_where_no_row_has_it() -> None:
    [column] = before_columns(SOURCE, COLUMNS, ("id",), ("old_id",))
    assert column.expression == (
        "CASE WHEN (`shop`.`orders`.`old_id` IS NOT NULL) AND NOT EXISTS (SELECT 1 FROM `shop`.`orders` AS cdc_other"
        " WHERE cdc_other.`id` = COALESCE(`shop`.`orders`.`old_id`, `shop`.`orders`.`id`)) THEN COALESCE(old_id, id) END"
    )
    assert PostgresDialect().moved_from(TABLE, ("id",), ("old_id",)).startswith('("shop"."orders"."old_id" IS NOT NULL) AND NOT EXISTS')


def test_of_a_key_of_several_columns_each_may_have_stayed() -> None:
    first, second = before_columns(SOURCE, COLUMNS, ("id", "line"), ("old_id", "old_line"))
    assert "old_id` IS NOT NULL OR `shop`.`orders`.`old_line` IS NOT NULL" in first.expression
    assert second.expression.endswith("THEN COALESCE(old_line, line) END")


@pytest.mark.parametrize(
    ("keys", "before", "why"),
    [
        (("id",), ("old_id", "old_line"), "names 2 columns, and the keys are id"),
        (("id",), ("odl_id",), r"does not copy a column 'odl_id'. Did you mean 'old_id'\?\n"),
        (("id",), ("old_line",), "'old_line' is int, and key column 'id' is bigint"),
        (("price",), ("was",), r"'was' is decimal\(9,4\), and key column 'price' is decimal\(9,2\)"),
    ],
)
def test_a_column_that_cannot_hold_an_old_key_is_refused(keys: tuple[str, ...], before: tuple[str, ...], why: str) -> None:
    with pytest.raises(SourceTableError, match=why):
        before_columns(SOURCE, COLUMNS, keys, before)


def test_a_loosely_compared_key_is_looked_for_as_the_lake_stores_it() -> None:
    columns = tuple(
        replace(c, source_type="varchar(9)", loose="ci", normal=f"weight({c.name})") for c in schema(("id", ""), ("old_id", "")).columns
    )
    loose = with_key_columns(replace(COLUMNS, columns=columns), ("id",))
    [column] = before_columns(SOURCE, loose, (f"{STANDS_FOR}id",), ("old_id",))
    assert (column.expression[-45:], column.delta_type) == ("THEN COALESCE(weight(old_id), weight(id)) END", "string")
    other = replace(loose, columns=tuple(replace(c, loose="bin") if c.name == "old_id" else c for c in loose.columns))
    with pytest.raises(SourceTableError, match="is not compared like key column 'id'"):
        before_columns(SOURCE, other, (f"{STANDS_FOR}id",), ("old_id",))


def test_old_keys_are_read_for_merges_of_whole_rows_only() -> None:
    operation = Case(root="x").operation(1, before=before_columns(SOURCE, COLUMNS, ("id",), ("old_id",)))
    assert operation.reads_before
    assert operation.read_schema.names == (*operation.source.schema.names, "__cdc_before_0")
    for other in (
        with_fields(operation, mode=ApplyMode.APPEND),
        with_fields(operation, update_only=("name",)),
        with_fields(operation, before=()),
    ):
        assert not other.reads_before
        assert other.read_schema is other.source.schema
