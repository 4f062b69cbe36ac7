"""What a table has to hold once it has forgotten deletes: the model that the tables are held against, in examples."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from cdc_ops.testing.scd_model import Told, all_versions, current_rows, known_after

WEEK = timedelta(days=7)


def rows(*days: tuple[int, Sequence[tuple[int, str | None]]]) -> list[tuple[datetime, list[Told]]]:
    """Batches of one key: the day of each, and places with the name that the row has then."""
    return [(datetime(2026, 1, day, tzinfo=UTC), [_told(place, name) for place, name in told]) for day, told in days]


def _told(place: int, name: str | None) -> Told:
    return Told(key=1, place=(place,), values=None if name is None else {"name": name})


def current(*days: tuple[int, Sequence[tuple[int, str | None]]]) -> str | None:
    values = current_rows(known_after(rows(*days), WEEK, keeps_versions=False)).get(1)
    return None if values is None else values["name"]


def versions(*days: tuple[int, Sequence[tuple[int, str | None]]]) -> list[tuple[int, int | None, str]]:
    found = all_versions(known_after(rows(*days), WEEK, keeps_versions=True))
    return [(one.start[0], one.end[0] if one.end else None, one.values["name"]) for one in found]


def test_a_change_that_is_older_than_a_remembered_delete_brings_no_row_back() -> None:
    assert current((1, [(2, "a"), (5, None)]), (8, [(3, "b")])) is None


def test_after_the_tombstone_retention_it_does() -> None:
    assert current((1, [(2, "a"), (5, None)]), (9, [(3, "b")])) == "b"


def test_a_delete_that_is_repeated_is_remembered_longer() -> None:
    assert current((1, [(5, None)]), (4, [(5, None)]), (9, [(3, "b")])) is None


@pytest.mark.parametrize(("place", "name"), [(4, None), (6, "b")])
def test_an_older_delete_that_is_still_remembered_holds_for_what_is_older_than_itself(place: int, name: str | None) -> None:
    assert current((1, [(9, None)]), (4, [(5, None)]), (9, [(place, "b")])) == name


def test_a_row_that_came_back_is_newer_than_what_is_late_however_old_its_delete_is() -> None:
    assert current((1, [(5, None)]), (2, [(7, "new")]), (20, [(6, "old")])) == "new"


def test_the_end_of_a_version_is_known_for_ever() -> None:
    assert versions((1, [(2, "a"), (5, None)]), (20, [(3, "b")])) == [(2, 3, "a"), (3, 5, "b")]


@pytest.mark.parametrize(("day", "end"), [(8, 5), (9, None)])
def test_a_delete_that_ended_nothing_is_forgotten(day: int, end: int | None) -> None:
    assert versions((1, [(5, None)]), (day, [(3, "b")])) == [(3, end, "b")]


def test_what_once_ended_a_version_and_does_so_no_more_is_forgotten_too() -> None:
    assert versions((1, [(2, "a"), (6, None)]), (9, [(3, None)])) == [(2, 3, "a")]
    assert versions((1, [(2, "a"), (6, None)]), (9, [(3, None)]), (10, [(4, "b")])) == [(2, 3, "a"), (4, None, "b")]
