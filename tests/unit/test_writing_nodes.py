"""Observations of several nodes as one."""

from datetime import UTC, datetime, timedelta

from cdc_ops.sources.bounds.activity import ServerActivity, Writer
from cdc_ops.sources.mysql.nodes import SKEW, merge

NOON = datetime(2026, 2, 1, 12, tzinfo=UTC)


def seen(after: float, *writers: Writer, complete: bool = True, account: str = "a@h") -> ServerActivity:
    return ServerActivity(now=NOON + timedelta(seconds=after), writers=writers, complete=complete, account=account)


def test_the_activity_of_a_cluster_is_the_earliest_clock_and_the_writers_of_all() -> None:
    one, other = (Writer(connection=7, transaction="", started=NOON, label=text, hint="KILL 7") for text in ("one", "other"))
    found = merge([seen(1, one), seen(0.5, other), seen(3)], ["a:1", "b:2", "c:3"])
    assert found.now == NOON + timedelta(seconds=0.5) - SKEW
    assert [(writer.label, writer.hint, writer.started) for writer in found.writers] == [
        ("one of the node a:1", "On a:1: KILL 7", NOON - SKEW),
        ("other of the node b:2", "On b:2: KILL 7", NOON - SKEW),
    ]
    assert (found.complete, found.nodes) == (True, 3)


def test_a_cluster_is_seen_only_if_every_node_shows_its_writers_and_the_missing_grant_is_that_node_s() -> None:
    found = merge([seen(1), seen(2, complete=False, account="b@h")], ["a:1", "b:2"])
    assert (found.complete, found.account, found.writers) == (False, "b@h", ())
