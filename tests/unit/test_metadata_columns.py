"""Metadata columns at the plan and in the text of a statement."""

from dataclasses import replace

import pytest

from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.apply.metadata_columns import MetadataColumns
from cdc_ops.core.apply.scd import LATEST
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.errors import ConfigError, SourceTableError
from cdc_ops.lake.merge.sql import merge_statement
from tests.lake_case import Case, schema
from tests.unit.test_storing import config, decided, pipeline, stored_as

OWN = MetadataColumns(op="op", synced_at="at", operation="number", deleted_at="gone_at")


def test_a_statement_says_of_each_row_what_it_does_to_it() -> None:
    operation = Case(root="/r").operation(7, stored_as=replace(LATEST, own=OWN), deleted_column="_deleted", delete_missing_where="true")
    text = merge_statement("t", "s", plan_merge(operation, None))
    at = f"TIMESTAMP '{operation.plan.planned_at:%Y-%m-%d %H:%M:%S.%f}Z'"
    since = f"IF(t.`_deleted`, t.`gone_at`, {at})"
    update, insert, gone = text.splitlines()[1:]
    marked = "s.`_deleted`"
    assert update.endswith(f"t.`op` = IF({marked}, 'd', 'u'), t.`at` = {at}, t.`number` = 7L, t.`gone_at` = IF({marked}, {since}, NULL)")
    assert insert.endswith(f", IF({marked}, 'd', 'i'), {at}, 7L, IF({marked}, {at}, NULL))")
    assert "`op`, `at`, `number`, `gone_at`)" in insert
    assert "SET t.`_deleted` = TRUE, t.`op` = IF(TRUE, 'd', 'u')" in gone


def test_some_columns_of_a_row_say_nothing_of_its_delete() -> None:
    operation = Case(root="/r").operation(7, stored_as=replace(LATEST, own=OWN), deleted_column="_deleted", update_only=("name",))
    text = merge_statement("t", "s", plan_merge(operation, None))
    assert "gone_at" not in text
    assert "t.`op`" not in text
    assert "t.`number` = 7L" in text


def test_without_names_a_statement_writes_what_it_wrote_before() -> None:
    plan = plan_merge(Case(root="/r").operation(7), None)
    assert plan.metadata.columns == ()
    assert plan.batch_columns == plan.columns


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (MetadataColumns(op="X", synced_at="x"), "names two columns 'x'"),
        (MetadataColumns(op="__start_at"), "names two columns '__start_at'"),
        (MetadataColumns(op="what was done"), "letters, digits and _"),
        (MetadataColumns(deleted=""), "need a name"),
    ],
)
def test_names_that_cannot_be_are_refused(own: MetadataColumns, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        decided(metadata_columns=own)


def test_a_column_of_the_source_is_no_metadata_column() -> None:
    with pytest.raises(SourceTableError, match="or choose another name in 'metadata_columns'"):
        stored_as(pipeline(), config(metadata_columns=OWN), schema(("id", "bigint"), ("At", "string")), ("id",))
    assert decided(metadata_columns=OWN, deletes=Deletes.SOFT).columns("_deleted")[0] == ("gone_at", "timestamp")
