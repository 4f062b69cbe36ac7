"""What one binlog says of itself: its server, its times, its end, its transactions. Pure; the watermark carries those of the last one."""

from dataclasses import dataclass

from cdc_ops.core.binlog.event_stream import FileEnd
from cdc_ops.core.binlog.unfollowed import UnfollowedChange


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
        numbered: All of its transactions have GTIDs, so that `before` of the next file tells whether one is missing. False also for a file
            of MySQL without transactions: nothing shows then that its server gives GTIDs.
        server_id: The server that wrote it; 0 = not known.
        begun: Seconds since 1970 in UTC at which it was begun, by the server's clock; 0 = not known.
        closed: Of its last event; with ROTATE the second in which the server began the next file.
        started: It begins with a start of the server.
        unfollowed: Changes that are a gap for the tables that they touch; the watermark does not carry them.
    """

    path: str
    size: int
    complete_to: int
    end: FileEnd
    next_name: str
    before: str
    after: str
    transactions: int
    numbered: bool = False
    server_id: int = 0
    begun: int = 0
    closed: int = 0
    started: bool = False
    unfollowed: tuple[UnfollowedChange, ...] = ()
