"""Reads the files of operations, each once, whatever tables want it: by tasks of Spark, or in this process where they are small.

    requests -> tasks -> events.scan in each -> FileFacts -> ScannedTable: counts and facts by file; the rows are in the staging area

Steps decide on facts. Files that no facts name are read by nobody.
"""

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from cdc_ops.core import json_codec
from cdc_ops.core.archive.binlogs.binlog_sequence import check_sequence
from cdc_ops.core.archive.read_files import ReadFile
from cdc_ops.core.events.change_feed import key_columns
from cdc_ops.core.events.ddl_changes import Renaming
from cdc_ops.core.events.format_spec import Container
from cdc_ops.core.formats.checks import check_format
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.pipeline.tables.unknown_tables import KnownTables
from cdc_ops.core.schema.declared_tables import DOCUMENT_COLUMN
from cdc_ops.decode.kernel_folder import FIRST_TIME, is_uncompiled
from cdc_ops.errors import from_payload
from cdc_ops.events.conversion.values import ValueTooLargeError
from cdc_ops.events.record import Record
from cdc_ops.events.records.json_lines import is_compressed
from cdc_ops.events.registry import spec_of
from cdc_ops.events.scan.facts import FileFacts, TableFacts
from cdc_ops.events.scan.merging import merged_facts
from cdc_ops.events.scan.parts import Parts
from cdc_ops.events.scan.request import FileTask, FileTasks, ScannedArchive, TableTask, UnknownWatch
from cdc_ops.events.scan.scan import scan_batches, scan_file, scan_records
from cdc_ops.events.scan.tables import empty_feed
from cdc_ops.lake.file_io import make_folder, open_filesystem
from cdc_ops.lake.spark.local_rows import local_rows
from cdc_ops.lake.staging.shared_folder import check_written, has_remote_executors
from cdc_ops.steps.log.event_files import file_tasks
from cdc_ops.steps.log.large_files import split
from cdc_ops.steps.log.unknown_tables import keeps_raw, watches
from cdc_ops.steps.stage import executors

logger = logging.getLogger("cdc_ops.archive")

