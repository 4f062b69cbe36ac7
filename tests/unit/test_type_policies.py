"""Policies for values that no stored type holds: what they do to a column, how counts add up, how they are written in a file."""

from dataclasses import replace
from pathlib import Path

import pytest

from cdc_ops.config.loading import load_pipeline
from cdc_ops.core import json_codec
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableRule, TargetConfig, current_settings
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.server_types.mysql_types import TypeMapping, mysql_mapping
from cdc_ops.core.schema.server_types.postgres_types import postgres_mapping
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.core.schema.value_policies import NulledValues, NullifiedValues, OnOverflow, OnUnstorable, TypePolicies
from cdc_ops.sources.mysql.catalog import _loose

TEXT = TypePolicies(zero_dates=OnUnstorable.STRING, nan_values=OnUnstorable.STRING)
FAILING = TypePolicies(zero_dates=OnUnstorable.FAIL, nan_values=OnUnstorable.FAIL, decimal_overflow=OnOverflow.FAIL)


def mysql(declared: str, types: TypePolicies) -> TypeMapping:
    mapping = mysql_mapping(declared, types)
    assert mapping is not None
    return mapping


@pytest.mark.parametrize("declared", ["date", "datetime(6)", "timestamp"])
def test_dates_of_mysql_lose_values_only_where_null_is_the_policy(declared: str) -> None:
    assert mysql(declared, TypePolicies()).lossy
    assert mysql(declared, TEXT).delta_type == "string"
    assert not mysql(declared, TEXT).lossy
    failing = mysql(declared, FAILING)
    assert (failing.delta_type, failing.lossy) == (mysql(declared, TypePolicies()).delta_type, False)
    assert failing.is_unstorable("`d`")


@pytest.mark.parametrize("declared", ["date", "timestamp(3) without time zone", "timestamp with time zone", "numeric(10,2)"])
def test_dates_and_numerics_of_postgres_follow_the_same_policies(declared: str) -> None:
    assert postgres_mapping(declared).lossy
    assert postgres_mapping(declared, TEXT).expression('"d"') == 'CAST("d" AS text)'
    assert not postgres_mapping(declared, FAILING).lossy


@pytest.mark.parametrize("declared", ["int", "varchar(3)", "time", "year(4)", "decimal(38,2)", "json", "bit(3)"])
def test_other_types_hold_all_their_values(declared: str) -> None:
    assert not mysql(declared, TypePolicies()).lossy


def test_a_decimal_of_too_many_digits_is_text_or_refused() -> None:
    assert mysql("decimal(39,0)", TypePolicies()).delta_type == "string"
    assert "38 digits" in mysql("decimal(39,0)", FAILING).refusal
    assert "38 digits" in postgres_mapping("numeric", FAILING).refusal
    assert not mysql("decimal(38,0)", FAILING).refusal
    assert not postgres_mapping("numeric(38,0)", FAILING).refusal


def test_a_key_becomes_null_under_no_policy() -> None:
    types = TypePolicies(keys=("valid_to", "n"))
    assert not mysql("date", types.for_column("Valid_To")).lossy
    assert mysql("date", types.for_column("valid_to")).is_unstorable("x")
    assert not postgres_mapping("numeric(10,2)", types.for_column("n")).lossy
    assert mysql("date", types.for_column("other")).lossy
    assert mysql("date", TypePolicies(zero_dates=OnUnstorable.STRING, keys=("d",)).for_column("d")).delta_type == "string"
    failing = TypePolicies(zero_dates=OnUnstorable.FAIL)
    columns = tuple(
        Column(name=name, source_type="date", delta_type="date", nullable=True, expression=name, lossy=True) for name in ("d", "other")
    )
    schema = TableSchema(table=TableName(schema="shop", name="t"), columns=columns, primary_key=("d",), types=failing).keyed(("D",))
    assert [column.lossy for column in schema.columns] == [False, True]
    eased = replace(schema, columns=tuple(replace(column, lossy=False) for column in schema.columns)).relaxed(TypePolicies())
    assert [column.lossy for column in eased.columns] == [False, True]
    assert json_codec.from_data(TypePolicies, json_codec.to_data(eased.types)) == eased.types


def test_a_cursor_keeps_its_type_because_rows_are_ordered_by_it() -> None:
    types = TableSettings.of(zero_dates=OnUnstorable.STRING, cursor=("Updated_At", "id")).types
    assert mysql("datetime(6)", types.for_column("updated_at")).delta_type == "timestamp_ntz"
    assert mysql("datetime(6)", types.for_column("born")).delta_type == "string"


