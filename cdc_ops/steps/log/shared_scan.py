"""One reading for all tables of a folder: the operations of one job whose records are in the same files. Runs in Spark.

    the files of all of them -> counted once -> envelopes, parsed once -> landed as Parquet, a folder for each table -> each takes its own

Tables stand at different places: each takes the files of its own frozen list, and proves for itself that none is missing. What is landed
belongs to this one application: it is taken only when all of it is written, by nobody else, and removed at the end; what a killed
application leaves goes with the staging area. A table that is alone in its folder, or reads records that do not say of which table they
are, reads for itself.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cdc_ops.archives.registry import open_archive
from cdc_ops.core.apply.apply_spec import Landing
from cdc_ops.core.archive.file_groups import group_by_readers
from cdc_ops.core.archive.files import FrozenFiles, ListedFile, check_frozen
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.phases import RunPhase
from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.pipeline.unknown_tables import KnownTables
from cdc_ops.errors import ArchiveChangedError
from cdc_ops.formats.feed.canonical import is_tableless
from cdc_ops.formats.files.json_lines import FileLines
from cdc_ops.formats.files.local_rows import local_rows
from cdc_ops.formats.registry import open_format
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.lake.spark.conf import archive_conf
from cdc_ops.lake.spark.session import pinned, set_missing, sibling_session
from cdc_ops.lake.staging.manifests import is_landed
from cdc_ops.lake.staging.shared_folder import write_seen
from cdc_ops.steps.archive.frozen_files import present_files
from cdc_ops.steps.log.event_files import CountedFiles, open_alone
from cdc_ops.steps.log.plain.lane import PlainEvents
from cdc_ops.steps.log.plain.opening import LaneRequest
from cdc_ops.steps.log.plain.shared_lane import SharedLane
from cdc_ops.steps.log.unknown_tables import watch_of
from cdc_ops.steps.reporting.stopwatch import measured

_STRAYS: Final = -1
"""The part of what no table could be found for: all tables read it."""
_UNKNOWN: Final = -2
"""The part of records of unknown tables: who looks after them reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What one reading found.

    Args:
        present: The files as they were when it began, by path.
        lines: What each file holds, by path.
        folder: Where the envelopes are; "" = nothing was read, because no operation's files were what it had frozen.
        schema: Of what is there.
        parts: The part of each operation, by its id.
        members: The ids of all operations that it was to be for, also of those whose files had changed.
    """

    present: Mapping[str, ListedFile]
    lines: Mapping[str, FileLines]
    folder: str
    schema: T.StructType
    parts: Mapping[str, int]
    members: frozenset[str]


class SharedScans:
    """The readings of one job, each done when the first of its tables asks for it.

    Args:
        spark: The application's session.
        operations: All operations of the job.
        attempt: A name of this application's own.
        say: Receives a line per reading.
        known: Which tables the pipeline file speaks of; None = records of others are nobody's business.
    """

    def __init__(
        self,
        spark: SparkSession,
        operations: Iterable[Operation],
        attempt: str,
        say: Callable[[str], None],
        known: KnownTables | None = None,
    ) -> None:
        self.known = known
        self._spark = spark
        self._attempt = attempt
        self.say = say
        self._groups: dict[tuple[str, ArchiveConfig], _Group] = {}
        requests: dict[tuple[str, ArchiveConfig], list[LaneRequest]] = {}
        for operation in operations:
            match operation.read:
                case ArchiveRead(batch=batch) if not batch.again and operation.apply.landing is Landing.STAGED:
                    self._groups.setdefault((batch.url, batch.archive), _Group()).operations.append(operation)
                    request = LaneRequest(operation=operation, log=batch, attempt=attempt)
                    requests.setdefault((batch.url, batch.archive), []).append(request)
                case _:
                    continue
        self._lanes = {key: SharedLane(spark, wanted, say, known) for key, wanted in requests.items() if len(wanted) > 1}

    def part_of(self, spark: SparkSession, operation: Operation) -> CountedFiles | None:
        """Returns what an operation's files hold, read together with those of its neighbours; None if it has none, and reads for itself.

        Args:
            spark: The session in which the envelopes are to be read.
            operation: The operation.

        Raises:
            ArchiveChangedError: a file is not what it was when the operation was frozen.
            ArchiveFileError: a file of the folder cannot be read; each of its operations gets the same error.
        """
        log = _batch_of(operation)
        group = self._groups.get((log.url, log.archive)) if log is not None else None
        if log is None or group is None or log.again or not open_format(log.archive.events.format).spec.names_table:
            return None
        with measured(RunPhase.SHARED_READING) if len(group.operations) > 1 else nullcontext():
            reading = group.reading(self._read, lambda one: one.operation_id == operation.operation_id or not self.was_decoded(one))
        if reading is None or operation.operation_id not in reading.members:
            return None
        check_frozen(FrozenFiles(files=log.files), reading.present)
        part = F.col("part").isin(reading.parts[operation.operation_id], _STRAYS, *((_UNKNOWN,) if watch_of(log, self.known) else ()))
        found = pinned(spark.read.schema(reading.schema).parquet(reading.folder)).where(part).drop("part")
        lines = tuple(reading.lines[file.path] for file in log.files)
        return CountedFiles(files=lines, read=tuple(reading.lines), envelopes=lambda wanted: wanted(found))

    def plain_of(self, spark: SparkSession, operation: Operation) -> PlainEvents | None:
        """Returns what the fast lane has read of an operation's files, together with those of its neighbours; None if it has not.

        Args:
            spark: The session in which the events are to be read.
            operation: The operation; what is read for it is handed over once.
        """
        lane = self._lane_of(operation)
        found = lane.take(operation) if lane is not None else None
        return replace(found, spark=spark) if found is not None else None

    def was_decoded(self, operation: Operation) -> bool:
        """True if the fast lane has read an operation's files together with those of its neighbours."""
        lane = self._lane_of(operation)
        return lane is not None and lane.was_decoded(operation)

    def _lane_of(self, operation: Operation) -> SharedLane | None:
        log = _batch_of(operation)
        return self._lanes.get((log.url, log.archive)) if log is not None else None

    def close(self) -> None:
        """Removes what was landed; what cannot be removed goes when the staging area is cleared."""
        for lane in self._lanes.values():
            lane.close()
        for group in self._groups.values():
            if group.found is not None and group.found.folder:
                filesystem, path = open_filesystem(group.found.folder)
                with suppress(OSError):
                    filesystem.rm(path, recursive=True)

    def _read(self, members: Sequence[Operation]) -> _Reading:
        first, asked = _batch_of(members[0]), frozenset(one.operation_id for one in members)
        assert first is not None
        session = sibling_session(self._spark)
        set_missing(session, archive_conf(first.url, dict(first.archive.options)))
        with closing(open_archive(first.url, dict(first.archive.options))) as archive:
            present = present_files(archive, _union(members))
            unchanged = tuple(operation for operation in members if _is_unchanged(operation, present))
            if not unchanged:
                return _Reading(present=present, lines={}, folder="", schema=T.StructType(), parts={}, members=asked)
            log = replace(first, files=_union(unchanged))
            self.say(f"{log.url}: {len(log.files):,} files are read once for {len(unchanged)} tables")
            opened = open_alone(session, log, archive)
            placed = _placed(session, opened.envelopes(lambda found: found), unchanged, self.known)
            folder = f"{unchanged[0].target.staging.rstrip('/')}/{self._attempt}-shared"
            write_seen(placed, folder, ("part",))
            return _Reading(
                present=present,
                lines={file.path: file for file in opened.files},
                folder=folder,
                schema=placed.schema,
                parts={operation.operation_id: number for number, operation in enumerate(unchanged)},
                members=asked,
            )


