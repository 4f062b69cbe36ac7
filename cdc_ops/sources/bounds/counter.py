"""The safe bound of an integer cursor: the counter, once the writers that were open when it was read have ended; see clock.py.

If they do not end, as one always overlaps the next, an earlier reading of the counter does (core/cursor/auto_increment.py).
"""

import time
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from cdc_ops.core.cursor.auto_increment import CounterObservation, CounterSample, WritersOpen, bound_from_samples
from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.windows import SafeBound
from cdc_ops.errors import SourceTableError
from cdc_ops.sources.bounds.activity import ServerActivity, Writer
from cdc_ops.sources.bounds.clock import BoundRequest, Probe, held_by, seconds
from cdc_ops.sources.sql.dialect import Dialect
from cdc_ops.sources.sql.session import NOTHING, SqlSession

METHOD_COUNTER: Final = "counter-after-writers"
METHOD_COUNTER_KEPT: Final = "counter-before-writers"
METHOD_COUNTER_OVERLAP: Final = "counter-overlap"

_LONGEST_WAIT: Final = timedelta(seconds=10)
_LONGEST_BLIND_WAIT: Final = timedelta(seconds=60)


class CounterBound:
    """The bound of an integer cursor: the counter, once every writer that was open when it was read has ended.

    Numbers are handed out before commit: with 4 still open and 5 committed, MAX is 5, and 4 would never be read.

    Args:
        probe: The server.
        session: The connection, which is asked for the column's values.
        dialect: How names are quoted.
    """

    def __init__(self, probe: Probe, session: SqlSession, dialect: Dialect) -> None:
        self._probe = probe
        self._session = session
        self._dialect = dialect

    def bound(self, request: BoundRequest) -> SafeBound:
        """Returns the counter or, if writers do not end in time, the newest older sample, or the watermark."""
        counter, clock, warnings = self._counter(request)
        observed_at = self._probe.now()  # after the counter: readings are worth nothing the other way round
        if request.since is not None and counter <= int(request.since.parts[0]):
            return SafeBound(value=request.since, clock=_number(clock), method=METHOD_COUNTER, observed_at=observed_at, warnings=warnings)
        replica, seen = self._probe.replica(), self._probe.observe()
        if seen.nodes > 1 or (replica is not None and replica.declared):
            raise _several_nodes(request)
        if replica is not None or not seen.complete:
            wait = min(request.lookback, _LONGEST_BLIND_WAIT)
            time.sleep(wait.total_seconds())
            missing = self._probe.missing_grant(seen, f"each run waits {seconds(wait)} for uncommitted rows")
            warnings += (replica.warning(wait) if replica else missing,)
            return self._result(counter, clock, observed_at, METHOD_COUNTER_OVERLAP, warnings)
        open_writers = self._wait(seen, min(max(request.lookback, timedelta(seconds=1)), _LONGEST_WAIT))
        if not open_writers:
            return self._result(counter, clock, observed_at, METHOD_COUNTER, warnings)
        free = self._result(counter, clock, observed_at, METHOD_COUNTER, warnings)
        return self._held(request, CounterSample(at=observed_at, counter=counter), open_writers, free)

    def _held(self, request: BoundRequest, reading: CounterSample, writers: tuple[Writer, ...], free: SafeBound) -> SafeBound:
        """Returns the bound while writers are open, from what the bound would be without them."""
        identity, up_since = self._probe.server()
        found = bound_from_samples(
            request.readings,
            CounterObservation(
                server=identity,
                up_since=up_since,
                column=request.cursor.lead.name,
                reading=reading,
                handed_out=int(free.clock.parts[0]),
            ),
            WritersOpen(
                starts=tuple(self._probe.earliest_stamp(writer, request.lookback) for writer in writers),
                known=all(writer.start_known for writer in writers),
            ),
            int(request.since.parts[0]) if request.since else None,
        )
        oldest = min(writers, key=lambda writer: writer.started)
        bound = replace(free, readings=found.readings, **held_by(oldest))
        if found.proven is not None:
            # Rows at the end may be deleted since: the bound is never above the counter of now.
            value = _number(min(found.proven.counter, reading.counter))
            return replace(bound, value=value, method=METHOD_COUNTER_KEPT, behind=reading.at - found.proven.at)
        if request.since is not None:
            return replace(bound, value=request.since)
        warning = f"Held back by {oldest.label}: the first increment will read the whole table once more."
        return replace(bound, value=_number(self._lowest(request, reading.counter)), warnings=(*free.warnings, warning))

    def _counter(self, request: BoundRequest) -> tuple[int, int, tuple[str, ...]]:
        """Returns the number after the last committed one, the source's own counter, and warnings."""
        name, table = self._dialect.name(request.cursor.lead.name), self._dialect.table(request.schema.table)
        highest = self._session.row(f"SELECT MAX({name}) AS highest FROM {table}")["highest"]
        since = int(request.since.parts[0]) if request.since else None
        handed_out = self._probe.next_number(request.schema.table, request.cursor.lead.name)
        after = int(highest) + 1 if highest is not None else None
        if handed_out is not None:
            # Rows at the end may be deleted, so MAX may go back; the counter itself may not.
            return (after if after is not None else min(since or handed_out, handed_out)), max(handed_out, after or 0), ()
        counter = after if after is not None else (since or 0)
        if since is None or counter >= since:
            return counter, counter, ()
        warning = (
            f"The largest {request.cursor.lead.name!r} of {request.schema.table} is {counter - 1}, below the watermark {since}: "
            "either the last rows were deleted, or the numbers restarted. After a restart of the numbers, run 'cdc-ops resync --mode full'."
        )
        return counter, since, (warning,)

    def _wait(self, seen: ServerActivity, patience: timedelta) -> tuple[Writer, ...]:
        """Waits until all the writers have ended; returns those that have not."""
        waiting, deadline = seen.writers, time.monotonic() + patience.total_seconds()
        while waiting and time.monotonic() < deadline:
            time.sleep(self._probe.look_again_seconds)
            later = self._probe.observe().writers
            waiting = tuple(
                one
                for one in waiting
                # What is prepared meanwhile has no connection any more, and may have no other start than that.
                if any(one.is_same(other) and (other.started <= seen.now or not other.connection) for other in later)
            )
        return waiting

    def _lowest(self, request: BoundRequest, counter: int) -> int:
        name, table = self._dialect.name(request.cursor.lead.name), self._dialect.table(request.schema.table)
        lowest = self._session.row(f"SELECT MIN({name}) AS lowest FROM {table}")["lowest"]
        return int(lowest) if lowest is not None else min(counter, 0)

    @staticmethod
    def _result(counter: int, clock: int, observed_at: datetime, method: str, warnings: tuple[str, ...]) -> SafeBound:
        return SafeBound(value=_number(counter), clock=_number(clock), method=method, observed_at=observed_at, warnings=warnings)


def _several_nodes(request: BoundRequest) -> SourceTableError:
    return SourceTableError(
        f"Table {request.schema.table} cannot be read by the counter {request.cursor.lead.name!r}.",
        why="Several servers write it, and each hands out numbers of its own: a smaller one can be committed after a larger one.",
        data=NOTHING,
        next="Set 'cursor' of the table to a column of time, such as updated_at, or use the log method.",
    )


def _number(value: int) -> CursorValue:
    return CursorValue(parts=(str(value),))
