"""The bytes of a result behind PyMySQL's own reading of its description."""

import socket

from cdc_ops.decode.wire.columns import WireColumn
from cdc_ops.decode.wire.mysql_rows import MySQLRows
from cdc_ops.sources.mysql.wire import filler

RESULT = b"\x02\x00\x00\x07\x011" + b"\x05\x00\x00\x08\xfe\x00\x00\x02\x00"


def refuse(packet: bytes) -> None:
    raise AssertionError(packet)


def test_a_small_result_that_came_with_its_description_is_not_waited_for() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as stream:
        ours.settimeout(5)
        theirs.sendall(b"description" + RESULT)
        assert stream.read(11) == b"description"
        batches = list(MySQLRows((WireColumn(name="c1", carried="int"),), filler(stream, ours), 7, refuse))
        assert [batch.to_pylist() for batch in batches] == [[{"c1": 1}]]
