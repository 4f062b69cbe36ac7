"""What a binlog says of itself and of its neighbours, and the check that files follow each other. Pure.

    FileScan -> facts_of -> BinlogFacts ... -> check_sequence

That a file follows the one before is proven by what both say: the name in ROTATE, and the transactions that the begin of the later one
lists (PREVIOUS_GTIDS, GTID_LIST) against those at the end of the earlier one. Numbers alone would not show another server's file.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from cdc_ops.core.archive.file_names import BinlogName, Layout, parse_name
from cdc_ops.core.binlog.event_stream import FileEnd
from cdc_ops.core.binlog.file_scan import FileScan
from cdc_ops.core.binlog.gtids import GtidSet
from cdc_ops.errors import ArchiveFileError, ArchiveOrderError, BinlogCutError


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogFacts:
    """What one file says.

    Args:
        path: Relative to the archive.
        size: Length of its content.
        complete_to: The offset behind the last whole transaction.
        end: How it ends.
        next_name: The name of the next file, if it ends with ROTATE.
        before: Server and transactions of earlier files, as its begin lists them; "" = it lists none.
        after: Those, and the transactions of this file.
        transactions: How many it has.
    """

    path: str
    size: int
    complete_to: int
    end: FileEnd
    next_name: str
    before: str
    after: str
    transactions: int


def facts_of(path: str, scan: FileScan) -> BinlogFacts:
    """Returns what a scanned file says."""
    before, after = (_gtids(scan.server_id, gtids) for gtids in (scan.gtids_before, scan.gtids_after))
    return BinlogFacts(
        path=path,
        size=scan.size,
        complete_to=scan.complete_to,
        end=scan.end,
        next_name=scan.next_name,
        before=before,
        after=after,
        transactions=len(scan.ends),
    )


def _gtids(server_id: int, gtids: GtidSet | None) -> str:
    """Server and transactions as one text, by which files are told apart."""
    return f"server {server_id}; {gtids}" if gtids is not None else ""


def follows(after: str, before: str) -> bool:
    """True if a file that lists some transactions before it can follow one that ends with some.

    Args:
        after: At the end of the earlier file, as `BinlogFacts.after`; empty = nothing is known.
        before: At the begin of the later file, as `BinlogFacts.before`; empty = nothing is known.
    """
    return not after or not before or after == before


def binlog_name(path: str) -> BinlogName:
    """Returns what the name of a file says.

    Raises:
        ArchiveFileError: it has no number.
    """
    name = parse_name(Layout.BINLOG, path)
    if isinstance(name, BinlogName):
        return name
    raise ArchiveFileError(
        f"{path} cannot be read as a binlog: its name has no number.",
        why="The number at the end of its name is the first part of the order of its events.",
        data="Nothing of the batch was read.",
        next="Keep the names that the server gave, such as binlog.000123, and set 'layout: binlog'.",
    )


def check_sequence(files: Iterable[BinlogFacts]) -> None:
    """Checks that files follow each other, as far as they say, and that all are closed.

    Raises:
        BinlogCutError: one ends within a transaction, or the last was not closed.
        ArchiveOrderError: one does not follow the one before.
    """
    named = sorted(((binlog_name(one.path), one) for one in files), key=lambda pair: (pair[0].stream, pair[0].number))
    for name, one in named:
        following = parse_name(Layout.BINLOG, one.next_name) if one.next_name else None
        if isinstance(following, BinlogName) and (following.base, following.number) != (name.base, name.number + 1):
            raise _foreign(name.path, "its own name", f"it ends with the name of {one.next_name}")
        if one.complete_to < one.size:
            raise _not_closed(one, f"a transaction that begins at byte {one.complete_to} does not end")
    if named and named[-1][1].end is FileEnd.NONE:
        raise _not_closed(named[-1][1], "the server had not closed it, and no later file is there")
    for (name, first), (next_name, second) in itertools.pairwise(named):
        if name.stream != next_name.stream:
            raise _foreign(second.path, first.path, "they lie in different folders, or have different names: two servers")
        if next_name.number != name.number + 1:
            continue  # a gap: the proof by numbers finds it
        if not follows(first.after, second.before):
            why = f"the one ends with {first.after}, and the other begins with {second.before}"
            raise _foreign(second.path, first.path, why)


def _not_closed(file: BinlogFacts, why: str) -> BinlogCutError:
    return BinlogCutError(
        f"{file.path} ends too early, at byte {file.size}: {why}.",
        why="The file was copied while the server wrote it, or the copy was not completed.",
        data="Nothing of the batch was applied; the watermark stays.",
        next="Archive only files that the server has closed (`FLUSH BINARY LOGS` closes one), or copy the file again.",
    )


def _foreign(file: str, follows_not: str, why: str) -> ArchiveOrderError:
    return ArchiveOrderError(
        f"{file} does not follow {follows_not}: {why}.",
        why="A file was swapped, or the archive goes on with the binlogs of another server, whose positions are others.",
        data="Nothing of the batch was applied; the watermark stays.",
        next="Bring back the file of the same server. After a failover give the new server a folder of its own, and read all rows anew:"
        " 'cdc-ops resync --mode full'.",
    )
