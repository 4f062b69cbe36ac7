"""The load guard: before each chunk of a snapshot it waits until the source is calm enough. Runs in Spark's driver."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import SourceBusyError
from cdc_ops.sources.base import Source

logger = logging.getLogger("cdc_ops.source")

LOOK_AGAIN_SECONDS: Final = 2.0


class LoadGuard:
    """Holds chunks back while the source runs more statements than `max_threads_running`; without that setting it asks nothing.

    It logs when waiting begins, and when it ends.

    What other tables of the same application read counts too: they end, so nobody waits for himself.

    Args:
        source: Is asked, by one thread at a time.
        clock: Seconds that only grow.
        sleep: Waits for some seconds.
    """

    def __init__(
        self,
        source: Source,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._source = source
        self._clock = clock
        self._sleep = sleep
        self._one_asks = threading.Lock()

    @property
    def limited(self) -> bool:
        """True if chunks may have to wait at all."""
        return self._source.config.max_threads_running > 0

    def wait(self, table: TableName) -> None:
        """Returns when the source is calm.

        Raises:
            SourceBusyError: it was not for `max_load_wait`.
        """
        limit, patience = self._source.config.max_threads_running, self._source.config.max_load_wait
        if not limit:
            return
        began = self._clock()
        told = False
        while (running := self._running()) > limit:
            waited = self._clock() - began
            if waited >= patience.total_seconds():
                raise SourceBusyError(
                    f"The source of {table} has been running more than {limit} statements for {waited / 60:.0f} min, at last {running}.",
                    why="'max_threads_running' of the source holds the chunks of a snapshot back while the server has much to do.",
                    data="Chunks that were committed stay; the next try goes on with the first that was not.",
                    next="Nothing, if the load passes: a scheduled run tries again by itself. Else raise 'max_threads_running'.",
                )
            if not told:
                logger.info(f"{table}: waits, the source runs {running} statements, the limit is {limit}")
                told = True
            self._sleep(LOOK_AGAIN_SECONDS)
        if told:
            logger.info(f"{table}: goes on after {self._clock() - began:.0f} s, the source runs {running} statements")

    def _running(self) -> int:
        with self._one_asks:
            return self._source.running()
