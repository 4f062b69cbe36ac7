"""The safe upper bound of a window: a cursor value below which no transaction can still commit.

Two strategies with one shape, chosen by the cursor's type: a clock (`ClockBound`) and a counter (counter.py). Both rest on what a
`Probe` sees of the server's writers; where the user may not see other people's transactions, both fall back to staying `lookback` behind.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol, TypedDict

from cdc_ops.core.cursor.auto_increment import CounterSamples
from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType, CursorValue
from cdc_ops.core.cursor.windows import SafeBound
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.sources.bounds.activity import ReplicaState, ServerActivity, Writer
from cdc_ops.sources.bounds.time_zones import WallClock, clock_of, earliest_to_come, latest_so_far, parse_zone, require_zone
from cdc_ops.sources.topology import Topology

METHOD_WRITERS: Final = "oldest-writer"
METHOD_OVERLAP: Final = "clock-overlap"
METHOD_REPLICA: Final = "replica-lag"

SHARE_SECONDS: Final = 1.0
"""A bound stays true for ever; the tables of one run share an observation that is not older than this."""

_NOTHING_TO_HOLD: Final = (
    " This is the first load, so no watermark can wait for that transaction: its rows may be older than the first window and are then"
    " not read."
    " End it before the first load, or reconcile the table once it has ended."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundRequest:
    """The arguments of `Source.safe_bound`."""

    schema: TableSchema
    cursor: Cursor
    lookback: timedelta
    since: CursorValue | None
    readings: CounterSamples | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Observation:
    """An observation of the server, with its time by the local clock."""

    at: float
    seen: ServerActivity
    replica: ReplicaState | None


class Probe(Protocol):
    """The operations that differ between servers."""

    look_again_seconds: float
    """How long to wait between two looks at the writers."""

    def now(self) -> datetime:
        """Returns the server's clock, UTC."""
        ...

    def observe(self) -> ServerActivity:
        """Reads first the clock, then the writers; this order makes the result a safe bound."""
        ...

    def server(self) -> tuple[str, datetime]:
        """Returns the server's identity, and a time (UTC) not before its start."""
        ...

    def origin(self) -> str:
        """Returns who stamps the rows that are read here, as long as it is the same; "" if that is unknown."""
        ...

    def running(self) -> int:
        """Returns the number of client statements that the server runs, without this one."""
        ...

    def replica(self) -> ReplicaState | None:
        """Returns the lag of a replica; None for a server that is not a replica."""
        ...

    def topology(self) -> Topology:
        """Returns what the server is a part of."""
        ...

    def earliest_stamp(self, writer: Writer, lookback: timedelta) -> datetime:
        """Returns the earliest time that a writer may have put into a row."""
        ...

    def zone(self) -> tuple[str, bool]:
        """Returns the default time zone of sessions, and False if only the server itself may know this name."""
        ...

    def session_zones(self) -> tuple[str, ...]:
        """Returns the time zones of other sessions; if they are hidden, the default zone of new sessions."""
        ...

    def wall_clock(self, instants: tuple[datetime, ...]) -> tuple[datetime, ...]:
        """Converts instants to wall-clock times of a zone that only the server knows."""
        ...

    def next_number(self, table: TableName, column: str) -> int | None:
        """Returns the next number that the server will generate for a column; None for other columns."""
        ...

    def missing_grant(self, seen: ServerActivity, instead: str) -> str:
        """Returns the warning that names the missing grant."""
        ...

    def unknown_start(self, writer: Writer) -> str:
        """Returns the warning about a writer whose start is unknown."""
        ...


class BoundStrategy(Protocol):
    """A method to find a safe bound."""

    def bound(self, request: BoundRequest) -> SafeBound:
        """Returns a cursor value below which no transaction can still commit."""
        ...


