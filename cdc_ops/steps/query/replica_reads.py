"""Reading whole tables from a replica of the source, as truthfully as from the source itself. Runs in Spark's driver.

Right before an operation is read the source is asked for its position, and the replica is waited for until it has applied that. What is
read from then on is what the source itself held at some time after the read began: the bound that the plan took before, the number that the
operation drew before, and the check of what is gone mean the same as they would there. No lag is estimated, and no clock is compared.
"""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from cdc_ops.core.operation.operation import Operation
from cdc_ops.errors import SourceBusyError
from cdc_ops.sources.base import Source

logger = logging.getLogger("cdc_ops.source")

LOOK_AGAIN: Final = timedelta(seconds=5)


class ReplicaReads:
    """Decides where the operations of one table are read; a source without `snapshot_connection` reads all itself.

    It logs when an operation has to wait for the replica.

    Args:
        source: The source, of this table's own.
        connect: Opens the replica; None if there is none.
        clock: Seconds that only grow.
    """

    def __init__(self, source: Source, connect: Callable[[], Source] | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._connect = connect
        self._clock = clock
        self._replica: Source | None = None
        self._follows_snapshot = False

    def source_of(self, operation: Operation) -> Source:
        """Returns where an operation is to be read; of a replica, one that has applied all that the source had committed.

        The chunks of a snapshot need what was committed when their bound was taken, and no more: they wait once.

        Raises:
            SourceBusyError: the replica has not come so far for `max_load_wait`.
            SourceError: it is no replica of the source, or does not go on.
        """
        if self._connect is None or not operation.reads_everything:
            return self._source
        if self._replica is None:
            self._replica = self._connect()
        if not (operation.kind.is_snapshot and self._follows_snapshot):
            self._wait(self._replica, operation)
            self._follows_snapshot = True
        return self._replica

    def close(self) -> None:
        """Closes the replica's connection, if one was opened."""
        if self._replica is not None:
            self._replica.close()

    def _wait(self, replica: Source, operation: Operation) -> None:
        position, patience = self._source.position(), self._source.config.max_load_wait
        began, told = self._clock(), False
        while not replica.has_applied(position, LOOK_AGAIN):
            waited = self._clock() - began
            if waited >= patience.total_seconds():
                raise SourceBusyError(
                    f"The replica that {operation.table} is read from is behind: it has not applied position {position.at} in"
                    f" {waited:.0f} s.",
                    why="Rows that were committed before the plan could be missing on it.",
                    data="Nothing was read of this operation; chunks that were committed stay.",
                    next="A scheduled run tries again by itself. If the replica is meant to lag, raise 'max_load_wait', or remove"
                    " 'snapshot_connection'.",
                )
            if not told:
                logger.info(f"{operation.table}: waits until the replica has applied position {position.at}")
                told = True
        if told:
            logger.info(f"{operation.table}: the replica has caught up after {self._clock() - began:.0f} s")
