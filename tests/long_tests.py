"""`make test` leaves out what is marked `long`; this holds that it still has a test of every promise and every mechanism."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.mutants.table import PROMISES_PAGE, mechanisms

_NAMED = re.compile(r"tests/[a-z_/0-9]+\.py::\w+")


def require_short_tests(items: Iterable[pytest.Item]) -> None:
    """Ends the run if a test that a promise or a mechanism rests on is there, and only as a long one.

    Modules of which not all tests were collected are judged by what was collected: a test that nobody asked for is not missing.

    Raises:
        pytest.UsageError: names these tests.
    """
    short, long = set(), set()
    for item in items:
        kind = long if item.get_closest_marker("long") else short
        kind |= {item.nodeid, item.nodeid.partition("[")[0]}
    if only := sorted((killers() | promised()) & long - short):
        raise pytest.UsageError(
            f"marked long, but docs/guarantees.md or tests/mutants name them, so make test needs them: {', '.join(only)}"
        )


def killers() -> set[str]:
    """Returns the ids of the tests that notice when a mechanism is broken."""
    return {test for one in mechanisms() for test in one.tests}


def promised(page: Path = PROMISES_PAGE) -> set[str]:
    """Returns the ids of the tests that the page of guarantees names."""
    return set(_NAMED.findall(page.read_text("utf-8")))
