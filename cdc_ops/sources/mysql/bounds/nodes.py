"""The writers of all nodes of a cluster, as one observation (Galera, Group Replication with several primaries).

What is open on a node is listed by that node only. So each is asked, by a session of its own that does not wait for the others:

1. the view of each: it is a node of the same cluster, and all that can write are here;
2. of each the clock, then its writers;
3. the views again: nobody has joined, left or changed its state, else it begins again.

The bound is the least of all clocks, this machine's among them, less the skew that clocks may have. A row below it was written by a
transaction that had ended when its node was listed: it is rolled back, or ordered in the cluster before any read that waits for all that is
ordered (session.py: causal wait).
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from cdc_ops.errors import SourceError, SourceUnreachableError
from cdc_ops.sources.bounds.activity import ServerActivity, Writer
from cdc_ops.sources.mysql.bounds.open_transactions import observe
from cdc_ops.sources.mysql.replication.topology import read_topology
from cdc_ops.sources.mysql.session import MySQLSession
from cdc_ops.sources.sql.session import NOTHING
from cdc_ops.sources.topology import Topology, Writes

SKEW: Final = timedelta(seconds=2)
"""How far the clock of a node may be from that of this machine, also of a node that joins later; the bound stays that far behind both."""

_ATTEMPTS: Final = 3


def observe_nodes(sessions: Sequence[MySQLSession]) -> ServerActivity:
    """Returns who still writes on any node.

    Args:
        sessions: One for each node that can write, the source's own first; none of them waits for what other nodes have committed.

    Raises:
        SourceError: a node is missing, is not a part of the cluster, or its clock is wrong.
        SourceUnreachableError: members come and go.
    """
    for _ in range(_ATTEMPTS):
        before, local = _views(sessions), datetime.now(UTC)
        activities = [_observed(session) for session in sessions]
        if _views(sessions) == before:
            return merge(activities, [session.place for session in sessions], local)
    raise SourceUnreachableError(
        f"Members of the cluster at {sessions[0].place} join or leave while they are asked who still writes.",
        data=NOTHING,
        next="Nothing to do for a single case: scheduled runs retry automatically.",
    )


def merge(activities: Sequence[ServerActivity], places: Sequence[str], local: datetime) -> ServerActivity:
    """Returns the activity of a cluster from those of its nodes: the earliest clock, less the skew, and the writers of all.

    The nodes that are here are below no clock of their own. A node that joins later may be as far behind this machine as any may, however
    far ahead the others are; so the clock of this machine counts, too.

    Args:
        activities: Of each node.
        places: Where they are.
        local: The clock of this machine before the first was asked.
    """
    blind = next((one for one in activities if not one.complete), None)
    writers = [_at(writer, place) for one, place in zip(activities, places, strict=True) for writer in one.writers]
    return ServerActivity(
        now=min(local, *(one.now for one in activities)) - SKEW,
        writers=tuple(writers) if blind is None else (),
        complete=blind is None,
        account=(blind or activities[0]).account,
        nodes=len(activities),
    )


def _at(writer: Writer, place: str) -> Writer:
    return replace(writer, started=writer.started - SKEW, label=f"{writer.label} of the node {place}", hint=f"On {place}: {writer.hint}")


def _observed(session: MySQLSession) -> ServerActivity:
    begun, local = time.monotonic(), datetime.now(UTC)
    clock = session.row("SELECT UTC_TIMESTAMP(6) AS now")["now"].replace(tzinfo=UTC)
    check_clock(session.place, clock, local, timedelta(seconds=time.monotonic() - begun))
    return observe(session)


def check_clock(place: str, clock: datetime, asked: datetime, took: timedelta) -> None:
    """Refuses a node whose clock is surely too far from that of this machine: it was read at some time within the round trip.

    Args:
        place: Where the node is.
        clock: Its clock.
        asked: This machine's clock when it was asked.
        took: The round trip.

    Raises:
        SourceError: it is.
    """
    behind, ahead = asked - clock, clock - asked - took
    if max(behind, ahead) <= SKEW:
        return
    further = " Rows that it has stamped may be below the watermark: once the clocks agree, run 'cdc-ops reconcile --rows'."
    raise SourceError(
        f"The clock of the node {place} is {max(behind, ahead).total_seconds():.1f} s {'behind' if behind > ahead else 'ahead of'} the"
        " clock of this machine.",
        why="Rows are stamped by the clock of the node that writes; a bound over several nodes holds only if their clocks agree.",
        data=NOTHING,
        next=f"Set the clocks of all nodes and of this machine by NTP; they may be {SKEW.total_seconds():g} s apart."
        + (further if behind > ahead else ""),
    )


def _views(sessions: Sequence[MySQLSession]) -> list[str]:
    found = [read_topology(session) for session in sessions]
    for session, topology in zip(sessions, found, strict=True):
        if topology.writes is not Writes.ALL_NODES:
            raise topology.refusal(session.place) if topology.why else _not_of_cluster(session, "it is not a node of a cluster")
    _check(sessions, found)
    return [topology.view for topology in found]


def _check(sessions: Sequence[MySQLSession], found: Sequence[Topology]) -> None:
    if len({topology.view for topology in found}) < len(found):
        raise _not_of_cluster(sessions[-1], "two connections lead to the same node")
    if len({topology.view.partition(" ")[2] for topology in found}) > 1:
        raise _not_of_cluster(sessions[-1], "the nodes belong to different clusters, or do not agree on their members")
    if found[0].nodes != len(sessions):
        raise replace(
            found[0], why=f"{found[0].nodes} nodes can write, and 'connection' and 'writers' of the source name {len(sessions)}."
        ).refusal(sessions[0].place)


def _not_of_cluster(session: MySQLSession, why: str) -> SourceError:
    return SourceError(
        f"The connection of 'writers' to {session.place} is not another writing node of the source's cluster.",
        why=f"{why[0].upper()}{why[1:]}.",
        data=NOTHING,
        next="Name in 'writers' of the source the connections of all other nodes that can write, each directly and once.",
    )
