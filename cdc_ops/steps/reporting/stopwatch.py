"""Measures how long the phases of a table's work take (`core.phases`), where the work is done.

    with stopwatch() as watch:             # around the work on one table, in its thread
        with measured(RunPhase.LANDING):   # around an action, wherever it is
            ...
    watch.phases

A phase within another one stops the outer one's clock. Without a stopwatch nothing is measured. Spark works lazily: only what really runs
within a body is measured as its phase.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar

from cdc_ops.core.phases import Phases, PhaseSeconds, RunPhase, added, total_seconds
from cdc_ops.state.processes import this_process


class Stopwatch:
    """Adds up the seconds of phases; for one thread."""

    def __init__(self) -> None:
        self._seconds: dict[RunPhase, float] = {}
        self._running: list[RunPhase] = []
        self._since = 0.0

    @property
    def phases(self) -> Phases:
        """The phases that have ended so far."""
        return added(PhaseSeconds(phase=phase, seconds=seconds) for phase, seconds in self._seconds.items())

    def enter(self, phase: RunPhase) -> None:
        """Begins a phase; the one that runs stands still."""
        self._take()
        self._running.append(phase)
        self._seconds.setdefault(phase, 0.0)

    def leave(self) -> None:
        """Ends the phase that runs; the one around it goes on."""
        self._take()
        self._running.pop()

    def split(self, parts: Iterable[PhaseSeconds]) -> None:
        """Takes the seconds of phases that somebody else has measured off the phase that runs; no more than it has."""
        self._take()
        left = self._seconds[self._running[-1]]
        shares = [item for item in parts if item.seconds > 0]
        scale = min(left / total, 1.0) if (total := total_seconds(shares)) else 0.0
        for item in shares:
            self._seconds[item.phase] = self._seconds.get(item.phase, 0.0) + item.seconds * scale
        self._seconds[self._running[-1]] = left - total * scale

    def add(self, other: "Stopwatch") -> None:
        """Adds what another one has measured, while no phase ran here."""
        for phase, seconds in other._seconds.items():
            self._seconds[phase] = self._seconds.get(phase, 0.0) + seconds

    def _take(self) -> None:
        now = time.monotonic()
        if self._running:
            self._seconds[self._running[-1]] += now - self._since
        self._since = now


_current: ContextVar[Stopwatch | None] = ContextVar("cdc_ops_stopwatch", default=None)


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Yields the stopwatch to which `measured` of this thread adds for the body of the `with`; one around it gets all of it at the end."""
    watch, around = Stopwatch(), _current.get()
    token = _current.set(watch)
    try:
        yield watch
    finally:
        _current.reset(token)
        if around is not None:
            around.add(watch)


@contextmanager
def measured(phase: RunPhase) -> Iterator[None]:
    """Adds the wall time of the body of the `with` to a phase."""
    watch = _current.get()
    if watch is None:
        yield
        return
    watch.enter(phase)
    try:
        yield
    finally:
        watch.leave()


@contextmanager
def measured_until(phase: RunPhase, called: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """As `measured`, but the phase ends as soon as the function that it yields is called, which does what `called` does."""
    with ExitStack() as stack:
        stack.enter_context(measured(phase))

        def ended() -> None:
            stack.close()
            called()

        yield ended


def split(parts: Iterable[PhaseSeconds]) -> None:
    """Takes phases that Delta has measured off the phase that runs."""
    if (watch := _current.get()) is not None:
        watch.split(parts)


_noted: list[Phases] = []


def note_imports() -> None:
    """Notes how long the imports of this process took: called where its work begins."""
    _noted[:] = [import_phases()]


@contextmanager
def noted_imports() -> Iterator[None]:
    """Adds the imports in the body of the `with` to what was noted."""
    with stopwatch() as watch, measured(RunPhase.IMPORTS):
        yield
    _noted[:] = [added(*_noted, watch.phases)]


def take_noted_imports() -> Phases:
    """Returns what was noted, and only once: it is told with the first job."""
    return _noted.pop() if _noted else ()


def import_phases() -> Phases:
    """Returns how long this process has run, to be called when its modules are read; empty where the system does not tell."""
    process = this_process()
    if process is None:
        return ()
    seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - process.started / os.sysconf("SC_CLK_TCK")
    return (PhaseSeconds(phase=RunPhase.IMPORTS, seconds=round(seconds, 3)),)
