"""Samples of a source's AUTO_INCREMENT counter, kept from run to run, and the safe bound that they prove. Pure.

Numbers are handed out before they are committed: with 4 still open and 5 committed, MAX is 5, and 4 would never be read. While writers
overlap for ever there is no moment at which all numbers below the counter are committed, so a bound that waits for one never moves.

A *reading* is what the counter was, and what the source's clock was **after** that, in this order:

1. the counter: every number below it has been handed out by now;
2. the clock, `at`: so every number below the counter was handed out before `at`.

A transaction that holds one of those numbers took it after it had begun, so it began before `at`. When the oldest writer that is open now
began after `at`, none of them is open any more: they are committed, or never will be. With the clock read first a transaction could begin,
and take its number, between the two: its number would be below the counter although it began after `at`, and its row would be lost.

A clock can be set back while a writer is open; then the writer began, by the clock, after a reading that is taken later. So `at` is raised
to the start of every writer that is still open at the look: what began after `at` is none of those. (Of a statement whose age a server
tells in whole seconds the start is not quite steady: there both rules are needed, and a clock that is set back while it runs is too much.)

Readings are a cache. Without them a bound stays where it is for longer, and is as safe.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

MOST_READINGS: Final = 24
_TICK: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterSample:
    """A counter value and the time at which it was read.

    Args:
        at: The source's clock right after the counter was read, UTC; not before any writer began that was open then.
        counter: Exclusive: all numbers below it had been handed out.
    """

    at: datetime
    counter: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterSamples:
    """The samples of one cursor on one server, oldest first; times and counters both increase.

    Args:
        server: Which server it was: another one has another clock and may hand out numbers of its own.
        column: The cursor's lead column.
        kept: At most `MOST_READINGS`.
    """

    server: str
    column: str
    kept: tuple[CounterSample, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterObservation:
    """A sample of a counter, with the server and column that it belongs to.

    Args:
        server: Which server was asked.
        up_since: Not before that server was started, UTC.
        column: The cursor's lead column.
        reading: What was read.
        handed_out: The server's own counter, at least the reading's; what was read earlier cannot lie above it.
    """

    server: str
    up_since: datetime
    column: str
    reading: CounterSample
    handed_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WritersOpen:
    """The writing transactions that were open when the source was asked, after the counter was read, and that have not ended since.

    Args:
        starts: Not after each of them began, UTC, by the server's clock; there is at least one.
        known: False if nobody knows when one of them began.
    """

    starts: tuple[datetime, ...]
    known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBound:
    """The bound that is proven while writers are open, and the samples to keep.

    Args:
        proven: The reading below which nothing can still be committed, None if there is none above the watermark.
        readings: What is to be kept for later plans.
    """

    proven: CounterSample | None
    readings: CounterSamples


def bound_from_samples(earlier: CounterSamples | None, look: CounterObservation, writers: WritersOpen, watermark: int | None) -> HeldBound:
    """Returns the bound of a cursor that is safe although writers are open.

    Args:
        earlier: What the plan before this one kept.
        look: The counter of now; taken before the writers were looked at.
        writers: Who was open then, and still is.
        watermark: The table's watermark; None before its first load.

    At 12:00 the counter was 100. The oldest writer that is open at 12:10 began at 12:05, so it holds no number below
    100. The counter of 12:10 (150) proves nothing yet, and is kept for later plans:

    >>> from datetime import UTC
    >>> def at(minute: int) -> datetime:
    ...     return datetime(2026, 1, 31, 12, minute, tzinfo=UTC)
    >>> earlier = CounterSamples(server="db1", column="id", kept=(CounterSample(at=at(0), counter=100),))
    >>> now = CounterSample(at=at(10), counter=150)
    >>> look = CounterObservation(server="db1", up_since=datetime(2026, 1, 1, tzinfo=UTC), column="id", reading=now, handed_out=150)
    >>> held = bound_from_samples(earlier, look, WritersOpen(starts=(at(5),)), watermark=40)
    >>> held.proven.counter
    100
    >>> [sample.counter for sample in held.readings.kept]
    [100, 150]
    """
    kept = _usable(earlier, look)
    newest = replace(look.reading, at=max(look.reading.at, *writers.starts))
    # Strictly before: within one tick of the clock nobody knows what came first.
    older = [one for one in kept if writers.known and all(one.at < start for start in writers.starts)]
    proven = max(older, key=lambda one: one.counter, default=None)
    return HeldBound(
        proven=proven if proven is not None and (watermark is None or proven.counter > watermark) else None,
        readings=CounterSamples(server=look.server, column=look.column, kept=_thinned(kept, newest, watermark)),
    )


def _usable(readings: CounterSamples | None, look: CounterObservation) -> tuple[CounterSample, ...]:
    """Returns the earlier samples that are still valid: same server, taken since its start, same counter.

    All are dropped when the clock or the counter went back: then they are of a time, or of numbers, that come a second time.
    """
    if readings is None or (readings.server, readings.column) != (look.server, look.column):
        return ()
    if any(one.at > look.reading.at or one.counter > look.handed_out for one in readings.kept):
        return ()
    return tuple(one for one in readings.kept if one.at > look.up_since)


def _thinned(kept: tuple[CounterSample, ...], newest: CounterSample, watermark: int | None) -> tuple[CounterSample, ...]:
    """Returns the samples that can still move the watermark: the oldest of equal ones, up to a maximum."""
    chosen: list[CounterSample] = []
    for one in (*kept, newest):
        if (watermark is None or one.counter > watermark) and (not chosen or one.counter > chosen[-1].counter):
            chosen.append(one)
    while len(chosen) > MOST_READINGS:
        del chosen[_least_missed(chosen)]
    return tuple(chosen)


def _least_missed(readings: list[CounterSample]) -> int:
    """Returns the sample whose removal leaves the smallest gap for its age; never the oldest, which an old writer needs, nor the newest."""
    newest = readings[-1].at

    def gap(index: int) -> float:
        """Returns the gap that a sample's lack leaves, relative to the age of its start."""
        before = readings[index - 1].at
        return (readings[index + 1].at - before) / max(newest - before, _TICK)

    return min(range(1, len(readings) - 1), key=gap)
