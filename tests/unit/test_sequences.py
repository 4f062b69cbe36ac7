"""What orders changes: columns, structs of them and expressions, read without Spark."""

import pytest

from cdc_ops.config.expressions.sequence_by import order_names, read_parts, split_parts
from cdc_ops.core.apply.scd import Sequence
from cdc_ops.core.apply.sequence_by import SequencePart, type_of
from cdc_ops.errors import CdcError, ConfigError, SourceTableError
from tests.lake_case import schema

TABLE = schema(("id", "bigint"), ("changed_at", "timestamp"), ("created_at", "timestamp"), ("version", "string"), ("day", "date"))


def read(*texts: str) -> tuple[SequencePart, ...]:
    return read_parts(texts, TABLE)


def test_columns_and_a_struct_of_them_are_the_same_order() -> None:
    assert read("changed_at", "id") == read("struct(changed_at, id)")
    assert type_of(read("changed_at", "id")) == "struct<changed_at:timestamp,id:bigint>"
    assert type_of(read("id")) == "bigint"
    plain = Sequence.of(read("changed_at", "id"))
    assert (plain.sql, plain.parts, plain.read_columns) == ((), ("`changed_at`", "`id`"), ("changed_at", "id"))


def test_an_expression_has_the_type_that_it_says_and_what_cannot_be_cast_has_no_place() -> None:
    [one] = read("CAST(substring(version, 2) AS Decimal(20, 0))")
    assert (one.type, one.sql, one.reads) == ("decimal(20,0)", "TRY_CAST(substring(version, 2) AS decimal(20,0))", ("version",))
    assert [part.type for part in read("greatest(`changed_at`, created_at)")] == ["timestamp"]
    assert [part.type for part in read("cast(version as integer)", "try_cast( version AS long )")] == ["int", "bigint"]
    [odd] = read("CAST(replace(concat(version, '(, as '), CAST(id AS string), \"'\") AS bigint)")
    assert (odd.sql, odd.reads) == ("TRY_CAST(replace(concat(version, '(, as '), CAST(id AS string), \"'\") AS bigint)", ("id", "version"))
    mixed = Sequence.of(read("struct(COALESCE(changed_at, created_at), CAST(version AS bigint))"))
    assert mixed.type == "struct<p1:timestamp,p2:bigint>"
    assert mixed.parts == ("COALESCE(changed_at, created_at)", "TRY_CAST(version AS bigint)")
    assert mixed.read_columns == ("changed_at", "created_at", "version")


def test_the_columns_of_an_order_are_known_before_the_table_is() -> None:
    assert order_names(("sequence_num", "CAST(version AS bigint)"), ("version", "day")) == ("sequence_num", "version")
    assert split_parts(("struct(a, greatest(b, c))", "d")) == ("a", "greatest(b, c)", "d")
    assert split_parts(("STRUCT(`a, b`, coalesce(b, ')'), `c(`)", "it's (odd)")) == ("`a, b`", "coalesce(b, ')')", "`c(`", "it's (odd)")


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("chnged_at", SourceTableError, "Did you mean 'changed_at'?"),
        ("version", SourceTableError, "without a dependable order"),
        ("CAST(id AS string)", SourceTableError, "without a dependable order"),
        ("CAST(id AS double)", SourceTableError, "without a dependable order"),
        ("CAST(id AS interval day)", SourceTableError, "without a dependable order"),
        ("CAST(id AS bigint", SourceTableError, "not a column of the table"),
        ("CAST(id AS bogus)", ConfigError, "cannot contain 'bogus'"),
        ("COALESCE(changed_at, day)", SourceTableError, "whose type is unknown without Spark"),
        ("length(version)", SourceTableError, "whose type is unknown without Spark"),
        ("CAST(id AS int) + CAST(id AS int)", SourceTableError, "not a column of the table"),
        ("CAST(verion AS bigint)", ConfigError, "Did you mean 'version'?"),
        ("CAST(unix_micros(now()) AS bigint)", ConfigError, "another value each time"),
        ("CAST((SELECT 1) AS bigint)", ConfigError, "cannot contain 'SELECT'"),
    ],
)
def test_what_has_no_dependable_order_or_type_is_refused(text: str, error: type[CdcError], said: str) -> None:
    with pytest.raises(error) as caught:
        read(text)
    assert said in str(caught.value)
