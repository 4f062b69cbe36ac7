"""Which tables a pipeline file speaks of, and what is said of others."""

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core import json_codec
from cdc_ops.core.pipeline.archive_config import OnUnknownTable
from cdc_ops.core.pipeline.tables.unknown_tables import SHOWN, KnownTables, UnknownTables, unknown_tables_error

KNOWN = KnownTables(entries=("shop.orders", "shop.order_*", "crm.[ab]?"))


def unknown_tables(*items: tuple[str, int]) -> UnknownTables:
    return UnknownTables.of(items, KNOWN)


def test_nothing_is_said_of_nothing() -> None:
    assert unknown_tables().warning == unknown_tables().summary == ""
    assert UnknownTables.total([]) == UnknownTables.total([unknown_tables(), unknown_tables()]) == unknown_tables()


def test_the_tables_with_the_most_records_are_named_and_the_others_counted() -> None:
    assert unknown_tables(("shop.tmp", 3), ("shop.audit", 1200)).summary == "1,200 of shop.audit, 3 of shop.tmp"
    many = unknown_tables(*((f"shop.t{number:02}", 1) for number in range(SHOWN + 2)))
    assert (many.tables, many.records, len(many.shown)) == (SHOWN + 2, SHOWN + 2, SHOWN)
    assert many.summary.endswith("1 of shop.t09, and others of 2 more tables")
    assert "'exclude: true'" in many.warning


def test_a_name_that_differs_in_case_only_says_so() -> None:
    assert (
        unknown_tables(("Shop.Orders", 2)).summary == "2 of Shop.Orders (the pipeline file has 'shop.orders'; upper and lower case count)"
    )
    assert unknown_tables(("shop.Order_1", 2)).shown[0].like == "shop.order_*"
    assert unknown_tables(("shop.else", 2)).shown[0].like == ""


def test_what_several_operations_found_adds_up() -> None:
    both = UnknownTables.total([unknown_tables(("shop.a", 1), ("Shop.Orders", 5)), unknown_tables(), unknown_tables(("shop.a", 9))])
    assert [(item.name, item.records) for item in both.shown] == [("shop.a", 10), ("Shop.Orders", 5)]
    assert (both.tables, both.records, both.shown[1].like) == (2, 15, "shop.orders")
    assert json_codec.loads(UnknownTables, json_codec.dumps(both)) == both


@pytest.mark.parametrize("entries", [KNOWN.entries, ("*",), ("shop.a.b*", "a*b*c", "[!x]y?", "a[-]b*")])
@given(name=st.text(alphabet="abcxysophrde._-1", max_size=14))
def test_names_and_patterns_know_what_the_entries_match(entries: tuple[str, ...], name: str) -> None:
    known = KnownTables(entries=entries)
    expected = any(fnmatch.fnmatchcase(name, entry) for entry in entries)
    assert (name in known.names or bool(re.search(known.expression.replace("\\z", "\\Z"), name))) == expected


def test_a_file_without_patterns_needs_no_expression() -> None:
    assert KnownTables(entries=("shop.a",)).expression == ""


def test_the_error_names_the_tables_and_what_to_do() -> None:
    error = str(unknown_tables_error("shop.orders", "s3://b/topic", unknown_tables(("shop.tmp", 3))))
    assert "3 of shop.tmp" in error
    assert "exclude: true" in error
    assert OnUnknownTable.QUARANTINE.value in error
