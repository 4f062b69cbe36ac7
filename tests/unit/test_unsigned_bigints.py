"""BIGINT UNSIGNED in its two stored types: which one an operation reads with, and what it alters."""

from dataclasses import replace
from typing import Any

import pytest

from cdc_ops.core import json_codec
from cdc_ops.core.operation.merging.merge_plan import keys_condition, spark_literal
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Counts, Manifest, Repairs
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.schema_evolution import ChangeKind, Recorded, SchemaChange, SchemaPolicy, SchemaSettings, compare_columns, decide
from cdc_ops.core.schema.server_types.unsigned_bigints import (
    LARGEST,
    NARROW,
    WIDE,
    jdbc_mapping,
    schema_as_stored,
    too_large,
    too_large_column,
    widened_schema,
)
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.errors import TooLargeValueError
from cdc_ops.steps.table.columns.wide_columns import (
    newly_wide,
    retry_widened,
    too_large_value,
    with_stored_width,
    with_wide_columns,
    with_widening,
)
from tests.lake_case import Case

TABLE = TableName(schema="shop", name="items")


def column(name: str, kind: str = NARROW, declared: str = "bigint(20) unsigned") -> Column:
    return Column(name=name, source_type=declared, delta_type=kind, nullable=True, expression=f"CAST(`{name}` AS SIGNED)")


def schema(**kinds: str) -> TableSchema:
    return TableSchema(table=TABLE, columns=tuple(column(name, kind) for name, kind in kinds.items()), primary_key=("id",))


SCHEMA = schema(id=NARROW, big=NARROW)


def operation(**parts: Any) -> Operation:
    found = Case(root="/lake").operation(1, schema=parts.pop("schema", SCHEMA), table=TABLE)
    return replace(found, apply=replace(found.apply, **parts))


def types(found: Operation) -> list[str]:
    return [one.delta_type for one in (*found.source.schema.columns, *found.source.hidden, *found.apply.previous_keys)]


def test_both_stored_types_have_one_fingerprint_and_other_types_have_others() -> None:
    assert SCHEMA.fingerprint == schema(id=WIDE, big=WIDE).fingerprint == schema(id=WIDE, big=NARROW).fingerprint
    assert SCHEMA.fingerprint != schema(id=WIDE, big="decimal(22,0)").fingerprint
    signed = replace(SCHEMA, columns=(column("id", declared="bigint"), column("big", declared="bigint")))
    other = replace(signed, columns=(column("id", WIDE, "bigint"), column("big", declared="bigint")))
    assert len({SCHEMA.fingerprint, signed.fingerprint, other.fingerprint}) == 3


@pytest.mark.parametrize("policy", SchemaPolicy)
def test_a_table_that_stores_it_wide_has_not_changed_under_any_policy(policy: SchemaPolicy) -> None:
    stored = (("id", WIDE), ("BIG", "decimal(22,0)"))
    now = schema_as_stored(SCHEMA, stored)
    assert [one.delta_type for one in now.columns] == [WIDE, "decimal(22,0)"]
    changes = compare_columns(stored, now)
    assert changes == ()
    decision = decide(SchemaSettings(pipeline="shop", policy=policy), now, changes, Recorded(keys=("id",), fingerprint="older"), ("id",))
    assert (decision.schema, decision.notes) == (now, ())


def test_only_unsigned_columns_take_the_width_of_the_table() -> None:
    signed = replace(SCHEMA, columns=(column("id", declared="bigint"), column("big")))
    assert [one.delta_type for one in schema_as_stored(signed, (("id", WIDE), ("big", WIDE))).columns] == [NARROW, WIDE]
    assert [one.delta_type for one in widened_schema(signed).columns] == [NARROW, WIDE]
    assert schema_as_stored(SCHEMA, (("id", NARROW), ("big", "decimal(19,0)"))) is SCHEMA


def test_a_narrow_column_is_read_by_a_comparison_and_a_wide_one_by_its_64_bits() -> None:
    narrow, wide = jdbc_mapping(column("id")), jdbc_mapping(column("id", WIDE))
    assert (narrow.carried_as, wide.carried_as, narrow.template) == ("bigint", "bigint", wide.template)
    assert narrow.decoded("c1") == f"IF(c1 < 0, raise_error('{too_large('id')}'), c1)"
    assert "18446744073709551616" in wide.decoded("c1")


def test_the_text_of_a_failure_names_the_column_whatever_it_is_called() -> None:
    for name in ("id", "it's; DROP", "größe `x`", "__cdc_before_0"):
        error = too_large_value(TABLE, f"Job aborted: [USER_RAISED_EXCEPTION] {too_large(name)} SQLSTATE: P0001 {too_large('another')}")
        assert error is not None
        assert error.column == name
    assert too_large_value(TABLE, "another failure") is None
    shown = f"[CAST_OVERFLOW] ... Project [if ((c1 < 0)) raise_error(USER_RAISED_EXCEPTION, map(errorMessage, {too_large('id')}), NullType)"
    assert too_large_value(TABLE, f"{shown} IF(c1 < 0, raise_error('{too_large('id')}'), c1)") is None
    assert too_large_column(f"java.lang.RuntimeException: {too_large('id')}") == "id"
    assert too_large_column("") is None


