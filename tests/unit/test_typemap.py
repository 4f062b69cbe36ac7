"""The map of types: pure, and complete for what the servers declare."""

import pytest

from cdc_ops.core.schema.server_types.mysql_types import DeclaredType, mysql_mapping
from cdc_ops.core.schema.server_types.postgres_types import postgres_mapping


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ("tinyint(1)", "tinyint"),
        ("tinyint(3) unsigned", "smallint"),
        ("smallint(5) unsigned", "int"),
        ("mediumint(8)", "int"),
        ("mediumint(8) unsigned", "int"),
        ("int(11)", "int"),
        ("int unsigned", "bigint"),
        ("int(10) unsigned zerofill", "bigint"),
        ("bigint(20)", "bigint"),
        ("bigint(20) unsigned", "bigint"),
        ("decimal(10,2)", "decimal(10,2)"),
        ("decimal(38,38) unsigned", "decimal(38,38)"),
        ("decimal(39,0)", "string"),
        ("decimal(65,30)", "string"),
        ("float(7,2) unsigned", "float"),
        ("double", "double"),
        ("bit(1)", "bigint"),
        ("bit(63)", "bigint"),
        ("bit(64)", "decimal(20,0)"),
        ("year(4)", "smallint"),
        ("date", "date"),
        ("time(6)", "string"),
        ("datetime", "timestamp_ntz"),
        ("datetime(6)", "timestamp_ntz"),
        ("timestamp(3)", "timestamp"),
        ("char(5)", "string"),
        ("varchar(255)", "string"),
        ("enum('a','b''(',')')", "string"),
        ("set('unsigned','y')", "string"),
        ("mediumtext", "string"),
        ("json", "string"),
        ("uuid", "string"),
        ("inet6", "string"),
        ("binary(16)", "binary"),
        ("longblob", "binary"),
        ("point", "binary"),
        ("geomcollection", "binary"),
    ],
)
def test_a_mysql_type_has_one_stored_type(declared: str, stored: str) -> None:
    mapping = mysql_mapping(declared)
    assert mapping is not None
    assert mapping.delta_type == stored


def test_a_mysql_type_that_nobody_knows_is_not_guessed() -> None:
    assert mysql_mapping("frobnicator(3)") is None


@pytest.mark.parametrize("declared", ["char(3)", "enum('a')", "set('a')", "time", "uuid", "inet6", "decimal(65,30)", "json"])
def test_what_drivers_bend_is_selected_as_text(declared: str) -> None:
    mapping = mysql_mapping(declared)
    assert mapping is not None
    assert mapping.expression("`a``b`") == "CAST(`a``b` AS CHAR)"


@pytest.mark.parametrize("declared", ["int(11)", "varchar(20)", "double", "blob", "decimal(10,2)"])
def test_what_drivers_read_exactly_is_selected_as_it_is(declared: str) -> None:
    mapping = mysql_mapping(declared)
    assert mapping is not None
    assert mapping.expression("`c`") == "`c`"


def test_a_declared_type_is_taken_apart() -> None:
    assert DeclaredType.parse("decimal(10, 2) unsigned") == DeclaredType(base="decimal", numbers=(10, 2), unsigned=True)
    assert DeclaredType.parse("enum('unsigned')") == DeclaredType(base="enum")
    assert DeclaredType.parse("datetime") == DeclaredType(base="datetime")


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ("boolean", "boolean"),
        ("integer", "int"),
        ("numeric(10,2)", "decimal(10,2)"),
        ("numeric(50,2)", "string"),
        ("numeric(3,5)", "string"),
        ("numeric", "string"),
        ("real", "float"),
        ("double precision", "double"),
        ("character varying(20)", "string"),
        ("character(5)", "string"),
        ("timestamp(3) without time zone", "timestamp_ntz"),
        ("timestamp with time zone", "timestamp"),
        ("time without time zone", "string"),
        ("date", "date"),
        ("bytea", "binary"),
        ("uuid", "string"),
        ("jsonb", "string"),
        ("integer[]", "string"),
        ("numeric(10,2)[]", "string"),
        ("shop.mood", "string"),
    ],
)
def test_a_postgres_type_has_one_stored_type(declared: str, stored: str) -> None:
    assert postgres_mapping(declared).delta_type == stored
