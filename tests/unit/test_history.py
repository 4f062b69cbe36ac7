"""Event histories: points, where the state at one is known from, and what a commit of a history says of itself."""

from datetime import UTC, datetime, timedelta

import pytest

from cdc_ops.core.events.event_history import (
    Begin,
    HistoryCheckpoint,
    chosen_begin,
    generation_path,
    may_be_noted,
    parse_checkpoint,
    parse_point,
    render_checkpoint,
)
from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest
from cdc_ops.errors import HistoryUnavailableError, RequestError

DAY = datetime(2026, 3, 1, tzinfo=UTC)
FIRST = Begin(op_seq=1, at=DAY, place=())
ANEW = Begin(op_seq=9, at=DAY + timedelta(days=10), place=(4, 200), version=12)


@pytest.mark.parametrize("text", ["position:3,154,0", "position: (3, 154, 0)"])
def test_a_point_is_a_place_in_the_order_of_events(text: str) -> None:
    assert parse_point(text).place == (3, 154, 0)


@pytest.mark.parametrize("value", ["2026-03-01T01:00:00+01:00", "2026-03-01T00:00:00Z", DAY])
def test_a_point_is_an_instant(value: str | datetime) -> None:
    assert parse_point(value).at == DAY


@pytest.mark.parametrize("text", ["position:", "position:a", "position:1,,2", "2026-03-01", "2026-03-01T00:00:00", "yesterday"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match=r"is not a position|has no time zone|is not a date"):
        parse_point(text)


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("2026-03-01T00:00:00Z", FIRST),
        ("2026-03-10T23:59:59Z", FIRST),
        ("2026-03-11T00:00:00Z", ANEW),
        ("position:4,199", FIRST),
        ("position:4,200", ANEW),
    ],
)
def test_the_state_at_a_point_is_made_from_the_last_beginning_before_it(text: str, begin: Begin) -> None:
    assert chosen_begin([ANEW, FIRST], parse_point(text), "shop.orders") == begin


def test_events_that_became_states_leave_the_later_beginning() -> None:
    shortened = Begin(op_seq=1, at=DAY + timedelta(days=5))
    assert chosen_begin([shortened, FIRST], parse_point(DAY + timedelta(days=6)), "shop.orders") == shortened
    assert chosen_begin([shortened, FIRST], parse_point(DAY + timedelta(days=4)), "shop.orders") == FIRST


def test_a_point_before_the_history_is_refused_with_the_time_of_its_beginning() -> None:
    with pytest.raises(HistoryUnavailableError, match=r"begins at 2026-03-01 00:00:00.000000 UTC"):
        chosen_begin([FIRST, ANEW], parse_point("2026-02-28T23:59:59Z"), "shop.orders")
    with pytest.raises(HistoryUnavailableError, match="the table has no event history"):
        chosen_begin([], None, "shop.orders")


def test_a_commit_tells_up_to_which_version_of_the_table_everything_is_noted() -> None:
    assert parse_checkpoint(render_checkpoint(HistoryCheckpoint(op_seq=7, version=12))) == HistoryCheckpoint(op_seq=7, version=12)
    for text in (None, "", "{}", "[]", "12", '{"cdc_ops_noted": {}}', "somebody's note"):
        assert parse_checkpoint(text) is None


@pytest.mark.parametrize(
    ("lowest", "newest", "again"),
    [
        ((3, 100, 7), [(3, 100, 5)], True),  # the newest event itself, delivered once more
        ((3, 101, 7), [(3, 100, 5)], False),
        ((3, 101, 7), [(3, 100, 5), (4, 0, 1)], True),
        ((3, 101, 7), [], False),
        ((), [], True),  # no event at all
    ],
)
def test_a_batch_above_all_that_came_has_nothing_that_came_before(
    lowest: tuple[int, ...], newest: list[tuple[int, ...]], again: bool
) -> None:
    assert may_be_noted(lowest, newest, 1) == again


def test_each_generation_has_a_table_of_its_own() -> None:
    assert generation_path("/lake/_cdc_events/shop/orders/", 2) == "/lake/_cdc_events/shop/orders/000002"


def request(**parts: object) -> RunRequest:
    return RunRequest(**{"run_id": "r", "trigger": "cli", "holder": "h", "kind": RunKind.RESYNC, "mode": ResyncMode.REPLAY, **parts})  # type: ignore[arg-type]


def test_a_replay_takes_a_beginning_and_nothing_else() -> None:
    assert request().checked().replaces_table
    assert not request(since=DAY).checked().replaces_table
    for parts in ({"until": DAY}, {"keys": (("1",),)}, {"since": DAY, "until": DAY + timedelta(days=1)}):
        with pytest.raises(RequestError, match="up to its end"):
            request(**parts).checked()
