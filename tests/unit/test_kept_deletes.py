"""Soft deletes, as far as they are decided without Spark: what the plan alters, keeps and refuses, and what the statement says."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import cdc_ops
from cdc_ops.core.apply.deletes import Deletes, source_columns
from cdc_ops.core.apply.metadata_columns import DEFAULT_COLUMNS, DELETED_COLUMN
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.core.operation.protocol.commit_record import LakeHead, commit_record
from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableConfig, TargetConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.schema_evolution import SchemaPolicy
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.errors import RequestError, SchemaChangedError, SourceTableError
from cdc_ops.lake.merge.sql import merge_statement
from cdc_ops.steps.table.columns.schema_evolution import apply_schema_policy
from cdc_ops.steps.table.soft_deletes import with_stored_deletes
from cdc_ops.steps.table.source_table import SourceTable
from tests.lake_case import CURSOR, PIPELINE, SCHEMA, SCHEMA_DDL, TABLE, Case, schema
from tests.operations import with_fields

RUN = RunRequest(run_id="r", trigger="test", holder="r")
FULL = replace(RUN, kind=RunKind.RESYNC, mode=ResyncMode.FULL)
MARKED = (*SCHEMA_DDL, (DELETED_COLUMN, "boolean"))


def source_table(deletes: Deletes, columns: TableSchema = SCHEMA, keys: tuple[str, ...] = ("id",), policy: str = "evolve") -> SourceTable:
    pipeline = Pipeline(
        name=PIPELINE, source=SourceConfig(kind=SourceKind.MARIADB, connection="c"), target=TargetConfig(root="/l", staging="/s"), tables=()
    )
    settings = TableSettings.of(deletes=deletes, schema_changes=SchemaPolicy(policy))
    config = TableConfig(pipeline=PIPELINE, table=TABLE, settings=settings, path="/l/t")
    return SourceTable(pipeline=pipeline, config=config, schema=columns, keys=keys, cursor=CURSOR, warnings=())


def head(columns: tuple[tuple[str, str], ...], *, deleted_column: str = "", recorded: bool = True) -> LakeHead:
    operation = Case(root="x").operation(1, deleted_column=deleted_column, source_fingerprint=SCHEMA.fingerprint)
    record = commit_record(operation, rows=0, package_version="1") if recorded else None
    return LakeHead(version=1, txn_version=1, record=record, record_version=1, foreign_app_ids=(), columns=columns)


def statement(**parts: object) -> str:
    flag = str(parts.pop("deleted_flag", ""))
    operation = Case(root="x").operation(1, schema=schema(("id", "bigint"), ("name", "string")), deleted_column=DELETED_COLUMN, **parts)
    return merge_statement("t", "s", replace(plan_merge(operation, None), deleted_flag=flag))


def test_every_row_of_a_batch_is_written_with_its_mark() -> None:
    assert statement(delete_where="name = 'x'") == (
        "MERGE INTO t t USING s s ON t.`id` = s.`id`\n"
        "WHEN MATCHED THEN UPDATE SET t.`name` = s.`name`, t.`_deleted` = s.`_deleted`\n"
        "WHEN NOT MATCHED THEN INSERT (`id`, `name`, `_deleted`) VALUES (s.`id`, s.`name`, s.`_deleted`)"
    )


def test_of_a_row_that_a_comparison_finds_gone_only_the_mark_is_set() -> None:
    lines = statement(deleted_flag="gone").splitlines()
    assert lines[1] == "WHEN MATCHED AND s.`gone` THEN UPDATE SET t.`_deleted` = TRUE"
    assert lines[3].startswith("WHEN NOT MATCHED AND NOT s.`gone` THEN INSERT")


def test_rows_that_a_resync_of_keys_does_not_find_are_marked_once() -> None:
    assert statement(delete_missing_where="t.`id` IN (1)").splitlines()[-1] == (
        "WHEN NOT MATCHED BY SOURCE AND (t.`id` IN (1)) AND NOT COALESCE(t.`_deleted`, FALSE) THEN UPDATE SET t.`_deleted` = TRUE"
    )


@pytest.mark.parametrize("policy", ["evolve", "freeze", "fail"])
def test_a_hard_table_gets_the_column_whatever_its_policy_for_the_sources_changes(policy: str) -> None:
    planned = apply_schema_policy(source_table(Deletes.SOFT, policy=policy), head(SCHEMA_DDL), RUN)
    assert [(change.column, change.after) for change in planned.changes] == [(DELETED_COLUMN, "boolean")]
    assert "backfill --pipeline shop --table shop.orders --columns _deleted" in planned.notes[-1]
    assert planned.schema == SCHEMA


def test_a_run_that_fills_a_new_column_for_all_rows_does_not_name_the_command_that_would() -> None:
    fills = replace(RUN, kind=RunKind.BACKFILL, columns=(DELETED_COLUMN,))
    [note] = apply_schema_policy(source_table(Deletes.SOFT), head(SCHEMA_DDL), fills).notes
    assert note.endswith("it is added as boolean, and this run fills it")
    day = datetime(2026, 1, 1, tzinfo=UTC)
    of_a_day = replace(fills, since=day, until=day + timedelta(days=1))
    [note] = apply_schema_policy(source_table(Deletes.SOFT), head(SCHEMA_DDL), of_a_day).notes
    assert note.endswith("--columns _deleted"), "rows outside the range keep NULL"


@pytest.mark.parametrize("recorded", [True, False])
def test_a_soft_table_is_altered_no_further_and_its_mark_is_no_dropped_column(recorded: bool) -> None:
    planned = apply_schema_policy(source_table(Deletes.SOFT), head(MARKED, deleted_column=DELETED_COLUMN, recorded=recorded), RUN)
    assert (planned.changes, planned.notes) == ((), ())


@pytest.mark.parametrize("recorded", [True, False])
def test_from_soft_to_hard_is_the_way_of_a_full_resync_only(recorded: bool) -> None:
    soft = head(MARKED, deleted_column=DELETED_COLUMN, recorded=recorded)
    with pytest.raises(SchemaChangedError, match="keeps deleted rows") as caught:
        apply_schema_policy(source_table(Deletes.HARD), soft, RUN)
    assert "resync --pipeline shop --table shop.orders --mode full" in caught.value.next
    assert apply_schema_policy(source_table(Deletes.HARD), soft, FULL).schema == SCHEMA
    with pytest.raises(SchemaChangedError, match="deletes: ignore"):
        apply_schema_policy(source_table(Deletes.IGNORE), soft, RUN)


def test_a_sources_own_column_of_that_name_is_no_mark_while_deletes_are_hard() -> None:
    own = schema(*MARKED)
    apply_schema_policy(source_table(Deletes.HARD, own), head(MARKED), RUN)
    with pytest.raises(SourceTableError, match="column '_deleted' of its own"):
        apply_schema_policy(source_table(Deletes.SOFT, own), head(MARKED), RUN)


def test_without_keys_nothing_can_be_marked() -> None:
    for kept in (Deletes.SOFT, Deletes.IGNORE):
        with pytest.raises(SourceTableError, match=f"has no keys.*deletes: {kept}"):
            apply_schema_policy(source_table(kept, keys=()), None, RUN)


def test_a_full_resync_keeps_types_that_hold_what_is_kept() -> None:
    stored = (("id", "bigint"), ("name", "string"), ("amount", "decimal(12,2)"), ("updated_at", "timestamp"))
    assert apply_schema_policy(source_table(Deletes.HARD), head(stored), FULL).schema == SCHEMA
    for deletes in (Deletes.SOFT, Deletes.IGNORE):
        kept = apply_schema_policy(source_table(deletes), head(stored), FULL).schema.column("amount")
        assert kept is not None
        assert kept.delta_type == "decimal(12,2)"


def test_a_full_resync_that_could_not_keep_deleted_rows_is_refused() -> None:
    stored = (("id", "bigint"), ("name", "date"), ("amount", "decimal(10,2)"), ("updated_at", "timestamp"))
    with pytest.raises(SchemaChangedError, match="cannot keep its deleted rows: name retyped"):
        apply_schema_policy(source_table(Deletes.SOFT), head(stored), FULL)
    with pytest.raises(SchemaChangedError, match="keys changed from \\(id\\) to \\(name\\)"):
        apply_schema_policy(source_table(Deletes.SOFT, keys=("name",)), head(SCHEMA_DDL), FULL)


def test_the_mark_can_be_filled_like_a_column_and_only_where_there_is_one() -> None:
    backfill = replace(RUN, kind=RunKind.BACKFILL, columns=(DELETED_COLUMN,))
    apply_schema_policy(source_table(Deletes.SOFT), head(SCHEMA_DDL), backfill)
    with pytest.raises(Exception, match="no column '_deleted'"):
        apply_schema_policy(source_table(Deletes.HARD), head(SCHEMA_DDL), backfill)


def test_what_was_frozen_before_the_table_kept_deleted_rows_keeps_them_too() -> None:
    soft, operation = head(MARKED, deleted_column=DELETED_COLUMN), Case(root="x").operation(2)
    assert with_stored_deletes(operation, soft).apply.deleted_column == DELETED_COLUMN
    assert with_stored_deletes(with_fields(operation, replaces_schema=True), soft).apply.deleted_column == ""
    assert with_stored_deletes(operation, head(SCHEMA_DDL)) is operation
    assert with_stored_deletes(operation, None) is operation


def test_rows_are_current_in_a_table_of_a_pipeline_only(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="No Delta table of a pipeline exists"):
        cdc_ops.current(cast(Any, None), str(tmp_path))


def test_the_mark_is_not_a_column_of_the_source() -> None:
    assert source_columns(MARKED, DELETED_COLUMN, [DEFAULT_COLUMNS]) == SCHEMA_DDL
    assert source_columns(MARKED, "", [DEFAULT_COLUMNS]) == MARKED


@pytest.mark.parametrize("setting", [{"apply_as_deletes": "`Gone` = 1"}, {"previous_key": ("gone",)}])
def test_a_column_that_a_setting_needs_is_not_frozen_out(setting: dict[str, Any]) -> None:
    added = source_table(Deletes.HARD, schema(*SCHEMA_DDL, ("gone", "int")), policy="freeze")
    assert apply_schema_policy(added, head(SCHEMA_DDL), RUN).schema.names == SCHEMA.names
    needed = replace(added, config=replace(added.config, settings=added.config.settings.changed(**setting)))
    with pytest.raises(SchemaChangedError, match="'freeze' does not follow: gone added"):
        apply_schema_policy(needed, head(SCHEMA_DDL), RUN)