class ClockBound:
    """The bound of a temporal cursor: the source's clock, held back by the oldest writer.

    Args:
        probe: The server.
        time_zone: Zone of zone-less columns; "" = the server's global zone.
    """

    def __init__(self, probe: Probe, time_zone: str) -> None:
        self._probe = probe
        self._time_zone = time_zone
        self._last: _Observation | None = None

    def bound(self, request: BoundRequest) -> SafeBound:
        """Returns the bound as a value of the cursor's lead column, rounded down to the column's precision."""
        clock, warnings = self._wall_clock(request.cursor)
        last = self._last
        if last is not None and request.since is not None and time.monotonic() - last.at < SHARE_SECONDS:
            shared = self._bound(request, last, clock, warnings)
            if request.cursor.order(shared.value) > request.cursor.order(request.since):
                return shared
        # The replica is asked first: rows that it applies later are covered by its lag of now.
        replica = self._probe.replica()
        self._last = look = _Observation(at=time.monotonic(), seen=self._probe.observe(), replica=replica)
        return self._bound(request, look, clock, warnings)

    def literal(self, cursor: Cursor, instant: datetime) -> datetime:
        """Returns the wall-clock time of an instant as a value of the lead column."""
        clock, _ = self._wall_clock(cursor)
        return clock((instant,))[0]

    def latest(self, cursor: Cursor, instant: datetime) -> datetime:
        """Returns the greatest wall-clock time that writers can have put into the lead column up to an instant."""
        clock, _ = self._wall_clock(cursor)
        return latest_so_far(instant, clock)

    def _bound(self, request: BoundRequest, look: _Observation, clock: WallClock, warnings: tuple[str, ...]) -> SafeBound:
        seen, replica, oldest = look.seen, look.replica, look.seen.oldest
        high, method = seen.now, METHOD_WRITERS
        holder: Writer | None = None
        if not seen.complete:
            high, method = seen.now - request.lookback, METHOD_OVERLAP
            warnings += (self._probe.missing_grant(seen, f"windows stay {seconds(request.lookback)} behind the clock instead"),)
        elif oldest is not None and oldest.started < seen.now:
            high, holder = self._probe.earliest_stamp(oldest, request.lookback), oldest
        if replica is not None:
            high = min(high, seen.now - replica.lag - request.lookback)
            method = METHOD_REPLICA
            warnings += (replica.warning(request.lookback),)
        now, exact, lead = clock((seen.now,))[0], earliest_to_come(high, clock), request.cursor.lead
        value = self._value(request, clock, high)
        unknown = next((writer for writer in seen.writers if not writer.start_known), None)
        if unknown is not None:
            value = request.since or self._value(request, clock, high - request.lookback)
            holder = unknown
            warnings += (self._probe.unknown_start(unknown) + ("" if request.since else _NOTHING_TO_HOLD),)
        return SafeBound(
            value=value,
            clock=CursorValue(parts=(lead.literal(now),)),
            method=method,
            observed_at=seen.now,
            warnings=warnings,
            reach=_reach(lead, value) if lead.is_coarse else None,
            behind=max(now - exact, timedelta(0)) if lead.is_coarse and unknown is None else None,
            **held_by(holder),
        )

    def _value(self, request: BoundRequest, clock: WallClock, high: datetime) -> CursorValue:
        # A writer whose NOW() has fractions stores it cut down: only whole units of the column's own resolution are over.
        lead = request.cursor.lead
        return CursorValue(parts=(lead.literal(lead.floor(earliest_to_come(high, clock))),))

    def _wall_clock(self, cursor: Cursor) -> tuple[WallClock, tuple[str, ...]]:
        if cursor.lead.type is CursorType.TIMESTAMP:
            return clock_of(UTC), ()
        if self._time_zone:
            return clock_of(require_zone(self._time_zone)), ()
        name, may_be_known = self._probe.zone()
        zone = parse_zone(name)
        if zone is UTC:
            return clock_of(UTC), ()
        warning = (
            f"The server's time zone is {name}: column {cursor.lead.name!r} is read as wall-clock time of that zone, and where clocks are "
            "set back runs wait for an hour. Set 'time_zone' of the source to the zone in which the application writes."
        )
        if zone is None or not may_be_known:
            return self._probe.wall_clock, (warning,)
        return clock_of(zone), (warning,)


def _reach(lead: CursorColumn, value: CursorValue) -> CursorValue:
    """Returns the end of the unit that is not over; of seconds one more, because Postgres rounds them up."""
    units = 1 if lead.type is CursorType.DATE else 2
    return CursorValue(parts=(lead.literal(lead.moment(value.parts[0]) + units * lead.unit),))


class _Held(TypedDict, total=False):
    held_by: str
    held_since: datetime
    held_hint: str


def held_by(writer: Writer | None) -> _Held:
    """Returns the text about the writer that holds a bound back."""
    return _Held() if writer is None else _Held(held_by=writer.label, held_since=writer.started, held_hint=writer.hint)


def seconds(span: timedelta) -> str:
    """Returns a duration as text for messages."""
    return f"{span.total_seconds():g} s"
