"""What `make test` leaves out: no test that a promise or a mechanism rests on."""

from dataclasses import dataclass

import pytest

from tests.long_tests import killers, promised, require_short_tests


@dataclass
class Item:
    """What is asked of a collected test."""

    nodeid: str
    long: bool = False

    def get_closest_marker(self, name: str) -> bool:
        assert name == "long"
        return self.long


def refused(*items: Item) -> bool:
    try:
        require_short_tests(items)  # type: ignore[arg-type]
    except pytest.UsageError:
        return True
    return False


def test_what_a_mechanism_rests_on_may_not_be_long() -> None:
    exact = next(test for test in sorted(killers()) if "[" in test)
    base = exact.partition("[")[0]
    assert refused(Item(exact, long=True))
    assert refused(Item(exact, long=True), Item(f"{base}[other]")), "the case that the mechanism names has to run"
    assert not refused(Item(exact), Item(f"{base}[other]", long=True))
    assert not refused(Item("tests/unit/test_long_tests.py::test_nobody_names_this", long=True))


def test_of_a_promises_tests_one_case_may_be_long_but_not_all() -> None:
    named = promised()
    assert len(named) > 50
    one = next(test for test in sorted(named) if test not in killers())
    assert refused(Item(f"{one}[a]", long=True), Item(f"{one}[b]", long=True))
    assert not refused(Item(f"{one}[a]", long=True), Item(f"{one}[b]"))
