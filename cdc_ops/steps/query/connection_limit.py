"""The readers of one Spark application: its tables run side by side and share what the source allows. Runs in Spark's driver."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import CompareRead
from cdc_ops.core.schema.tables import TableName

logger = logging.getLogger("cdc_ops.source")


class ConnectionLimit:
    """Lets operations read together while their JDBC connections stay within `max_connections` of the source; the others wait their turn.

    Who came first reads first, so an operation that needs all of them is not passed by small ones for ever. Whoever has to wait is logged.

    Args:
        most: Connections at the same time; 0 = no limit.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._free = most
        self._changed = threading.Condition()
        self._queue: list[object] = []

    @property
    def limited(self) -> bool:
        """True if the source allows so many connections and no more."""
        return self._most > 0

    @contextmanager
    def held(self, table: TableName, connections: int) -> Iterator[None]:
        """Holds so many connections for the body of the `with`; more than the source allows count as all of them."""
        wanted = min(connections, self._most)
        if not wanted:
            yield
            return
        self._take(table, wanted)
        try:
            yield
        finally:
            with self._changed:
                self._free += wanted
                self._changed.notify_all()

    def _take(self, table: TableName, wanted: int) -> None:
        mine = object()
        with self._changed:
            self._queue.append(mine)
            if self._queue[0] is not mine or self._free < wanted:
                logger.info(f"{table}: waits for {wanted} of the source's {self._most} connections")
            try:
                self._changed.wait_for(lambda: self._queue[0] is mine and self._free >= wanted)
            finally:
                self._queue.remove(mine)
                self._changed.notify_all()
            self._free -= wanted


def connections_of(operation: Operation) -> int:
    """Returns how many JDBC connections the reading of an operation opens at the same time, at most."""
    return max(len(operation.slices), operation.read.compare.readers if isinstance(operation.read, CompareRead) else 0, 1)


def at_most(slices: tuple[str, ...], most: int) -> tuple[str, ...]:
    """Joins neighbouring slices until there are at most `most` of them; 0 = as many as there are."""
    if not most or len(slices) <= most:
        return slices
    groups = (slices[index * len(slices) // most : (index + 1) * len(slices) // most] for index in range(most))
    return tuple(group[0] if len(group) == 1 else f"({' OR '.join(f'({one})' for one in group)})" for group in groups)