class _Group:
    """Operations with one folder; the first that asks reads for all, the others wait."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.found: _Reading | None = None
        self._alone = False
        self._failure: Exception | None = None
        self._one_reads = threading.Lock()

    def reading(self, read: Callable[[Sequence[Operation]], _Reading], wants: Callable[[Operation], bool]) -> _Reading | None:
        """Returns the reading, None for an operation that has no neighbour left that wants it and whose rows are not landed."""
        with self._one_reads:
            if self._failure is not None:
                raise self._failure
            if self.found is None and not self._alone:
                members = [operation for operation in self.operations if wants(operation) and not is_landed(operation)]
                self._alone = len(members) < 2
                try:
                    self.found = None if self._alone else read(members)
                except Exception as error:  # whatever it is, it is what all of them fail with
                    self._failure = error
                    raise
            return self.found


def _batch_of(operation: Operation) -> LogBatch | None:
    """Returns what an operation reads of an archive, None if it reads none."""
    return operation.read.batch if isinstance(operation.read, ArchiveRead) else None


def _union(members: Iterable[Operation]) -> tuple[ListedFile, ...]:
    """Returns the files of operations, each path once, sorted by it."""
    files = {file.path: file for log in map(_batch_of, members) if log is not None for file in log.files}
    return tuple(files[path] for path in sorted(files))


def _is_unchanged(operation: Operation, present: Mapping[str, ListedFile]) -> bool:
    try:
        check_frozen(FrozenFiles(files=_union((operation,))), present)
    except ArchiveChangedError:  # the operation gets it when it asks for its part; the others go on
        return False
    return True


def _placed(session: SparkSession, envelopes: DataFrame, members: Sequence[Operation], known: KnownTables | None) -> DataFrame:
    """Returns the envelopes that somebody wants, with the part that they belong to: the number of an operation, or that of strays."""
    logs = [log for log in map(_batch_of, members) if log is not None]
    watch = next((one for log in logs if (one := watch_of(log, known))), None)
    together = group_by_readers([[file.path for file in log.files] for log in logs])
    files = [(path, number) for number, cohort in enumerate(together) for path in cohort.files]
    takers = [
        (number, members[taker].table.schema, members[taker].table.name, taker)
        for number, cohort in enumerate(together)
        for taker in cohort.takers
    ]
    cohort_of = F.broadcast(local_rows(session, files, {"__path": "string", "__cohort": "int"}))
    taker_of = F.broadcast(local_rows(session, takers, {"__of": "int", "__schema": "string", "__name": "string", "__taker": "int"}))
    table = F.col("table")
    mine = (F.col("__cohort") == F.col("__of")) & (table["schema"] == F.col("__schema")) & (table["name"] == F.col("__name"))
    placed = envelopes.join(cohort_of, F.col("file") == F.col("__path")).join(taker_of, mine, "left")
    part = F.when(is_tableless(), _STRAYS).when(F.col("__taker").isNotNull(), F.col("__taker"))
    if watch is None:
        return placed.select(*envelopes.columns, part.alias("part")).where(F.col("part").isNotNull())
    # Of records of unknown tables nothing is needed but their names, and their bytes if they are set aside.
    left_out = {"before", "after", "types"} | (set() if watch.keeps_raw else {"raw"})
    placed = placed.withColumn("part", part.when(watch.is_unknown(), _UNKNOWN)).where(F.col("part").isNotNull())
    slim = [F.when(F.col("part") != _UNKNOWN, F.col(name)).alias(name) if name in left_out else name for name in envelopes.columns]
    return placed.select(*slim, "part")
