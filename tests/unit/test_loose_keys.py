"""Keys that the source compares loosely: when the lake gets a column for them, and what a change of the rule means."""

from dataclasses import replace

import pytest

from cdc_ops.core.operation.protocol.commit_record import LakeHead, commit_record
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableConfig, TargetConfig
from cdc_ops.core.pipeline.table_settings import Method, TableSettings
from cdc_ops.core.schema.collated_keys import alike, compare_rules, rules_of, source_names, with_key_columns
from cdc_ops.core.schema.schema_evolution import drift
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.errors import SchemaChangedError
from cdc_ops.sources.mysql.catalog import normal_text
from cdc_ops.steps.planning.warnings import key_warnings
from cdc_ops.steps.table.columns.schema_evolution import apply_schema_policy, rebase_on_current_columns
from cdc_ops.steps.table.source_table import SourceTable
from tests.lake_case import CURSOR, PIPELINE, TABLE, Case, schema

RUN = RunRequest(run_id="r", trigger="test", holder="r")
FULL = replace(RUN, kind=RunKind.RESYNC, mode=ResyncMode.FULL)
STORED = (("code", "string"), ("n", "int"), ("updated_at", "timestamp"))


def loose(collation: str = "general_ci", normal: str = "weight") -> TableSchema:
    plain = schema(*STORED, keys=("code",))
    code = replace(plain.columns[0], loose=collation, normal=f"{normal}(code, {collation})" if normal else "")
    return replace(plain, columns=(code, *plain.columns[1:]))


def source_table(columns: TableSchema) -> SourceTable:
    pipeline = Pipeline(
        name=PIPELINE, source=SourceConfig(kind=SourceKind.MARIADB, connection="c"), target=TargetConfig(root="/l", staging="/s"), tables=()
    )
    config = TableConfig(pipeline=PIPELINE, table=TABLE, settings=TableSettings(), path="/l/t")
    return SourceTable(pipeline=pipeline, config=config, schema=columns, keys=("code",), cursor=CURSOR, warnings=())


def head(columns: TableSchema, keys: tuple[str, ...]) -> LakeHead:
    record = commit_record(Case(root="x").operation(1, schema=columns, keys=keys), rows=0, package_version="1")
    stored = tuple((column.name, column.delta_type) for column in columns.columns)
    return LakeHead(version=1, txn_version=1, record=record, record_version=1, foreign_app_ids=(), columns=stored)


NORMALISED = with_key_columns(loose(), ("code",))


def test_a_new_table_and_a_new_generation_match_rows_as_the_source_does() -> None:
    for planned in (
        apply_schema_policy(source_table(loose()), None, RUN),
        apply_schema_policy(source_table(loose()), head(loose(), ("code",)), FULL),
    ):
        assert planned.keys == ("_key_code",)
        assert planned.source_keys == ("code",)
        assert planned.keys_are_primary
        column = planned.schema.column("_key_code")
        assert column is not None
        assert (column.expression, column.delta_type, column.normalises) == ("weight(code, general_ci)", "string", "code")


def test_only_tables_whose_rows_are_read_by_query_are_warned_of_spellings() -> None:
    """An event of a changed key names the old one too, as it was written: nothing is left under it."""
    read, new = source_table(loose()), TableState(pipeline=PIPELINE, table=TABLE)
    [warning] = key_warnings(read, new)
    assert "'code'" in warning
    followed = replace(read, config=replace(read.config, settings=TableSettings.of(method=Method.LOG)))
    assert key_warnings(followed, new) == ()


def test_a_table_that_was_made_without_goes_on_without() -> None:
    planned = apply_schema_policy(source_table(loose()), head(loose(), ("code",)), RUN)
    assert (planned.keys, planned.schema.names, planned.notes) == (("code",), ("code", "n", "updated_at"), ())


def test_a_table_that_was_made_with_it_goes_on_with_it_and_reports_no_change() -> None:
    planned = apply_schema_policy(source_table(loose()), head(NORMALISED, ("_key_code",)), RUN)
    assert (planned.keys, planned.notes, planned.changes) == (("_key_code",), (), ())


@pytest.mark.parametrize("now", [loose("unicode_ci"), loose("", ""), loose("general_ci", "")])
def test_another_rule_of_the_source_stops_the_table_until_everything_is_read_again(now: TableSchema) -> None:
    lake = head(NORMALISED, ("_key_code",))
    with pytest.raises(SchemaChangedError, match="keys changed"):
        apply_schema_policy(source_table(now), lake, RUN)
    apply_schema_policy(source_table(now), lake, FULL)


def test_without_a_normal_text_or_with_a_column_of_that_name_keys_are_compared_exactly() -> None:
    assert apply_schema_policy(source_table(loose(normal="")), None, RUN).keys == ("code",)
    taken = replace(loose(), columns=(*loose().columns, *schema(("_key_code", "int")).columns))
    assert apply_schema_policy(source_table(taken), None, RUN).keys == ("code",)


def test_a_frozen_operation_is_compared_with_its_key_columns_and_not_read_under_another_collation() -> None:
    operation = Case(root="x").operation(1, schema=NORMALISED, keys=("_key_code",))
    assert rebase_on_current_columns(operation, source_table(loose()), head(NORMALISED, ("_key_code",)), RUN) is operation
    assert operation.source_keys == ("code",)
    assert drift(NORMALISED, alike(loose("unicode_ci"), NORMALISED)) == ("code is compared by another collation",)
    with pytest.raises(SchemaChangedError):
        rebase_on_current_columns(operation, source_table(loose("unicode_ci")), head(NORMALISED, ("_key_code",)), RUN)


def test_rules_are_recorded_and_compared_by_column() -> None:
    assert rules_of(NORMALISED) == (("_key_code", "general_ci"),)
    assert source_names(NORMALISED, ("_key_code", "n")) == ("code", "n")
    assert compare_rules((), NORMALISED) == compare_rules(rules_of(NORMALISED), NORMALISED) == ()
    [change] = compare_rules((("_key_code", "unicode_ci"),), NORMALISED)
    assert str(change) == "keys changed from (code under unicode_ci) to (code under general_ci)"


@pytest.mark.parametrize(
    ("declared", "collation", "mariadb", "known"),
    [
        ("varchar(20)", "utf8mb4_general_ci", False, True),
        ("char(20)", "latin1_swedish_ci", False, True),
        ("varchar(20)", "utf8mb4_0900_ai_ci", False, True),
        ("varchar(20)", "utf8mb4_unicode_ci", False, False),
        ("varchar(20)", "utf8mb4_unicode_ci", True, True),
        ("varchar(20)", "utf8mb4_uca1400_ai_ci", True, True),
        ("varchar(20)", "utf8mb4_uca1400_as_ci", True, False),
        ("varchar(20)", "utf8mb4_uca1400_nopad_ai_cs", True, False),
        ("text", "utf8mb4_general_ci", True, False),
    ],
)
def test_weights_are_used_where_they_are_known_to_be_exact(declared: str, collation: str, mariadb: bool, known: bool) -> None:
    assert bool(normal_text(declared, collation, "`c`", mariadb=mariadb)) == known
