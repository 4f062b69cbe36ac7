"""The fast lane for all tables of a folder: their files are decoded once, and each table takes its own. Runs in Spark."""

import threading
from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.phases import RunPhase
from cdc_ops.core.pipeline.unknown_tables import KnownTables
from cdc_ops.lake.spark.conf import archive_conf
from cdc_ops.lake.spark.session import set_missing, sibling_session
from cdc_ops.lake.staging.manifests import is_landed
from cdc_ops.steps.log.plain.lane import PlainEvents
from cdc_ops.steps.log.plain.opening import LaneRequest, open_plain_together, takes_lane
from cdc_ops.steps.reporting.stopwatch import measured


class SharedLane:
    """What the fast lane reads for operations of one folder, when the first of them asks for it; the others wait.

    Args:
        spark: The application's session.
        requests: The operations, with what they read.
        say: Receives a line for a reading, and why there is none.
        known: Which tables the pipeline file speaks of; None = records of others are nobody's business.
    """

    def __init__(self, spark: SparkSession, requests: Sequence[LaneRequest], say: Callable[[str], None], known: KnownTables | None) -> None:
        self._spark = spark
        self._requests = requests
        self._say = say
        self._known = known
        self._events: dict[str, PlainEvents] | None = None
        self._decoded: frozenset[str] = frozenset()
        self._one_reads = threading.Lock()

    def take(self, operation: Operation) -> PlainEvents | None:
        """Returns what was read for an operation, once; None if the lane has not read it, or not with the columns that it has by now."""
        with self._one_reads:
            if self._events is None:
                self._events = self._read()
                self._decoded = frozenset(self._events)
            found = self._events.pop(operation.operation_id, None)
        if found is not None and found.task.schema != operation.full_schema:  # it has widened a column since it was frozen
            found.remove()
            return None
        return found

    def was_decoded(self, operation: Operation) -> bool:
        """True if the lane has read an operation's files, whether it has taken the result or not."""
        return operation.operation_id in self._decoded

    def close(self) -> None:
        """Removes what nobody took; what cannot be removed goes when the staging area is cleared."""
        for found in (self._events or {}).values():
            found.remove()

    def _read(self) -> dict[str, PlainEvents]:
        """Reads for all operations whose rows are not landed. Whatever goes wrong, the exact way does it then, or says what is wrong."""
        try:
            wanted = [one for one in self._requests if not is_landed(one.operation) and takes_lane(one.operation, one.log, self._known)]
            if not wanted:
                return {}
            log = wanted[0].log
            session = sibling_session(self._spark)
            set_missing(session, archive_conf(log.url, dict(log.archive.options)))
            files = {file.path for one in wanted for file in one.log.files}
            self._say(f"{log.url}: {len(files):,} files are decoded once for {len(wanted)} tables")
            with measured(RunPhase.SHARED_READING):
                found = open_plain_together(session, wanted, self._say, self._known)
        except Exception as error:
            self._say(f"Spark reads all events of {len(self._requests)} tables, because the compiled decoder failed: {error}")
            return {}
        return {one.operation.operation_id: plain for one, plain in zip(wanted, found, strict=True) if plain is not None}
