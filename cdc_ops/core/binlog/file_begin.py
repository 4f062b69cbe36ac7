"""What the begin of a binlog says of its place: its server, its start, the transactions before it. Pure.

    first bytes of a file -> read_begin -> FileBegin

Events that servers write at the begin of a file: FORMAT_DESCRIPTION, then PREVIOUS_GTIDS (MySQL) or GTID_LIST (MariaDB).
"""

from dataclasses import dataclass

from cdc_ops.core.binlog import refusals
from cdc_ops.core.binlog.byte_reader import MalformedBytesError
from cdc_ops.core.binlog.event_stream import EventStream, Read
from cdc_ops.core.binlog.events import EventType, FormatDescription
from cdc_ops.core.binlog.gtids import GtidSet, MariaDbGtids, MySqlGtids


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBegin:
    """The begin of a binlog.

    Args:
        description: What it says of its format and its server.
        server_id: The server that wrote it.
        time: Seconds since 1970 in UTC at which it was begun.
        gtids: The transactions before it; None = the server lists none.
        size: Length of these events; transactions follow.
    """

    description: FormatDescription
    server_id: int
    time: int
    gtids: GtidSet | None
    size: int

    @property
    def fingerprint(self) -> str:
        """Tells files of the same number apart: server, time and transactions before it."""
        return f"{self.server_id}/{self.description.server_version}/{self.time}/{self.gtids if self.gtids is not None else '-'}"


def read_begin(file: str, read: Read) -> FileBegin:
    """Reads the begin of a binlog, and no more of it than its first transaction.

    Args:
        file: Its name, for messages.
        read: Returns its bytes, unpacked.

    Raises:
        BinlogError: it is no binlog, or damaged, cut or encrypted there.
    """
    stream = EventStream(file, read)
    server_id = time = size = 0
    gtids: GtidSet | None = None
    for event in stream:
        try:
            match event.header.type:
                case EventType.FORMAT_DESCRIPTION:
                    server_id, time = event.header.server_id, event.header.time
                case EventType.PREVIOUS_GTIDS:
                    gtids = MySqlGtids.read(event.body)
                case EventType.MARIADB_GTID_LIST:
                    gtids = MariaDbGtids.read(event.body)
                case EventType.MARIADB_START_ENCRYPTION | EventType.IGNORABLE:
                    pass  # of a file that is encrypted at the server, and was copied through it
                case _:
                    break
        except MalformedBytesError as error:
            raise refusals.damaged(file, event.offset, str(error)) from None
        size = event.end
    return FileBegin(description=stream.description, server_id=server_id, time=time, gtids=gtids, size=size)
