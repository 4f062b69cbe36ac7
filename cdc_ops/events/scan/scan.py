"""Scans one archived file for all tables that want it: a task. What cannot be read is a failure that is told, with all that an error says."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from cdc_ops.archives.base import Archive
from cdc_ops.archives.registry import open_archive
from cdc_ops.core import json_codec
from cdc_ops.core.events.format_spec import RecordKind
from cdc_ops.errors import ArchiveFileError, CdcError
from cdc_ops.events.format import Format
from cdc_ops.events.parse import envelopes_of
from cdc_ops.events.record import Envelope, Record
from cdc_ops.events.records.files import open_records
from cdc_ops.events.registry import open_format
from cdc_ops.events.scan.facts import FileFacts
from cdc_ops.events.scan.request import FileTasks, TableTask
from cdc_ops.events.scan.tables import TableScan
from cdc_ops.events.values import ValueTooLargeError


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
        with closing(open_archive(tasks[0].url, dict(tasks[0].options))) as archive:
            form = open_format(tasks[0].format)
            if form.spec.is_binlog:
                from cdc_ops.events.scan.binlog import scan_binlog  # its kernels take a while to load

                return scan_binlog(form, tasks, wanted.files, archive)
            return _scan_records(form, tasks, wanted, archive)
    except CdcError as error:
        failure = tuple(sorted(error.to_payload().items()))
    except ValueTooLargeError as error:
        failure = (("too_large", str(error)),)
    except (OSError, EOFError, pa.ArrowException) as error:
        failure = tuple(sorted(_unreadable(path, error).to_payload().items()))
    return [FileFacts(path=path, table=file.table, failure=failure) for file in wanted.files]


def _scan_records(form: Format, tasks: Sequence[TableTask], wanted: FileTasks, archive: Archive) -> list[FileFacts]:
    tables = [TableScan(form, tasks[file.table], file) for file in wanted.files]
    file = wanted.files[0]
    first = min(one.first_line for one in wanted.files)
    reader = open_records(form.spec, tasks[0].format, archive, wanted, first)
    spread = Spreader(form, tables)
    for records in reader.batches():
        for value, line in records:
            offset = None if file.start_offset is None else file.start_offset + line
            spread.add(Record(value, file.path, line, file.partition, offset))
    count = reader.count()
    return [
        FileFacts(path=file.path, table=table.file.table, lines=count.lines, blank=count.blank, found=table.finish()) for table in tables
    ]


class Spreader:
    """Hands each record to the tables that it concerns.

    Args:
        form: The format, opened.
        tables: The tables.
    """

    def __init__(self, form: Format, tables: Sequence[TableScan]) -> None:
        self._form, self._tables = form, tables
        self._named = form.spec.names_table
        self._by_name: dict[tuple[str, str], list[TableScan]] = {}
        for table in tables:
            self._by_name.setdefault(table.name, []).append(table)
        self._watching = [table for table in tables if table.task.watch is not None]
        self._unknown: dict[tuple[int, str, str], bool] = {}

    def add(self, record: Record) -> None:
        """Takes a record."""
        for envelope in envelopes_of(self._form, record):
            self.add_envelope(record, envelope)

    def add_envelope(self, record: Record, envelope: Envelope) -> None:
        """Takes what a record says."""
        mine: Iterable[TableScan] = self._by_name.get((envelope.schema, envelope.table), ()) if envelope.table else self._tables
        line = record.line
        for table in mine:
            if line >= table.file.first_line:
                table.add(record, envelope)
        if envelope.table:
            for table in self._watching:
                if line >= table.file.first_line and table.name != (envelope.schema, envelope.table):
                    self._add_other(table, record, envelope)

    def _add_other(self, table: TableScan, record: Record, envelope: Envelope) -> None:
        """Takes a record of another table than one that looks after unknown ones."""
        key = (id(table), envelope.schema, envelope.table)
        unknown = self._unknown.get(key)
        if unknown is None:
            unknown = self._unknown[key] = is_unknown(table.task, envelope.schema, envelope.table)
        if unknown:
            table.add_unknown(record, envelope)
        elif table.task.again:
            table.add(record, Envelope(RecordKind.CONTROL, schema=envelope.schema, table=envelope.table))


def is_unknown(task: TableTask, schema: str, table: str) -> bool:
    """True for a table that the pipeline file does not name, or whose records are not to be in this folder."""
    watch = task.watch
    if watch is None:
        return False
    if not watch.known.knows(f"{schema}.{table}" if schema else table):
        return True
    pattern = watch.url.rstrip("/")
    if "{schema}" in pattern or "{table}" in pattern:
        return pattern.replace("{schema}", schema).replace("{table}", table) != task.url
    return False


def _unreadable(path: str, error: Exception) -> ArchiveFileError:
    return ArchiveFileError(
        f"{path} cannot be read: {error}.",
        why="The file is damaged or incomplete, or the 'format' of the archive is wrong.",
        data="Nothing of the batch was read or applied; the watermark stays.",
        next="Write the file again as the sink made it, or correct the format of the archive. If its records are lost, remove the file:"
        " its offsets are then a gap, which you can accept.",
    )