_BUCKET_BYTES: Final = 512 * 2**20
"""Bytes of files whose keys one task folds: some hundred thousand events, which take a few hundred MB then."""
_MOST_BUCKETS: Final = 512
_SMALL_BUCKET_BYTES: Final = 32 * 2**20
_SMALL_BUCKETS: Final = 8
"""So many tasks fold a small batch side by side, if each has so many bytes of files."""
_TASK_BYTES: Final = 128 * 2**20
_LEAST_TASKS: Final = 8
_PACKED: Final = 10
"""Bytes of lines in a byte that is packed, about."""
_HERE: Final = 16 * 2**20
"""Files of so many bytes are read in this process: that takes less time than a job of Spark takes to start."""
_FEW: Final = 32
_HERE_OF_MANY: Final = 2 * 2**20
"""Bytes of more files than _FEW, which it would open one after the other, and of binlogs, whose kernels would be loaded here too."""
_reads_here: Final = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """Whose events are to be read.

    Args:
        operation: The frozen operation.
        log: What it reads.
        attempt: Folder name of this try, unique.
        known: The tables that the pipeline file names; None = that was not said.
        renamings: Names of columns in events from before statements.
    """

    operation: Operation
    log: LogBatch
    attempt: str
    known: KnownTables | None = None
    renamings: tuple[Renaming, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedTable:
    """What was read for one operation.

    Args:
        task: What was asked for.
        facts: What each file holds, by path.
    """

    task: TableTask
    facts: Mapping[str, FileFacts]

    def check_columns(self, paths: Iterable[str]) -> None:
        """Refuses what a column does not hold in some files.

        Raises:
            ValueTooLargeError: a column does not hold a value, and can be widened.
        """
        for path in paths:
            if path in self.facts and (too_large := self.facts[path].too_large):
                raise ValueTooLargeError(too_large)

    def read_files(self, log: LogBatch) -> tuple[ReadFile, ...]:
        """Returns the counts of an operation's files."""
        return tuple(_read_file(file.path, self.facts.get(file.path)) for file in log.files)

    def of(self, paths: Iterable[str]) -> dict[str, TableFacts]:
        """Returns what some files show of the table, by path."""
        return {path: self.facts[path].found for path in paths if path in self.facts}

    def remove(self) -> None:
        """Removes what was written; what cannot be removed goes when the staging area is cleared."""
        for folder in (self.task.changes, self.task.feed):
            with suppress(OSError):
                filesystem, inner = open_filesystem(folder)
                filesystem.rm(inner, recursive=True)

    def place_feed(self, folder: str, paths: Iterable[str]) -> None:
        """Moves the rows of the feed of some files into a folder, where no task writes: one that ran twice may still be at work.

        Args:
            folder: Where the merge looks for them.
            paths: The files whose events are merged.
        """
        wanted = [part.name for one in self.of(paths).values() for part in one.feed]
        filesystem, inner = open_filesystem(self.task.feed)
        _, target = open_filesystem(folder)
        make_folder(folder)
        for name in wanted:
            filesystem.mv(f"{inner}/{name}", f"{target}/{name}")
        if not wanted:
            Parts(folder, "feed", "").write(empty_feed(self.task))


def scan_files(spark: SparkSession, requests: Sequence[ScanRequest]) -> list[ScannedTable]:
    """Reads the files of operations of one archive, each file once.

    Args:
        spark: The session.
        requests: The operations.

    Raises:
        ConfigError: the format would lose data by a setting that nobody has accepted.
        ArchiveFileError: a file cannot be read.
        ArchiveOrderError: a binlog does not follow the one before it.
        EnvironmentSetupError: executors wrote what this process does not see.
    """
    for one in requests:
        check_format(spec_of(one.log.archive.format_options), one.log.archive.format_options, one.operation.full_schema, _keys(one))
    tasks = tuple(_task(one) for one in requests)
    return scan_tables(spark, tasks, [file_tasks(one.log, number) for number, one in enumerate(requests)])


def scan_tables(spark: SparkSession, tasks: tuple[TableTask, ...], wanted: Sequence[Sequence[FileTask]]) -> list[ScannedTable]:
    """Reads files, each once, for all tables that want them.

    Args:
        spark: The session.
        tasks: What is wanted of each table.
        wanted: The files of each table, in the order of the tasks.
    """
    for task in tasks:
        make_folder(task.changes)
        make_folder(task.feed)
    by_path: dict[str, list[FileTask]] = {}
    reads_empty = spec_of(tasks[0].archive.format).is_binlog  # an empty one has lost what it had; other files may have no records
    for file in (file for files in wanted for file in files if file.size or reads_empty):
        by_path.setdefault(file.path, []).append(file)
    found = _scanned(spark, tasks, [FileTasks(files=tuple(files)) for files in by_path.values()])
    _raise_failure(found)
    told = {(one.table, one.path) for one in found}
    if untold := [file.path for files in by_path.values() for file in files if (file.table, file.path) not in told]:
        raise RuntimeError(f"No task says what {untold[0]} holds. Nothing was applied; the next try reads it again.")
    check_sequence(facts.binlog for facts in {one.path: one for one in found}.values() if facts.binlog is not None)
    facts: list[dict[str, FileFacts]] = [{} for _ in tasks]
    for one in found:
        facts[one.table][one.path] = one
    scanned = [ScannedTable(task=task, facts=of_table) for task, of_table in zip(tasks, facts, strict=True)]
    for table in scanned:
        _check_seen(table)
    return scanned


def _scanned(spark: SparkSession, tasks: tuple[TableTask, ...], files: Sequence[FileTasks]) -> list[FileFacts]:
    spec = spec_of(tasks[0].archive.format)
    packs = spec.files.container in (Container.AVRO, Container.PARQUET)
    size = sum(one.size * (_PACKED if packs or is_compressed(one.path) else 1) for one in files)
    if will_compile(tasks[0], files) and not has_remote_executors(spark):
        logger.info(FIRST_TIME)
    with _alone() as alone:
        if size <= (_HERE if alone and len(files) <= _FEW and not spec.is_binlog else _HERE_OF_MANY):
            return _scanned_here(tasks, files)
    if executors.do_the_work(spark, size, least=_HERE_OF_MANY, instead=f"{tasks[0].archive.url}: this process reads all files"):
        return _scanned_by_tasks(spark, tasks, files, size)
    return _scanned_here(tasks, files)


@contextmanager
def _alone() -> Iterator[bool]:
    """Yields whether no other table's files are read here: one thread of Python works at a time, where tasks work side by side."""
    alone = _reads_here.acquire(blocking=False)
    try:
        yield alone
    finally:
        if alone:
            _reads_here.release()


def _scanned_here(tasks: tuple[TableTask, ...], files: Sequence[FileTasks]) -> list[FileFacts]:
    return list(chain.from_iterable(scan_file(tasks, one) for one in files))


def _scanned_by_tasks(spark: SparkSession, tasks: tuple[TableTask, ...], files: Sequence[FileTasks], size: int) -> list[FileFacts]:
    parts = split(spark, tasks[0], files)
    slices = max(1, min(len(parts), max(_LEAST_TASKS, -(-size // _TASK_BYTES))))
    texts = [(json_codec.dumps(one),) for one in parts]
    rows = spread(spark, texts, "file", slices).mapInArrow(partial(scan_batches, tasks=tasks), "facts string").collect()
    return merged_facts(json_codec.loads(FileFacts, row["facts"]) for row in rows)


def will_compile(task: TableTask, files: Sequence[FileTasks]) -> bool:
    """True if functions that decode binlogs are needed, and this machine has none that are compiled."""
    if not spec_of(task.archive.format).is_binlog:
        return False
    from cdc_ops.events.scan.binlog import SMALL  # brings the reference decoder, which other formats do without

    return any(one.size >= SMALL for one in files) and is_uncompiled()


def spread(spark: SparkSession, rows: Sequence[tuple[str]], name: str, slices: int) -> DataFrame:
    """Returns texts as a DataFrame of so many partitions."""
    return local_rows(spark, rows, {name: "string"}).repartition(slices)


def _task(request: ScanRequest) -> TableTask:
    operation, log = request.operation, request.log
    staging = operation.target.staging.rstrip("/")
    options = log.archive.format_options
    return TableTask(
        archive=ScannedArchive(url=log.url, options=log.archive.options, format=options),
        schema=operation.full_schema,
        keys=_keys(request),
        changes=f"{staging}/{request.attempt}-changes",
        feed=f"{staging}/{request.attempt}-seen",
        buckets=buckets_of(sum(file.size for file in log.files)),
        keeps_all=log.again or log.history is not None,
        moves_leave=not operation.apply.stored_as.ignores_deletes,
        renamed=log.renamed,
        renamings=request.renamings,
        declared=() if dict(options.settings).get(DOCUMENT_COLUMN) else log.declared,
        watch=_watch(request),
        again=log.again,
    )


def _keys(request: ScanRequest) -> tuple[str, ...]:
    return tuple(column.name for column in key_columns(request.operation.full_schema, request.operation.apply.keys))


def _watch(request: ScanRequest) -> UnknownWatch | None:
    known, log = request.known, request.log
    if known is None or not watches(log, known):
        return None
    return UnknownWatch(known=known, url=log.archive.url, keeps_raw=keeps_raw(log, known))


def buckets_of(size: int) -> int:
    """Returns into how many parts the keys of files of so many bytes are split."""
    side_by_side = min(_SMALL_BUCKETS, size // _SMALL_BUCKET_BYTES)
    return max(1, side_by_side, min(_MOST_BUCKETS, -(-size // _BUCKET_BYTES)))


def _raise_failure(found: Iterable[FileFacts]) -> None:
    for one in found:
        if one.failure:
            raise from_payload(dict(one.failure))


def _read_file(path: str, facts: FileFacts | None) -> ReadFile:
    if facts is None:
        return ReadFile(path=path, lines=0)
    lines = facts.binlog.transactions if facts.binlog is not None else facts.lines
    return ReadFile(path=path, lines=lines, blank=facts.blank, binlog=facts.binlog)


def _check_seen(scanned: ScannedTable) -> None:
    """Refuses results that this process does not see; executors may have written them to a folder of their own."""
    for folder, parts in (
        (scanned.task.changes, [part for one in scanned.facts.values() for part in one.found.changes]),
        (scanned.task.feed, [part for one in scanned.facts.values() for part in one.found.feed]),
    ):
        if parts:  # else the folder need not be listed
            check_written(folder, {part.name: part.size for part in parts})


def read_again(request: ScanRequest, records: Mapping[str, Sequence[Record]]) -> ScannedTable:
    """Reads records that were set aside, in this process."""
    check_format(
        spec_of(request.log.archive.format_options), request.log.archive.format_options, request.operation.full_schema, _keys(request)
    )
    task = _task(request)
    make_folder(task.changes)
    make_folder(task.feed)
    return ScannedTable(task=task, facts={one.path: one for one in scan_records(task, records)})
