"""The files of a frozen operation of the log method: what is asked of each, and what they hold for a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cdc_ops.core.archive.binlogs.binlog_facts import BinlogFacts
from cdc_ops.core.archive.binlogs.binlog_sequence import is_proven_whole
from cdc_ops.core.archive.file_names import BinlogName, KafkaName
from cdc_ops.core.archive.read_files import ReadFile
from cdc_ops.core.archive.watermarks import OffsetRange
from cdc_ops.core.binlog.refusals import shortened
from cdc_ops.core.binlog.unfollowed import UnfollowedChange
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.schema.tables import TableName
from cdc_ops.events.scan.request import FileTask


def file_tasks(log: LogBatch, table: int = 0) -> tuple[FileTask, ...]:
    """Returns what is asked of each file of an operation.

    Args:
        log: What it reads.
        table: The number of its table in the scan.
    """
    placed = placed_names(log)
    kafka = {path: name for path, name in placed.items() if isinstance(name, KafkaName)}
    newest = {item.stream: item.place for item in log.before.newest}
    return tuple(
        FileTask(
            path=file.path,
            size=file.size,
            table=table,
            partition=name.partition if (name := kafka.get(file.path)) else None,
            start_offset=name.start_offset if name else None,
            first_line=_first_wanted_line(log, file.path, kafka),
            newest=newest.get(placed[file.path].stream, ()) if file.path in placed else newest.get("", ()),
        )
        for file in log.files
    )


def placed_names(log: LogBatch) -> dict[str, KafkaName | BinlogName]:
    """Returns what the names of those files say, by path, that tell a position: an offset, or the number of a binlog."""
    return {path: name for path, name in log.names().items() if isinstance(name, KafkaName | BinlogName)}


def covers_of_files(files: Iterable[ReadFile], log: LogBatch, table: TableName) -> tuple[OffsetRange, ...]:
    """Returns what files hold for a table by their contents; names without positions cover nothing that could be proven.

    A binlog without an end that is not proven to be whole ends behind its last transaction, and what may follow there is a gap. So is what
    it has of the table that cannot be followed: see `core.binlog.unfollowed`.

    Args:
        files: What was read of each.
        log: What the operation reads.
        table: The table.
    """
    files, names = tuple(files), placed_names(log)
    binlogs = {(name.stream, name.number): file.binlog for file in files if isinstance(name := names.get(file.path), BinlogName)}
    covers: list[OffsetRange] = []
    for file in files:
        match names.get(file.path):
            case KafkaName() as name:
                end = (name.start_offset + file.lines,)
                covers.append(OffsetRange(file=file.path, stream=name.stream, low=(name.start_offset,), high=end))
            case BinlogName() as name:
                covers += _covers_of_binlog(file, name, binlogs, log, table)
            case None:
                continue
    return tuple(covers)


def _covers_of_binlog(
    file: ReadFile, name: BinlogName, binlogs: Mapping[tuple[str, int], BinlogFacts | None], log: LogBatch, table: TableName
) -> list[OffsetRange]:
    """Returns what a binlog holds: all of it, or what lies before and behind what is missing."""
    here, following = file.binlog, binlogs.get((name.stream, name.number + 1))
    whole = OffsetRange(file=file.path, stream=name.stream, low=(name.number, 0), high=(name.number + 1, 0))
    before = binlogs.get((name.stream, name.number - 1))
    if before is not None and not is_proven_whole(before, here, is_checked_copy=log.archive.copy.is_set):
        why = f"{before.path} has no end: it was copied while the server wrote it, or the server crashed"
        whole = replace(whole, missing=why)
    if here is None:
        return [whole]
    if not is_proven_whole(here, following, is_checked_copy=log.archive.copy.is_set):
        whole = replace(whole, high=(name.number, here.complete_to))
    mine = _of_table(here.unfollowed, table)
    if not mine:
        return [whole]
    first, last = min(change.start for change in mine), max(change.end for change in mine)
    return [
        replace(whole, high=(name.number, first)),
        replace(whole, low=(name.number, last), missing=_unfollowed_text(mine, table)),
    ]


def _of_table(changes: Sequence[UnfollowedChange], table: TableName) -> tuple[UnfollowedChange, ...]:
    if not changes:
        return ()
    from cdc_ops.events.statement_tables import concerns  # brings a parser of SQL, which few batches need

    return tuple(change for change in changes if concerns(change, table))


def _unfollowed_text(changes: Sequence[UnfollowedChange], table: TableName) -> str:
    first, more = changes[0], len(changes) - 1
    what = "a distributed transaction (XA) that is decided in another file" if first.tables is not None else "a statement and no rows"
    text = f": {shortened(first.sql)}" if first.sql else ""
    return f"{table} was changed by {what}{text}" + (f", and {more:,} more" if more else "")


def _first_wanted_line(log: LogBatch, path: str, names: Mapping[str, KafkaName]) -> int:
    """Returns the first line of a file that the table does not have."""
    name = names.get(path)
    reached = log.before.position_of(name.stream) if name is not None else None
    if name is None or reached is None or name.start_offset >= reached[0] or _came_before(log, name):
        return 0
    return int(reached[0] - name.start_offset)


def _came_before(log: LogBatch, name: KafkaName) -> bool:
    """True for a file from before the place where the table began with its partition: it was never read."""
    since = log.before.since(name.stream)
    return since is not None and (name.start_offset,) < since