def test_a_number_that_no_bigint_holds_is_a_decimal_literal() -> None:
    assert spark_literal("bigint", str(LARGEST)) == f"CAST('{LARGEST}' AS bigint)"
    assert spark_literal("bigint", str(LARGEST + 1)) == f"CAST('{LARGEST + 1}' AS {WIDE})"
    assert spark_literal("bigint", str(2**64)) == f"CAST('{2**64}' AS {WIDE})"
    assert spark_literal("bigint", str(-(2**63))) == f"CAST('{-(2**63)}' AS bigint)"
    assert spark_literal("bigint", "0" * 19) == f"CAST('{'0' * 19}' AS bigint)"
    assert (
        keys_condition(("id",), ("bigint",), (("7",), (str(2**64 - 1),)))
        == f"t.`id` IN (CAST('7' AS bigint), CAST('{2**64 - 1}' AS {WIDE}))"
    )


def test_an_unsigned_number_is_one_in_either_type_and_a_signed_one_never_is() -> None:
    assert {logical_type_of(column("c", kind)) for kind in (NARROW, WIDE)} == {LogicalType.UNSIGNED_BIGINT}
    assert {logical_type_of(column("c", kind, "bigint")) for kind in (NARROW, WIDE)} == {LogicalType.INTEGER}
    assert logical_type_of(column("c", "bigint", "int unsigned")) is LogicalType.INTEGER
    assert logical_type_of(column("c", WIDE, "bit(64)")) is LogicalType.BIT


def test_an_attempt_is_repeated_with_each_column_that_it_names_and_with_the_same_operation() -> None:
    seen: list[list[str]] = []

    def attempt(found: Operation) -> str:
        seen.append(types(found))
        narrow = [one.name for one in found.source.schema.columns if one.delta_type == NARROW]
        if narrow:
            raise TooLargeValueError("too large", column=narrow[0].upper())
        assert replace(found, source=operation().source) == operation()
        return "done"

    assert retry_widened(operation(), attempt) == "done"
    assert seen == [[NARROW, NARROW], [WIDE, NARROW], [WIDE, WIDE]]


@pytest.mark.parametrize("name", ["id", "nowhere"])
def test_a_failure_that_no_column_can_be_widened_for_is_raised(name: str) -> None:
    def attempt(found: Operation) -> str:
        raise TooLargeValueError("too large", column=name)

    with pytest.raises(TooLargeValueError):
        retry_widened(with_wide_columns(operation(), ("id",)), attempt)


@pytest.mark.parametrize("name", ["id", "__cdc_before_0"])
def test_an_old_key_is_as_wide_as_its_key(name: str) -> None:
    found = operation(previous_keys=(column("__cdc_before_0"),))
    assert types(with_wide_columns(found, (name,))) == [WIDE, NARROW, WIDE]
    assert types(with_stored_width(found, (("id", WIDE), ("big", NARROW)))) == [WIDE, NARROW, WIDE]
    assert types(with_wide_columns(found, ("big",))) == [NARROW, WIDE, NARROW]


def test_a_new_generation_is_as_wide_as_its_values_need() -> None:
    found = operation(replaces_schema=True)
    assert with_stored_width(found, (("id", WIDE), ("big", WIDE))) == found
    wide = with_wide_columns(found, ("id",))
    assert with_widening(wide, (("id", NARROW), ("big", NARROW))) == wide


def change(kind: ChangeKind, name: str, before: str = "", after: str = "") -> SchemaChange:
    return SchemaChange(kind=kind, column=name, before=before, after=after)


@pytest.mark.parametrize(
    ("stored", "changes", "expected"),
    [
        ((("id", NARROW), ("big", NARROW)), (), ("big",)),
        ((("id", NARROW), ("big", WIDE)), (), ()),
        ((("id", NARROW), ("big", "decimal(22,0)")), (), ()),
        ((("id", NARROW),), (change(ChangeKind.ADDED, "big", after=NARROW),), ("big",)),
        ((("id", NARROW),), (change(ChangeKind.ADDED, "big", after=WIDE),), ()),
        ((("id", NARROW), ("OLD", NARROW)), (change(ChangeKind.RENAMED, "big", before="old"),), ("big",)),
        ((("id", NARROW), ("big", "int")), (change(ChangeKind.WIDENED, "big", before="int", after=NARROW),), ("big",)),
        ((("id", NARROW), ("big", WIDE)), (change(ChangeKind.WIDENED, "big", before="int", after=NARROW),), ()),
    ],
)
def test_a_table_is_altered_where_its_columns_are_narrower_than_the_values(
    stored: tuple[tuple[str, str], ...], changes: tuple[SchemaChange, ...], expected: tuple[str, ...]
) -> None:
    found = with_widening(operation(schema=schema(id=NARROW, big=WIDE), schema_changes=changes), stored)
    assert found.apply.schema_changes[: len(changes)] == changes
    assert newly_wide(found) == tuple(one.column for one in found.apply.schema_changes[len(changes) :]) == expected


def test_a_manifest_of_before_says_nothing_of_width_and_a_run_says_what_it_widened() -> None:
    manifest = Manifest.of(operation_id="o", attempt="a", rows=1, bytes=1, schema_fingerprint="f", wide=("id",))
    text = json_codec.dumps(manifest)
    assert json_codec.loads(Manifest, text) == manifest
    assert json_codec.loads(Manifest, text.replace(',"wide":["id"]', "")).wide == ()
    widened = Counts(repairs=Repairs(widened=("id", "big")))
    assert widened.warning == "widened from BIGINT to DECIMAL(20,0), for values above 2^63 - 1: id, big"
