"""A watermark is read by the cursor that it was written for."""

import pytest

from cdc_ops import __version__
from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType
from cdc_ops.core.operation.protocol.commit_record import LakeHead, commit_record
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableConfig, TargetConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.errors import SchemaChangedError
from cdc_ops.steps.table.columns.schema_evolution import apply_schema_policy
from cdc_ops.steps.table.source_table import SourceTable
from tests.lake_case import CURSOR, PIPELINE, SCHEMA, SCHEMA_DDL, TABLE, Case
from tests.operations import changed

REQUEST = RunRequest(run_id="r", trigger="test", holder="r")
BY_ID = Cursor(columns=(CursorColumn(name="id", type=CursorType.INTEGER),))
WITHOUT = Cursor(columns=())


def source_table(cursor: Cursor, renamed: tuple[tuple[str, str], ...] = ()) -> SourceTable:
    pipeline = Pipeline(
        name=PIPELINE, source=SourceConfig(kind=SourceKind.MARIADB, connection="c"), target=TargetConfig(root="/l", staging="/s"), tables=()
    )
    config = TableConfig(pipeline=PIPELINE, table=TABLE, settings=TableSettings.of(renamed=renamed), path="/l/t")
    return SourceTable(pipeline=pipeline, config=config, schema=SCHEMA, keys=("id",), cursor=cursor, warnings=())


def head(cursor: tuple[str, ...] | None) -> LakeHead:
    record = commit_record(Case(root="x").operation(1, keys=("id",)), rows=0, package_version=__version__)
    return LakeHead(
        version=1, txn_version=1, record=changed(record, cursor=cursor), record_version=1, foreign_app_ids=(), columns=SCHEMA_DDL
    )


def test_a_commit_says_what_its_watermark_is_a_value_of() -> None:
    record = commit_record(Case(root="x").operation(1), rows=0, package_version=__version__)
    assert record.columns.cursor == tuple(column.name for column in CURSOR.columns)


@pytest.mark.parametrize("recorded", [("updated_at",), ("updated_at", "id"), ()])
def test_another_cursor_than_the_watermarks_stops_the_table(recorded: tuple[str, ...]) -> None:
    with pytest.raises(
        SchemaChangedError, match=r"The cursor of shop\.orders is now id; at the last commit (it was updated_at|there was none)"
    ):
        apply_schema_policy(source_table(BY_ID), head(recorded), REQUEST)


@pytest.mark.parametrize("recorded", [("updated_at",), ("UPDATED_AT", "id"), None])
def test_the_same_lead_goes_on_whatever_stands_behind_it(recorded: tuple[str, ...] | None) -> None:
    apply_schema_policy(source_table(CURSOR), head(recorded), REQUEST)


def test_a_renamed_cursor_column_is_the_same_cursor() -> None:
    apply_schema_policy(source_table(CURSOR, renamed=(("changed_at", "updated_at"),)), head(("changed_at",)), REQUEST)


def test_a_table_may_be_compared_as_a_whole_from_now_on() -> None:
    apply_schema_policy(source_table(WITHOUT), head(("updated_at",)), REQUEST)
