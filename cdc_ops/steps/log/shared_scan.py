"""One scan for all tables of a folder: the operations of one job whose records are in the same files.

    the files of all of them -> read once -> each table's changes and facts -> each takes its own

Tables stand at different places: each takes the files of its own frozen list, and proves for itself that none is missing. A table that is
alone in its folder, or reads records that do not say of which table they are, reads for itself.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

from pyspark.sql import SparkSession

from cdc_ops.archives.registry import open_archive
from cdc_ops.core.apply.apply_spec import Landing
from cdc_ops.core.archive.files import FrozenFiles, ListedFile, check_frozen
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.phases import RunPhase
from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.pipeline.tables.unknown_tables import KnownTables
from cdc_ops.errors import ArchiveChangedError
from cdc_ops.events.registry import spec_of
from cdc_ops.lake.spark.session import sibling_session
from cdc_ops.lake.staging.manifests import is_landed
from cdc_ops.steps.archive.frozen_files import present_files
from cdc_ops.steps.log.scanned_files import ScannedTable, ScanRequest, scan_files
from cdc_ops.steps.reporting.stopwatch import measured

logger = logging.getLogger("cdc_ops.archive")

Folder = tuple[str, ArchiveConfig]


class SharedScans:
    """The scans of one job, each done, and logged, when the first of its tables asks for it.

    Args:
        spark: The application's session.
        operations: All operations of the job.
        attempt: A name of this application's own.
        known: Which tables the pipeline file names; None = records of others are nobody's business.
    """

    def __init__(
        self,
        spark: SparkSession,
        operations: Iterable[Operation],
        attempt: str,
        known: KnownTables | None = None,
    ) -> None:
        self.known = known
        self._spark, self._attempt = spark, attempt
        members: dict[Folder, list[Operation]] = {}
        for operation in operations:
            log = _batch_of(operation)
            if log is not None and _is_shared(operation, log):
                members.setdefault((log.url, log.archive), []).append(operation)
        self._groups = {folder: _Group(some, self._read) for folder, some in members.items() if len(some) > 1}

    def take(self, operation: Operation) -> ScannedTable | None:
        """Returns what was read of an operation's files together with those of its neighbours, once; None if it has to read for itself.

        Raises:
            ArchiveChangedError: a file is not what it was when the operation was frozen.
            ArchiveFileError: a file of the folder cannot be read; each of its operations gets the same error.
        """
        log = _batch_of(operation)
        group = self._groups.get((log.url, log.archive)) if log is not None else None
        if log is None or group is None:
            return None
        with measured(RunPhase.SHARED_READING):
            found = group.take(operation)
        if found is None:
            return None
        check_frozen(FrozenFiles(files=log.files), group.present)
        if found.task.schema != operation.full_schema:  # it has widened a column since it was frozen
            found.remove()
            return None
        return found

    def close(self) -> None:
        """Removes what nobody took; what cannot be removed goes when the staging area is cleared."""
        for group in self._groups.values():
            group.close()

    def _read(self, members: Sequence[Operation]) -> tuple[dict[str, ScannedTable], Mapping[str, ListedFile]]:
        logs = {one.operation_id: log for one in members if (log := _batch_of(one)) is not None}
        first = logs[members[0].operation_id]
        with closing(open_archive(first.url, dict(first.archive.options))) as archive:
            present = present_files(archive, _union(members))
        unchanged = [one for one in members if _is_unchanged(one, present)]
        if not unchanged:
            return {}, present
        logger.info(f"{first.url}: {len(_union(unchanged)):,} files are read once for {len(unchanged)} tables")
        requests = [ScanRequest(operation=one, log=logs[one.operation_id], attempt=self._attempt, known=self.known) for one in unchanged]
        found = scan_files(sibling_session(self._spark), requests)
        return {one.operation_id: scanned for one, scanned in zip(unchanged, found, strict=True)}, present


class _Group:
    """Operations with one folder; the first that asks reads for all, the others wait."""

    def __init__(
        self, operations: list[Operation], read: Callable[[Sequence[Operation]], tuple[dict[str, ScannedTable], Mapping[str, ListedFile]]]
    ) -> None:
        self.operations = operations
        self.present: Mapping[str, ListedFile] = {}
        self._read = read
        self._found: dict[str, ScannedTable] | None = None
        self._members: frozenset[str] = frozenset()
        self._failure: Exception | None = None
        self._one_reads = threading.Lock()

    def take(self, operation: Operation) -> ScannedTable | None:
        """Returns what was read for an operation, once; None if nothing was."""
        with self._one_reads:
            if self._failure is not None and operation.operation_id in self._members:
                raise self._failure
            if self._found is None:
                self._read_all()
            found = (self._found or {}).pop(operation.operation_id, None)
        if found is None and operation.operation_id in self._members:
            log = _batch_of(operation)
            if log is not None:
                check_frozen(FrozenFiles(files=log.files), self.present)
        return found

    def _read_all(self) -> None:
        wanted = [one for one in self.operations if not is_landed(one)]
        self._members = frozenset(one.operation_id for one in wanted) if len(wanted) > 1 else frozenset()
        self._found = {}
        if len(wanted) > 1:
            try:
                self._found, self.present = self._read(wanted)
            except Exception as error:  # whatever it is, it is what all of them fail with
                self._failure = error
                raise

    def close(self) -> None:
        """Removes what nobody took."""
        for found in (self._found or {}).values():
            found.remove()


def _batch_of(operation: Operation) -> LogBatch | None:
    """Returns what an operation reads of an archive, None if it reads none."""
    return operation.read.batch if isinstance(operation.read, ArchiveRead) else None


def _is_shared(operation: Operation, log: LogBatch) -> bool:
    """True for an operation that may read its files together with its neighbours."""
    return not log.again and operation.apply.landing is Landing.STAGED and spec_of(log.archive.format_options).names_table


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
