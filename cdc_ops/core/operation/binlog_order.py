"""Whether the binlogs of a batch go on where the table stands: the same server, and no transaction in between. Pure.

Numbers of files prove that none is missing by its name. What the files say of their transactions proves that none was swapped for another
server's, or was written anew under the same name: the commit of each batch carries the transactions up to its end.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from cdc_ops.core.archive.binlogs.binlog_facts import BinlogFacts
from cdc_ops.core.archive.binlogs.binlog_sequence import begins_alike, binlog_name, follows, why_not_next
from cdc_ops.core.archive.file_names import BinlogName
from cdc_ops.core.archive.read_files import ReadFile
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.errors import ArchiveOrderError


def transactions_after(log: LogBatch, files: Sequence[ReadFile]) -> Callable[[Sequence[str]], str]:
    """Checks that the first binlog of a batch follows the last one that the table has.

    Args:
        log: What is read.
        files: What its files say.

    Returns:
        The function that returns, for the paths of files that are merged, what the watermark says of transactions.

    Raises:
        ArchiveOrderError: the binlogs are another server's, or transactions lie between them and the table.
    """
    names = {path: name for path, name in log.names().items() if isinstance(name, BinlogName)}
    ordered = sorted((file for file in files if file.path in names), key=lambda file: names[file.path].number)
    for file in ordered[:1]:
        name = names[file.path]
        reached = log.before.position_of(name.stream)
        if reached is None and log.before.streams:
            raise _other_server(log, file.path, f"the table stands in {', '.join(item.stream for item in log.before.streams)}")
        if reached == (name.number, 0) and not follows(log.before.gtids, file.before):
            raise _other_server(log, file.path, f"the table has the transactions of {log.before.gtids}, and the file follows {file.before}")
        if why := _why_not_after(log, file, name):
            raise _other_server(log, file.path, why)

    def after(merged: Sequence[str]) -> str:
        last = [file for file in ordered if file.path in set(merged)]
        return last[-1].after if last else log.before.gtids

    return after


def last_binlog(log: LogBatch, files: Sequence[ReadFile], merged: Sequence[str]) -> BinlogFacts | None:
    """Returns what the last of the merged binlogs says of itself, or what is known of the one before them."""
    names = {path: name.number for path, name in log.names().items() if isinstance(name, BinlogName)}
    found = [file for file in files if file.binlog is not None and file.path in names and file.path in set(merged)]
    last = max(found, key=lambda file: names[file.path]).binlog if found else None
    return replace(last, unfollowed=()) if last is not None else log.before.last_binlog


def _why_not_after(log: LogBatch, file: ReadFile, name: BinlogName) -> str:
    """Returns what shows that a file is neither the one that was read last nor the one behind it; "" if nothing does."""
    last, here = log.before.last_binlog, file.binlog
    if last is None or here is None:
        return ""
    known = binlog_name(last.path)
    if known.stream != name.stream or known.number not in (name.number, name.number - 1):
        return ""
    if known.number == name.number:
        return "" if begins_alike(last, here) else "it has the name of the binlog that was read last, and begins otherwise"
    is_next = log.before.position_of(name.stream) == (name.number, 0)
    return why_not_next(last, here) if is_next else ""


def _other_server(log: LogBatch, path: str, why: str) -> ArchiveOrderError:
    return ArchiveOrderError(
        f"{path} of {log.url} does not go on where the table stands: {why}.",
        why="After a failover, a RESET or a swapped file positions are another server's: they have no order with those in the table.",
        data="Nothing of the batch was merged; the watermark stays.",
        next="Bring back the file of the same server. After a failover read all rows anew, and go on with the new server's binlogs:"
        " 'cdc-ops resync --mode full'.",
    )
