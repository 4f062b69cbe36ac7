"""What a binlog says of itself and of its neighbours, and the check that files follow each other. Pure.

    FileScan -> facts_of -> BinlogFacts ... -> check_sequence

That a file follows the one before is proven by what both say: the name in ROTATE, and the transactions that the begin of the later one
lists (PREVIOUS_GTIDS, GTID_LIST) against those at the end of the earlier one. Numbers alone would not show another server's file. Where
transactions have no GTIDs, the server's clock and the ends of files are the proof, and what they do not prove is a gap.
"""

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from cdc_ops.core.archive.binlogs.binlog_facts import BinlogFacts
from cdc_ops.core.archive.file_names import BinlogName, Layout, parse_name
from cdc_ops.core.binlog.event_stream import FileEnd
from cdc_ops.core.binlog.file_scan import FileScan
from cdc_ops.core.binlog.gtids import GtidSet, MariaDbGtids
from cdc_ops.core.binlog.unfollowed import UnfollowedChange
from cdc_ops.errors import ArchiveFileError, ArchiveOrderError, BinlogCutError

SAME_MOMENT: Final = 5
"""Seconds that may lie between the end of a file and the begin of the next one. MySQL 9.7 and MariaDB 11.4 write the same second."""


def facts_of(path: str, scan: FileScan, undecided: Iterable[UnfollowedChange] = ()) -> BinlogFacts:
    """Returns what a scanned file says.

    Args:
        path: Relative to the archive.
        scan: What it holds.
        undecided: Its distributed transactions that another file decides, with their tables.
    """
    before, after = (text_of_gtids(scan.server_id, gtids) for gtids in (scan.gtids.before, scan.gtids.after))
    return BinlogFacts(
        path=path,
        size=scan.size,
        complete_to=scan.complete_to,
        end=scan.end,
        next_name=scan.next_name,
        before=before,
        after=after,
        transactions=len(scan.ends),
        numbered=scan.gtids.after is not None and (isinstance(scan.gtids.after, MariaDbGtids) or 0 < len(scan.ends) <= scan.gtids.numbered),
        server_id=scan.server_id,
        begun=scan.times.begun,
        closed=scan.times.last,
        started=bool(scan.description.created),
        unfollowed=(*scan.unfollowed, *undecided),
    )


def text_of_gtids(server_id: int, gtids: GtidSet | None) -> str:
    """Returns server and transactions as one text, by which files are told apart; "" if a file lists none."""
    return f"server {server_id}; {gtids}" if gtids is not None else ""


def lists_transactions(gtids: str) -> bool:
    """Returns whether a text of `BinlogFacts.after` lists any: a server without GTIDs lists none."""
    return bool(gtids.partition("; ")[2] if gtids.startswith("server ") else gtids)


def follows(after: str, before: str) -> bool:
    """True if a file that lists some transactions before it can follow one that ends with some.

    Args:
        after: At the end of the earlier file, as `BinlogFacts.after`; empty = nothing is known.
        before: At the begin of the later file, as `BinlogFacts.before`; empty = nothing is known.
    """
    return not after or not before or after == before


def why_not_next(first: BinlogFacts, second: BinlogFacts) -> str:
    """Returns what shows that a file is not the one that the server wrote after another one; "" if nothing does.

    With GTIDs the transactions decide. Without them the times do: a server that closes a file begins the next one in the same second of its
    clock, and one that was shut down begins a file with its start.
    """
    if not follows(first.after, second.before):
        return f"the one ends with {first.after}, and the other begins with {second.before}"
    if has_proof_by_gtids(first, second) or first.end is FileEnd.NONE:
        return ""
    if first.server_id and second.server_id and first.server_id != second.server_id:
        return f"the one was written by the server {first.server_id}, and the other by the server {second.server_id}"
    if first.end is FileEnd.STOP and not second.started:
        return "the one ends with a shutdown of the server, and the other does not begin with its start"
    late = second.begun - first.closed
    if late < -SAME_MOMENT or (first.end is FileEnd.ROTATE and late > SAME_MOMENT):
        return f"the one was closed at {_instant(first.closed)}, and the other begun at {_instant(second.begun)}, by the server's clock"
    return ""


def is_proven_whole(file: BinlogFacts, following: BinlogFacts | None, *, is_checked_copy: bool) -> bool:
    """Returns whether a file is known to hold all that its server wrote into it.

    A file without an end is one that a crash left so, or a copy that was taken while the server wrote it. GTIDs tell these apart, and the
    archiver, which compares a copy with the length at the server; without both nothing does.

    Args:
        file: The file.
        following: The file of the next number, if it is there.
        is_checked_copy: The archiver has copied it.
    """
    if file.end is not FileEnd.NONE:
        return True
    if following is None:
        return file.numbered
    return has_proof_by_gtids(file, following) or (is_checked_copy and following.started)


def has_proof_by_gtids(first: BinlogFacts, second: BinlogFacts) -> bool:
    """Returns whether the transactions that two files list show that none is missing between them."""
    return first.numbered and bool(first.after) and bool(second.before)


def begins_alike(one: BinlogFacts, other: BinlogFacts) -> bool:
    """Returns whether two files of the same number are the same file, or one a longer copy of the other."""
    return (one.server_id, one.begun, one.before) == (other.server_id, other.begun, other.before)


def _instant(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


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
        if why := why_not_next(first, second):
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
