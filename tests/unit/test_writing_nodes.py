"""Observations of several nodes as one."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from cdc_ops.errors import SourceError
from cdc_ops.sources.bounds.activity import ServerActivity, Writer
from cdc_ops.sources.mysql.bounds.nodes import SKEW, check_clock, merge

NOON = datetime(2026, 2, 1, 12, tzinfo=UTC)


def seen(after: float, *writers: Writer, complete: bool = True, account: str = "a@h") -> ServerActivity:
    return ServerActivity(now=NOON + timedelta(seconds=after), writers=writers, complete=complete, account=account)


def test_the_activity_of_a_cluster_is_the_earliest_clock_and_the_writers_of_all() -> None:
    one, other = (Writer(connection=7, transaction="", started=NOON, label=text, hint="KILL 7") for text in ("one", "other"))
    found = merge([seen(1, one), seen(0.5, other), seen(3)], ["a:1", "b:2", "c:3"], NOON + timedelta(seconds=2))
    assert found.now == NOON + timedelta(seconds=0.5) - SKEW
    assert [(writer.label, writer.hint, writer.started) for writer in found.writers] == [
        ("one of the node a:1", "On a:1: KILL 7", NOON - SKEW),
        ("other of the node b:2", "On b:2: KILL 7", NOON - SKEW),
    ]
    assert (found.complete, found.nodes) == (True, 3)


def test_a_cluster_is_seen_only_if_every_node_shows_its_writers_and_the_missing_grant_is_that_node_s() -> None:
    found = merge([seen(1), seen(2, complete=False, account="b@h")], ["a:1", "b:2"], NOON)
    assert (found.complete, found.account, found.writers) == (False, "b@h", ())


def test_where_all_clocks_are_ahead_a_node_that_joins_with_a_clock_that_may_be_behind_stamps_nothing_below_the_bound() -> None:
    found = merge([seen(SKEW.total_seconds()), seen(1.5)], ["a:1", "b:2"], NOON)
    behind = NOON - SKEW  # the furthest that a clock may be when it is asked
    assert found.now <= behind


@pytest.mark.parametrize(
    ("clock", "took", "said"),
    [
        (-2.0, 0.5, ""),
        (-2.1, 0.5, r"2\.1 s behind .* run 'cdc-ops reconcile --rows'"),  # however long the answer took, it was not read earlier
        (2.4, 0.5, ""),
        (2.6, 0.5, r"2\.1 s ahead of the clock of this machine"),
    ],
)
def test_a_node_whose_clock_is_surely_too_far_off_is_refused_by_name(clock: float, took: float, said: str) -> None:
    given = ("c:3", NOON + timedelta(seconds=clock), NOON, timedelta(seconds=took))
    if not said:
        check_clock(*given)
        return
    with pytest.raises(SourceError, match="The clock of the node c:3") as caught:
        check_clock(*given)
    assert re.search(said, str(caught.value), re.DOTALL)
