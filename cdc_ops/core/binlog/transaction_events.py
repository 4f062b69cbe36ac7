"""Reads the events that begin and prepare transactions, of any server. Pure."""

from cdc_ops.core.binlog.byte_reader import ByteReader
from cdc_ops.core.binlog.control_events import ROLLBACK_ALTER, START_ALTER, Gtid, read_mariadb_gtid, read_mysql_gtid, read_tagged_gtid
from cdc_ops.core.binlog.event_stream import RawEvent
from cdc_ops.core.binlog.events import EventType

Xid = tuple[bytes, bytes, int]


def read_gtid(event: RawEvent) -> Gtid:
    """Reads any of the events that begin a transaction.

    Raises:
        MalformedBytesError: its bytes do not fit.
    """
    match event.header.type:
        case EventType.MARIADB_GTID:
            return read_mariadb_gtid(event.body, event.header.server_id)
        case EventType.GTID_TAGGED:
            return read_tagged_gtid(event.body)
        case kind:
            return read_mysql_gtid(event.body, anonymous=kind == EventType.ANONYMOUS_GTID)


def is_not_applied(gtid: Gtid) -> bool:
    """True for the begin of an ALTER TABLE in two phases of MariaDB, and for its failure: the statement counts when it is committed."""
    return bool(gtid.alter & (START_ALTER | ROLLBACK_ALTER))


def read_xa_prepare(body: bytes) -> tuple[bool, Xid]:
    """Returns whether an XA_PREPARE event is a commit in one phase, and the name of the distributed transaction."""
    reader = ByteReader(body)
    one_phase, form, first, second = reader.u8(), reader.u32(), reader.u32(), reader.u32()
    return bool(one_phase), (reader.take(first), reader.take(second), form)
