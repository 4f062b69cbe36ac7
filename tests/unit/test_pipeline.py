"""Which tables a pipeline means."""

from typing import Any

import pytest

from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableRule, TargetConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.pipeline.tables.table_matching import match_tables, resolve_tables
from cdc_ops.core.pipeline.tables.table_selection import select_tables
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import ConfigError, RequestError

AVAILABLE = tuple(TableName.parse(name) for name in ("shop.orders", "shop.orders_2025", "shop.orders_2026", "shop.users", "hr.users"))


def rule(pattern: str, chunk_rows: int = 1, **parts: Any) -> TableRule:
    return TableRule(pattern=pattern, settings=TableSettings.of(chunk_rows=chunk_rows, path=parts.pop("path", "")), **parts)


def pipeline(*rules: TableRule, root: str = "/lake/") -> Pipeline:
    source = SourceConfig(kind=SourceKind.MYSQL, connection="shop_db")
    return Pipeline(name="p", source=source, target=TargetConfig(root=root, staging="/staging"), tables=rules)


def resolved(*rules: TableRule) -> dict[str, int]:
    return {str(config.table): config.settings.load.chunk_rows for config in resolve_tables(pipeline(*rules), AVAILABLE)}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([rule("shop.users")], {"shop.users": 1}),
        ([rule("shop.orders_*")], {"shop.orders_2025": 1, "shop.orders_2026": 1}),
        ([rule("shop.orders_202[6-9]")], {"shop.orders_2026": 1}),
        ([rule("*.users")], {"hr.users": 1, "shop.users": 1}),
        ([rule("shop.*", 1), rule("shop.users", 2)], {"shop.orders": 1, "shop.orders_2025": 1, "shop.orders_2026": 1, "shop.users": 2}),
        ([rule("shop.orders_*", 1), rule("shop.order*", 2)], {"shop.orders": 2, "shop.orders_2025": 1, "shop.orders_2026": 1}),
        ([rule("shop.order*"), rule("shop.orders_*", exclude=True)], {"shop.orders": 1}),
        ([rule("*.users"), rule("hr.users", exclude=True)], {"shop.users": 1}),
        ([rule("shop.*", exclude=True), rule("shop.users", 2), rule("*.users", 3)], {"hr.users": 3, "shop.users": 2}),
        ([rule("shop.users"), rule("old.*", exclude=True)], {"shop.users": 1}),
    ],
    ids=[
        "a name means itself",
        "a star matches a part",
        "a class matches one sign",
        "a star matches schemas too",
        "an exact name beats an earlier pattern",
        "an earlier pattern beats a later one",
        "an exclusion takes tables out of a pattern",
        "an exclusion may be a name",
        "an exact name beats an exclusion, a pattern does not",
        "an exclusion may match nothing",
    ],
)
def test_entries_match(rules: list[TableRule], expected: dict[str, int]) -> None:
    assert resolved(*rules) == expected


def test_case_matters_as_at_the_source() -> None:
    with pytest.raises(ConfigError):
        resolved(rule("SHOP.*"))


@pytest.mark.parametrize(("pattern", "what"), [("shop.ordesr", "no such table"), ("shop.invoice_*", "pattern matches no table")])
def test_an_entry_without_table_names_its_place_and_the_nearest_table(pattern: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        resolved(rule(pattern, origin="shop.yaml:7"))
    assert "shop.yaml:7" in caught.value.what
    assert "shop.orders" in caught.value.why


def test_a_source_without_tables_is_said_to_have_none() -> None:
    with pytest.raises(ConfigError, match="There are no valid names"):
        resolve_tables(pipeline(rule("shop.users")), [])


def test_a_name_that_the_source_has_not_and_a_copied_table_that_is_gone_are_absent_and_an_idle_pattern_is_told() -> None:
    rules = (rule("shop.*"), rule("shop.ordesr", 2), rule("crm.*"), rule("shop.users_old", exclude=True))
    copied = [TableName.parse(name) for name in ("shop.carts", "shop.users", "shop.users_old", "old.carts")]
    found = match_tables(pipeline(*rules), AVAILABLE, copied)
    assert [str(config.table) for config in found.present] == ["shop.orders", "shop.orders_2025", "shop.orders_2026", "shop.users"]
    assert [(str(config.table), config.settings.load.chunk_rows) for config in found.absent] == [("shop.carts", 1), ("shop.ordesr", 2)]
    assert [one.pattern for one in found.unmatched] == ["crm.*"]


def test_two_tables_whose_names_are_written_alike_are_refused_unless_they_are_left_out() -> None:
    alike = (TableName(schema="a.b", name="c"), TableName(schema="a", name="b.c"))
    for entry in ("a.b.c", "a.*", "*"):
        with pytest.raises(ConfigError, match=r"two tables with the written name 'a\.b\.c'") as caught:
            match_tables(pipeline(rule(entry), rule("shop.*")), (*AVAILABLE, *alike))
        assert "table 'b.c' of schema 'a' and table 'c' of schema 'a.b'" in caught.value.what
    for rules in ((rule("shop.*"),), (rule("*"), rule("a.b.c", exclude=True))):
        assert "shop.users" in [str(config.table) for config in resolve_tables(pipeline(*rules), (*AVAILABLE, *alike))]
    for one in alike:
        assert [config.table for config in resolve_tables(pipeline(rule("a.b.c")), [one])] == [one]
        absent = match_tables(pipeline(rule("a.b.c"), rule("shop.users")), AVAILABLE, [one]).absent
        assert [config.table for config in absent] == [one], "the lake has it under this name"


def test_a_table_lands_under_the_root_or_where_its_entry_says() -> None:
    found = resolve_tables(pipeline(rule("shop.users"), rule("hr.users", path="s3a://other/hr")), AVAILABLE)
    assert [config.path for config in found] == ["s3a://other/hr", "/lake/shop/users"]


def test_a_run_without_names_takes_all_tables() -> None:
    tables = resolve_tables(pipeline(rule("shop.*")), AVAILABLE)
    assert select_tables(tables, []) == tables


def test_a_run_takes_the_tables_that_it_names_once_each() -> None:
    tables = resolve_tables(pipeline(rule("shop.*")), AVAILABLE)
    assert [str(config.table) for config in select_tables(tables, ["shop.users", "shop.orders", "shop.users"])] == [
        "shop.users",
        "shop.orders",
    ]


def test_a_run_that_names_another_table_is_refused_with_the_nearest() -> None:
    tables = resolve_tables(pipeline(rule("shop.*")), AVAILABLE)
    with pytest.raises(RequestError, match=r"Did you mean 'shop\.users'"):
        select_tables(tables, ["shop.user"])


@pytest.mark.parametrize("text", ["orders", ".orders", "shop.", ""])
def test_a_table_name_has_two_parts(text: str) -> None:
    with pytest.raises(ValueError, match="form schema"):
        TableName.parse(text)


def test_a_table_name_is_split_at_the_first_dot() -> None:
    assert TableName.parse("shop.a.b") == TableName(schema="shop", name="a.b")
