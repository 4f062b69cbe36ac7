"""Opens the fast lane: one Spark job reads the files of an operation, or of several, once, in Python workers. Runs in Spark.

    files --one job--> what each holds, plain events (Parquet), other records (Parquet) --> the exact way, as records of their files

Whatever keeps the lane from reading a file, the exact way reads all of them instead: it says better what is wrong with one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from cdc_ops.core import json_codec
from cdc_ops.core.archive.binlog_sequence import check_sequence
from cdc_ops.core.events.change_feed import key_columns
from cdc_ops.core.formats.checks import check_format
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.pipeline.archive_config import Decoder
from cdc_ops.core.pipeline.unknown_tables import KnownTables
from cdc_ops.decode.kernel_folder import FIRST_TIME, is_uncompiled
from cdc_ops.errors import ArchiveError
from cdc_ops.formats.feed.plain import has_plain_format
from cdc_ops.formats.files.json_lines import by_place
from cdc_ops.formats.registry import open_format
from cdc_ops.lake.file_io import make_folder, open_filesystem
from cdc_ops.steps.log.event_files import chosen_format, first_wanted_line, kafka_names, placed_names, record_files
from cdc_ops.steps.log.plain.file_scan import FileScan, FileTask, FileTasks, ScanTask
from cdc_ops.steps.log.plain.lane import PlainEvents, folds_in_workers, spread
from cdc_ops.steps.log.plain.probe import why_not
from cdc_ops.steps.log.plain.scans import scans_of
from cdc_ops.steps.log.unknown_tables import watch_of

_BUCKET_BYTES: Final = 512 * 2**20
"""Bytes of files whose keys one task folds: some hundred thousand events, which take a few hundred MB then."""
_MOST_BUCKETS: Final = 512
_SMALL_BUCKET_BYTES: Final = 32 * 2**20
_SMALL_BUCKETS: Final = 8
"""So many tasks fold a small batch side by side, if each has so many bytes of files."""
_TASK_BYTES: Final = 128 * 2**20
_LEAST_TASKS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRequest:
    """Whose events are to be read.

    Args:
        operation: The frozen operation.
        log: What it reads.
        attempt: Folder name of this try, unique.
    """

    operation: Operation
    log: LogBatch
    attempt: str


def open_plain(
    spark: SparkSession,
    operation: Operation,
    log: LogBatch,
    attempt: str,
    say: Callable[[str], None] | None = None,
    known: KnownTables | None = None,
) -> PlainEvents | None:
    """Reads the files of an operation by the fast lane: an action. None if the exact way is to read them.

    Args:
        spark: A session of its own.
        operation: The frozen operation.
        log: What it reads.
        attempt: Folder name of this try, unique.
        say: Receives a line if the lane would be taken but cannot.
        known: The tables that the pipeline file speaks of; None = that was not said.

    Raises:
        ConfigError: the format would lose data by a setting that nobody has accepted.
        ArchiveFileError: a file cannot be read by its name.
    """
    if not takes_lane(operation, log, known):
        return None
    [found] = open_plain_together(spark, [LaneRequest(operation=operation, log=log, attempt=attempt)], say or nobody, known)
    return found


def open_plain_together(
    spark: SparkSession, requests: Sequence[LaneRequest], say: Callable[[str], None], known: KnownTables | None
) -> list[PlainEvents | None]:
    """Reads the files of operations of one archive, each file once; there is a result of `open_plain` for each.

    All of them take the lane: see `takes_lane`.
    """
    none: list[PlainEvents | None] = [None] * len(requests)
    first = requests[0].operation
    if missing := why_not(spark):
        say(f"{first.table}: Spark reads all events, because the compiled decoder cannot run: {missing}")
        return none
    if is_uncompiled() and str(spark.conf.get("spark.master", "") or "").startswith("local"):
        say(FIRST_TIME)
    tasks = tuple(_task(one, known) for one in requests)
    found = scanned(spark, tasks, [_files(one.log, number) for number, one in enumerate(requests)], say)
    spec = open_format(requests[0].log.archive.events.format).spec
    if spec.is_binlog:
        facts = {path: scan.binlog for scans in found for path, scan in scans.items() if scan.binlog is not None}
        try:
            check_sequence(facts.values())
        except ArchiveError:  # the exact way finds it too, for each table that it concerns
            return none
    return [
        PlainEvents(spark=spark, task=task, spec=spec, scans=scans) if scans else None for task, scans in zip(tasks, found, strict=True)
    ]


def takes_lane(operation: Operation, log: LogBatch, known: KnownTables | None) -> bool:
    """True if the compiled decoder is to read an operation's files, as far as that can be known before.

    Raises:
        ConfigError, ArchiveFileError: as for `open_plain`.
    """
    form, options = open_format(log.archive.events.format), chosen_format(log)
    if log.again or log.history or log.archive.decoder is Decoder.EXACT or not has_plain_format(form.spec.name) or form.spec.sparse:
        return False
    if form.spec.is_binlog and (("{" in log.archive.url and watch_of(log, known)) or not all(file.size for file in log.files)):
        return False  # which tables are strangers to a folder, expressions know; and an empty file is no binlog
    check_format(form.spec, options, operation.full_schema, operation.apply.keys)
    return bool(by_place(record_files(log)))


def _task(request: LaneRequest, known: KnownTables | None) -> ScanTask:
    operation, log = request.operation, request.log
    schema = operation.full_schema
    return ScanTask(
        url=log.url,
        options=log.archive.options,
        format=chosen_format(log),
        schema=schema,
        keys=tuple(column.name for column in key_columns(schema, operation.apply.keys)),
        folder=f"{operation.target.staging.rstrip('/')}/{request.attempt}-plain",
        buckets=buckets_of(sum(file.size for file in log.files)),
        early=folds_in_workers(operation),
        known=known if watch_of(log, known) else None,
    )


def nobody(_: str) -> None:
    """Hears a line."""


def buckets_of(size: int) -> int:
    """Returns into how many parts the keys of files of so many bytes are split."""
    side_by_side = min(_SMALL_BUCKETS, size // _SMALL_BUCKET_BYTES)
    return max(1, side_by_side, min(_MOST_BUCKETS, -(-size // _BUCKET_BYTES)))


def scanned(
    spark: SparkSession, tasks: tuple[ScanTask, ...], wanted: Sequence[Sequence[FileTask]], say: Callable[[str], None]
) -> list[dict[str, FileScan]]:
    """Scans files, each once: an action.

    Args:
        spark: The session.
        tasks: What is wanted of each table.
        wanted: The files of each table, in the order of the tasks.
        say: Receives a line if a file could not be scanned.

    Returns:
        What the files of each table hold, by path; nothing for a table of which one could not be scanned.
    """
    for task in tasks:
        make_folder(task.folder)
    by_path: dict[str, list[FileTask]] = {}
    for file in (file for files in wanted for file in files if file.size):
        by_path.setdefault(file.path, []).append(file)
    size = sum(files[0].size for files in by_path.values())
    slices = max(1, min(len(by_path), max(_LEAST_TASKS, -(-size // _TASK_BYTES))))
    texts = [(json_codec.dumps(FileTasks(files=tuple(files))),) for files in by_path.values()]
    rows = spread(spark, texts, "file", slices).mapInArrow(partial(scans_of, tasks=tasks), "scan string").collect()
    scans = {(scan.table, scan.path): scan for scan in (json_codec.loads(FileScan, row["scan"]) for row in rows)}
    found = []
    for number, (task, files) in enumerate(zip(tasks, wanted, strict=True)):
        own = [scan for (table, _), scan in scans.items() if table == number]
        failure = next((f"{scan.path}: {scan.failure}" for scan in own if scan.failure), "") or _missing(task, own)
        if failure:
            say(f"Spark reads all events of {task.schema.table}, because the compiled decoder could not: {failure}")
        read = {file.path: scans.get((number, file.path), FileScan(path=file.path)) for file in files}
        found.append({} if failure else read)
    return found


def _missing(task: ScanTask, scans: Iterable[FileScan]) -> str:
    """Returns what of the results this process does not see; executors may have written it to a folder of their own."""
    filesystem, inner = open_filesystem(task.folder)
    seen = {str(entry["name"]).rpartition("/")[2]: int(entry["size"] or 0) for entry in filesystem.ls(inner, detail=True)}
    parts = [(part.name, part.size) for scan in scans for part in scan.plain]
    parts += [(part.name, part.size) for scan in scans for part in scan.marked]
    return next((f"{name} cannot be seen in {task.folder}" for name, size in parts if seen.get(name) != size), "")


def _files(log: LogBatch, table: int) -> tuple[FileTask, ...]:
    kafka, names, found = kafka_names(log), placed_names(log), []
    newest = {item.stream: item.place for item in log.before.newest}
    for file in log.files:
        name, placed = kafka.get(file.path), names.get(file.path)
        found.append(
            FileTask(
                path=file.path,
                size=file.size,
                start_offset=-1 if name is None else name.start_offset,
                first_line=first_wanted_line(log, file.path, kafka),
                newest=newest.get(placed.stream if placed else "", ()),
                table=table,
            )
        )
    return tuple(found)
