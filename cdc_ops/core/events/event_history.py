"""The event history of a table that follows an archive: all its events, and the points from which they can be replayed. Pure.

One Delta table for each generation of the lake's table; its rows are of four kinds:

    begin    from here on the history is whole; what came before is in the `state` rows of the same operation
    state    a row as the lake had it, or (`op` d) a row that is gone: where a history begins, and where something else than an event
             changed the lake (reconcile, resync, backfill); it counts from when it was committed
    change   an event of the canonical feed
    ddl      a statement of the archive that changed columns

Folded in the order of `position`, a state behind the event whose place it has, they come to the rows of the lake's table.
"""

import enum
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cdc_ops.core.archive.watermarks import Position
from cdc_ops.core.instants import parse_instant
from cdc_ops.errors import HistoryUnavailableError, RequestError

EVENT_HISTORY: Final = "cdc_ops.event_history"
"""The property of a Delta table that names the folder of its event history."""

_CHECKPOINT: Final = "cdc_ops_noted"
_PLACE: Final = re.compile(r"\d{1,19}(,\d{1,19})*", re.ASCII)


class HistoryKind(enum.StrEnum):
    """The kind of a row in a history."""

    BEGIN = "begin"
    STATE = "state"
    CHANGE = "change"
    DDL = "ddl"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHistory:
    """The location of the events of an operation.

    Args:
        root: Folder of the table's history.
        path: Delta table of the generation.
        retention: How long events are kept; older ones become states of rows.
    """

    root: str
    path: str
    retention: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The part of a history that an operation replays.

    Args:
        path: Delta table of the history.
        since: Only events that the source made at that time or later (UTC), over the rows that the table has; None rebuilds the table from
            all of the history.
    """

    path: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """The point from which a history is complete.

    Args:
        op_seq: Number of the operation whose events come first; rows with a smaller one belong to an earlier beginning.
        at: When the rows that it begins with were committed, UTC; of a history that begins with the table itself, when the source made
            the first event of its first batch.
        place: The largest place whose event is in these rows; () if there is none.
        version: Delta version of the table that they are from, -1 = there was none.
        columns: The columns that the table had.
    """

    op_seq: int
    at: datetime
    place: Position = ()
    version: int = -1
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCheckpoint:
    """The point up to which a history is complete.

    Args:
        op_seq: The last operation whose events are.
        version: Delta version of the table up to which other changes are.
    """

    op_seq: int
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point in a table's history, inclusive: a time of the source, or a position in the order of events.

    Args:
        text: As it was given.
        at: The time, UTC.
        place: The place, or the first numbers of it: all that begins with these is included then.
    """

    text: str
    at: datetime | None = None
    place: Position = ()


def generation_path(root: str, generation: int) -> str:
    """Returns the path of the Delta table with the history of a generation."""
    return f"{root.rstrip('/')}/{generation:06d}"


def parse_point(value: str | datetime, name: str = "at") -> Point:
    """Parses a point: an instant with a time zone, or `position:` and its numbers, most significant first.

    Raises:
        RequestError: it is neither.
    """
    text = value.isoformat() if isinstance(value, datetime) else value.strip()
    prefix, _, rest = text.partition(":")
    if prefix != "position":
        return Point(text=text, at=parse_instant(text, name))
    numbers = rest.replace(" ", "").strip("()")
    if not _PLACE.fullmatch(numbers):
        raise RequestError(
            f"{name}={text!r} is not a position of an event.",
            why="A position is a list of whole numbers.",
            data="Nothing was read.",
            next="Write its numbers, most significant first, as in column '_cdc_sequence'; the leading numbers are enough: position:3,154.",
        )
    return Point(text=text, place=tuple(map(int, numbers.split(","))))


def chosen_begin(begins: Iterable[Begin], point: Point | None, table: str) -> Begin:
    """Returns the last beginning of a history at or before a point.

    Args:
        begins: Of the histories of all generations that there are, in any order.
        point: Which point; None = now.
        table: Whose, for messages.

    Raises:
        HistoryUnavailableError: none is that early.
    """
    known = sorted(begins, key=lambda one: (one.op_seq, one.at))
    fitting = [one for one in known if point is None or _reaches(one, point)]
    if fitting:
        return fitting[-1]
    first = known[0].at if known else None
    raise HistoryUnavailableError(
        f"The state of {table} at {point.text if point else 'this time'} is unknown: "
        + (f"its event history begins at {first:%Y-%m-%d %H:%M:%S.%f} UTC." if first else "the table has no event history."),
        why="" if first else "'event_history' is not set, or no event has arrived since it was set.",
        data="Nothing was read; the table is as it was.",
        next="Choose a later point. Delta time travel may have earlier states, until VACUUM removes their files.",
    )


def _reaches(begin: Begin, point: Point) -> bool:
    if point.at is None:
        return begin.place[: len(point.place)] <= point.place
    return begin.at <= point.at


def may_be_noted(lowest: Position, newest: Iterable[Position], of_delivery: int) -> bool:
    """Returns whether a batch may repeat earlier events.

    Args:
        lowest: The smallest place among them.
        newest: The newest place that the table has of each stream.
        of_delivery: How many of the last numbers of a place are others when an event is delivered again.
    """
    last = max(newest, default=())
    return lowest[: len(lowest) - of_delivery] <= last[: len(last) - of_delivery]


def render_checkpoint(checkpoint: HistoryCheckpoint) -> str:
    """Returns what a commit of a history says of itself; `parse_checkpoint` is the way back."""
    return json.dumps({_CHECKPOINT: {"op_seq": checkpoint.op_seq, "version": checkpoint.version}})


def parse_checkpoint(text: str | None) -> HistoryCheckpoint | None:
    """Returns up to where everything is in a history at one of its commits, None if the commit does not tell."""
    try:
        told = json.loads(text or "")[_CHECKPOINT]
        return HistoryCheckpoint(op_seq=int(told["op_seq"]), version=int(told["version"]))
    except (ValueError, TypeError, KeyError):
        return None
