"""Waits for servers and processes: what ends them."""

from collections.abc import Iterator

import pytest

from cdc_ops.dev.processes import wait_until

HOUR = 3600.0


def test_a_wait_returns_the_first_true_result() -> None:
    results: Iterator[str | None] = iter([None, "", "here", "later"])
    assert wait_until(lambda: next(results), HOUR, every=0) == "here"
    assert next(results) == "later"


def test_a_wait_looks_at_least_once_and_returns_the_last_result_when_its_time_is_over() -> None:
    looks: list[int] = []
    assert wait_until(lambda: looks.append(1), 0, every=0) is None
    assert looks == [1]
    assert wait_until(lambda: False, 0) is False


def test_a_wait_ends_when_the_process_it_waits_for_has_ended() -> None:
    looks: list[int] = []
    assert wait_until(lambda: looks.append(1), HOUR, every=0, hopeless=lambda: len(looks) == 3) is None
    assert looks == [1, 1, 1]


def test_an_error_of_the_look_ends_the_wait() -> None:
    def look() -> bool:
        raise ValueError("no such file")

    with pytest.raises(ValueError, match="no such file"):
        wait_until(look, HOUR)
