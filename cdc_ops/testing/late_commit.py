"""Reproduces how loaders lose rows, for any source: a row is written early and committed late. Outside the data path."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol

from cdc_ops.core.cursor.auto_increment import CounterSamples
from cdc_ops.core.cursor.cursors import Cursor, CursorValue
from cdc_ops.core.cursor.windows import next_window
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.sources.base import Source

EARLY: Final = 100
"""The value that A writes first and commits last."""
LATER: Final = 200
"""The value that B writes and commits in between."""

_PAUSE_SECONDS: Final = 0.05
_COARSE_PAUSE_SECONDS: Final = 1.6
"""Long enough for the cursor to move on: some servers round a cursor of whole seconds."""


class Connection(Protocol):
    """Another application's connection to the server; each statement is committed unless a transaction is open."""

    def run(self, *statements: str) -> Sequence[tuple[Any, ...]]:
        """Runs the statements, and returns the rows of the last one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowed:
    """Reads windows of the column `v` of a table `events`, each from where the previous one ended."""

    source: Source
    schema: TableSchema
    cursor: Cursor
    lookback: timedelta

    def start(self) -> CursorValue:
        """Returns the watermark with which the first window begins."""
        return self.source.safe_bound(self.schema, self.cursor, self.lookback, None).value

    def read(
        self, reader: Connection, watermark: CursorValue, readings: CounterSamples | None = None
    ) -> tuple[CursorValue, list[int], CounterSamples | None]:
        """Returns the next watermark, the values of the next window, and the argument for the next call."""
        bound = self.source.safe_bound(self.schema, self.cursor, self.lookback, watermark, readings)
        window = next_window(self.cursor, watermark, bound)
        if window is None:
            return watermark, [], bound.readings
        rows = reader.run(f"SELECT v FROM events WHERE {self.source.window_predicate(self.cursor, window)}")
        return bound.value, [row[0] for row in rows], bound.readings


def read_around_a_late_commit(windows: Windowed, a: Connection, b: Connection) -> tuple[list[int], list[int]]:
    """Reads two windows around a late commit: A writes, B writes and commits, the first window is read, A commits, the second is read.

    Returns:
        The values of the first and of the second window. `EARLY` must be in the second; in neither, the row is lost.
    """
    pause = _COARSE_PAUSE_SECONDS if windows.cursor.lead.is_coarse else _PAUSE_SECONDS
    watermark = windows.start()
    time.sleep(pause)
    a.run("BEGIN", f"INSERT INTO events (v) VALUES ({EARLY})")
    b.run(f"INSERT INTO events (v) VALUES ({LATER})")
    watermark, first, readings = windows.read(b, watermark)
    a.run("COMMIT")
    time.sleep(pause)
    _, second, _ = windows.read(b, watermark, readings)
    return first, second
