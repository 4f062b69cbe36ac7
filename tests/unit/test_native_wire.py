"""The bytes of a result behind PyMySQL's own reading of its description."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

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


@contextmanager
def line() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yields the two ends of a connection as a server has it."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        theirs, _ = listener.accept()
        with theirs:
            ours.settimeout(5)
            yield ours, theirs


def test_pieces_arrive_whole_however_they_are_sent_and_then_the_end() -> None:
    sent = np.random.default_rng(7).integers(0, 256, 3_000_000, np.uint8).tobytes()
    sizes = (1, 5, 16_384, 300_000, 700_000, 3, 1_500_000)

    def send(there: socket.socket) -> None:
        at = 0
        for size in (*sizes, len(sent) - sum(sizes)):
            there.sendall(sent[at : at + size])
            at += size
            time.sleep(0.02)  # longer than the reader waits for more
        there.shutdown(socket.SHUT_WR)

    with line() as (ours, theirs), ours.makefile("rb") as stream:
        sender = threading.Thread(target=send, args=(theirs,))
        sender.start()
        fill, view, found = filler(stream, ours), memoryview(bytearray(1 << 20)), b""
        while count := fill(view[: 1 + len(found) % (1 << 20)]):
            found += view[:count]
        sender.join()
    assert found == sent


def test_a_server_that_says_nothing_is_waited_for_only_so_long() -> None:
    with line() as (ours, theirs), ours.makefile("rb") as stream:
        fill, view = filler(stream, ours), memoryview(bytearray(8192))
        theirs.sendall(b"x")
        assert fill(view) == 1
        ours.settimeout(0.1)
        with pytest.raises(TimeoutError):
            fill(view)
        theirs.sendall(b"yz")
        assert fill(view) == 2
        theirs.close()
        assert fill(view) == 0
