"""Scans one archived file for all tables that want it: a task. What cannot be read is told, with all that an error says."""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

import pyarrow as pa

from cdc_ops.archives.base import Archive
from cdc_ops.archives.registry import open_archive
from cdc_ops.core import json_codec
from cdc_ops.errors import ArchiveChangedError, CdcError
from cdc_ops.events.format import Format
from cdc_ops.events.record import Record
from cdc_ops.events.records.files import open_records
from cdc_ops.events.records.json_lines import ByteRange, read_range
from cdc_ops.events.records.reader import Numbered, RecordReader, unreadable
from cdc_ops.events.registry import open_format
from cdc_ops.events.scan.facts import FileFacts
from cdc_ops.events.scan.request import FileTask, FileTasks, TableTask
from cdc_ops.events.scan.spreading import Spreader
from cdc_ops.events.scan.tables import TableScan


def scan_batches(batches: Iterator[pa.RecordBatch], tasks: tuple[TableTask, ...]) -> Iterator[pa.RecordBatch]:
    """Scans the files of a partition; rows in have one text, the JSON of `FileTasks`, rows out that of a `FileFacts` each."""
    for batch in batches:
        for text in batch.column(0).to_pylist():
            facts = scan_file(tasks, json_codec.loads(FileTasks, text))
            yield pa.record_batch({"facts": pa.array([json_codec.dumps(one) for one in facts], pa.string())})


def scan_file(tasks: Sequence[TableTask], wanted: FileTasks) -> list[FileFacts]:
    """Scans one file, or a part of it.

    Args:
        tasks: All tables; all of one archive and one format.
        wanted: The file.

    Returns:
        What it holds for each table that wants it.
    """
    path = wanted.files[0].path
    try:
        with closing(open_archive(tasks[0].archive.url, dict(tasks[0].archive.options))) as archive:
            form = open_format(tasks[0].archive.format)
            if form.spec.is_binlog:
                from cdc_ops.events.scan.binlog import scan_binlog  # its kernels take a while to load

                return scan_binlog(form, tasks, wanted.files, archive)
            with collector_paused():
                return _scan_records(form, tasks, wanted, archive)
    except CdcError as error:
        failure = tuple(sorted(error.to_payload().items()))
    except FileNotFoundError:
        failure = tuple(sorted(_gone(path).to_payload().items()))
    except (ArithmeticError, TypeError, ValueError, pa.ArrowException) as error:  # ours: say at least where
        raise RuntimeError(f"{path} of {tasks[0].archive.url} could not be read: {type(error).__name__}: {error}") from error
    return [FileFacts(path=path, table=file.table, failure=failure) for file in wanted.files]


@contextmanager
def collector_paused() -> Iterator[None]:
    """Has Python look for no cycles of objects: the many of a file have none, and to look for them takes a tenth of the time.

    Who finds it paused leaves it so, and whoever paused it goes on with it: of several threads the last one out leaves it on.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _scan_records(form: Format, tasks: Sequence[TableTask], wanted: FileTasks, archive: Archive) -> list[FileFacts]:
    tables = [TableScan(form, tasks[file.table], file, len(wanted.files)) for file in wanted.files]
    file = wanted.files[0]
    first = min(one.first_line for one in wanted.files)
    if wanted.stop:
        reader: RecordReader = read_range(archive, file.path, ByteRange(wanted.start, wanted.stop), wanted.first_line, first)
    else:
        reader = open_records(archive, file.path, file.size, form.spec, tasks[0].archive.format, first)
    spread = Spreader(form, tables)
    for records in _read(file.path, reader):
        spread.add(_records(file, records))
    count = reader.count()
    return [_facts(table, FileFacts(path=file.path, table=table.file.table, lines=count.lines, blank=count.blank)) for table in tables]


def _records(file: FileTask, numbered: Sequence[Numbered]) -> list[Record]:
    path, partition, start = file.path, file.partition, file.start_offset
    if start is None:
        return [Record(value, path, line, partition) for value, line in numbered]
    return [Record(value, path, line, partition, start + line) for value, line in numbered]


def _facts(table: TableScan, counted: FileFacts) -> FileFacts:
    """Returns what a file holds for a table, once all of it has been read."""
    return replace(counted, found=table.finish(), too_large=table.too_large)


def _read(path: str, reader: RecordReader) -> Iterator[list[Numbered]]:
    """Yields the records of a file.

    Raises:
        ArchiveFileError: it is damaged.
    """
    batches = reader.batches()
    while True:
        try:
            batch = next(batches, None)
        except (EOFError, pa.ArrowInvalid) as error:
            raise unreadable(path, str(error)) from error
        if batch is None:
            return
        yield batch


def _gone(path: str) -> ArchiveChangedError:
    return ArchiveChangedError(
        f"{path} is gone since the plan.",
        why="It was removed after the operation was frozen.",
        data="Nothing of the operation was committed; the watermark stays.",
        next="Nothing to do: the next run lists the files and freezes them again.",
    )


def scan_records(task: TableTask, records: Mapping[str, Sequence[Record]]) -> list[FileFacts]:
    """Reads records that are there, by their file, as those of whole files are read."""
    found, form = [], open_format(task.archive.format)
    for path, some in records.items():
        table = TableScan(form, task, FileTask(path=path, size=0))
        spread = Spreader(form, [table])
        spread.add(some)
        found.append(_facts(table, FileFacts(path=path, lines=len(some))))
    return found