def test_a_decoder_makes_null_of_what_cannot_be_stored() -> None:
    assert mysql("timestamp", TypePolicies()).decoded("`t`") == "IF(`t` = 0, NULL, timestamp_micros(`t`))"


def test_counts_of_several_operations_add_up_and_are_said() -> None:
    one = NullifiedValues(columns=(NulledValues(column="d", source_type="date", values=2),))
    other = NullifiedValues(
        columns=(NulledValues(column="d", source_type="date", values=1200), NulledValues(column="t", source_type="timestamp", values=1))
    )
    total = NullifiedValues.total([one, other, NullifiedValues()])
    assert "1,202 in column 'd' (date), 1 in column 't' (timestamp)" in total.warning
    assert json_codec.loads(Counts, json_codec.dumps(Counts(nulled=total))).nulled == total
    assert NullifiedValues().warning == ""


def test_what_nobody_counted_is_said_too() -> None:
    assert "not counted" in NullifiedValues.total([NullifiedValues(), NullifiedValues(counted=False)]).warning


@pytest.mark.parametrize("written", ["null", '"null"', "~", "fail"])
def test_null_is_written_as_yaml_has_it(tmp_path: Path, written: str) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(
        "pipeline: shop\nsource: {kind: mysql, connection: shop_db}\ntarget: {root: /data/lake, staging: /data/staging}\n"
        f"tables:\n  shop.orders: {{cursor: u, zero_dates: {written}}}\n"
    )
    [rule] = load_pipeline(path).tables
    assert rule.settings.values.zero_dates is (OnUnstorable.FAIL if written == "fail" else OnUnstorable.NULL)


def test_a_frozen_schema_is_eased_from_fail_to_null_and_never_otherwise() -> None:
    columns = tuple(
        Column(name=name, source_type=kind, delta_type=kind, nullable=True, expression=name)
        for name, kind in (("d", "date"), ("t", "timestamp_ntz"), ("n", "decimal(10,2)"), ("s", "string"))
    )
    schema = TableSchema(table=TableName(schema="shop", name="t"), columns=columns, primary_key=(), types=FAILING)
    dates = schema.relaxed(TypePolicies(nan_values=OnUnstorable.FAIL))
    assert [column.lossy for column in dates.columns] == [True, True, False, False]
    assert (dates.types.zero_dates, dates.types.nan_values) == (OnUnstorable.NULL, OnUnstorable.FAIL)
    assert [column.lossy for column in schema.relaxed(TypePolicies()).columns] == [True, True, True, False]
    assert schema.relaxed(TEXT) == schema
    assert schema.relaxed(TypePolicies()).fingerprint == schema.fingerprint


def test_the_settings_of_a_table_are_those_of_its_name_before_those_of_a_pattern() -> None:
    rules = (
        TableRule(pattern="shop.*", settings=TableSettings.of(parallelism=1)),
        TableRule(pattern="shop.orders", settings=TableSettings.of(parallelism=2)),
    )
    pipeline = Pipeline(
        name="shop",
        source=SourceConfig(kind=SourceKind.MYSQL, connection="c"),
        target=TargetConfig(root="/l", staging="/s"),
        tables=rules,
    )
    found = [
        current_settings(pipeline, TableName(schema=schema, name=name)) for schema, name in (("shop", "orders"), ("shop", "x"), ("b", "x"))
    ]
    assert [settings.load.parallelism if settings else None for settings in found] == [2, 1, None]


@pytest.mark.parametrize(
    ("declared", "collation", "loose"),
    [
        ("varchar(20)", "utf8mb4_general_ci", True),
        ("varchar(20)", "utf8mb4_0900_ai_ci", True),
        ("varchar(20)", "utf8mb4_0900_as_cs", True),  # case and accents count, but not how they are composed
        ("varchar(20)", "utf8mb4_bin", True),  # pads with spaces
        ("varchar(20)", "utf8mb4_0900_bin", False),
        ("varchar(20)", "utf8mb4_nopad_bin", False),
        ("char(20)", "utf8mb4_bin", False),
        ("enum('a','b')", "utf8mb4_general_ci", False),
        ("int(11)", None, False),
    ],
)
def test_collations_of_mysql_that_hold_different_texts_for_equal_are_known(declared: str, collation: str | None, loose: bool) -> None:
    assert bool(_loose(declared, collation or "")) == loose
