"""Random, strange and damaged records are read as they were when they were looked at last, and none gets lost.

A digest that differs shows that a record is read otherwise. If that is meant: `python -m tests.events.random_digests --write`.
"""

from itertools import product
from pathlib import Path

import pytest

from cdc_ops.core.events.format_spec import RecordKind
from cdc_ops.events.registry import FORMAT_SPECS
from tests.events.random_digests import COUNTS, GOLDEN_COUNTS, Given, expected, golden_records, random_records, told
from tests.events.random_formats import CASES


def assert_read(given: Given, count: int, name: str) -> int:
    """Looks at what records are read as; returns how many changes there are."""
    assert {record.line for record, _ in given.taken_apart()} == set(range(count)), "a record says nothing"
    mine = given.of_the_table()
    rows = given.rows(mine)
    assert [row["line"] for row in rows] == [record.line for record, _ in mine]
    assert [row for row in rows if (row["kind"] == RecordKind.BAD) != bool(row["reason"])] == []
    assert told(rows) == expected()[name], "a record is read otherwise than before; see above"
    return sum(row["kind"] == RecordKind.CHANGE for row in rows)


def counts(short: int, all_of_them: int) -> pytest.MarkDecorator:
    """Looks at the first records always, and at all of them with `make test-long`."""
    return pytest.mark.parametrize("count", [short, pytest.param(all_of_them, marks=pytest.mark.long)])


@counts(*COUNTS)
@pytest.mark.parametrize("name", CASES)
def test_random_strange_and_damaged_records_are_read_as_they_were(name: str, count: int) -> None:
    changes = assert_read(random_records(name, count), count, f"{name}: {count}")
    assert CASES[name].share * count < changes < count


@counts(*GOLDEN_COUNTS)
@pytest.mark.parametrize("name", FORMAT_SPECS)
def test_golden_records_with_strange_values_are_read_as_they_were(name: str, count: int, tmp_path: Path) -> None:
    assert assert_read(golden_records(name, tmp_path, count), count, f"golden: {name}: {count}") > count // 8


def test_what_is_kept_is_of_records_that_are_read() -> None:
    read = {f"{name}: {count}" for name, count in product(CASES, COUNTS)}
    assert set(expected()) == {*read, *(f"golden: {name}: {count}" for name, count in product(FORMAT_SPECS, GOLDEN_COUNTS))}
