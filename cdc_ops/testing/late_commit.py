"""The reproduction by which loaders lose rows, for any source: a row that is written early and committed late. Outside the data path."""

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
"""What A writes first and commits last."""
LATER: Final = 200
"""What B writes and commits in between."""

_PAUSE_SECONDS: Final = 0.05
_COARSE_PAUSE_SECONDS: Final = 1.6
"""So that the cursor has moved on; some servers round a column of whole seconds."""


class Connection(Protocol):
    """A connection of somebody else to the server, each statement committed unless a transaction is open."""

    def run(self, *statements: str) -> Sequence[tuple[Any, ...]]:
        """Runs the statements, returns the rows of the last."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowed:
    """Windows of `v` of a table `events`, each from where the one before it ended."""

    source: Source
    schema: TableSchema
    cursor: Cursor
    lookback: timedelta

    def start(self) -> CursorValue:
        """Returns the bound with which a first load begins."""
        return self.source.safe_bound(self.schema, self.cursor, self.lookback, None).value

    def read(
        self, reader: Connection, watermark: CursorValue, readings: CounterSamples | None = None
    ) -> tuple[CursorValue, list[int], CounterSamples | None]:
        """Returns the next watermark, the values of the next window, and what the source wants to be given next time."""
        bound = self.source.safe_bound(self.schema, self.cursor, self.lookback, watermark, readings)
        window = next_window(self.cursor, watermark, bound)
        if window is None:
            return watermark, [], bound.readings
        rows = reader.run(f"SELECT v FROM events WHERE {self.source.window_predicate(self.cursor, window)}")
        return bound.value, [row[0] for row in rows], bound.readings


def read_around_a_late_commit(windows: Windowed, a: Connection, b: Connection) -> tuple[list[int], list[int]]:
    """A writes and waits, B writes later and commits, a window is read, A commits, a window is read.

    Returns:
        The values of the first window and of the second: `EARLY` is in the second, and lost if it is in neither.
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
