"""The rows of a result of MySQL or MariaDB as record batches, read in large blocks; a row of any size, memory for one block."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from cdc_ops.decode.wire.columns import WireBatch, WireColumn
from cdc_ops.decode.wire.mysql_packets import END, ERROR, FULL, LARGE, MORE, scan_packets, scan_row

BLOCK: Final = 4 << 20
ROWS: Final = 16_384
"""The most rows of a record batch."""
_HEAD: Final = 4
_LONGEST: Final = 0xFFFFFF

Fill = Callable[[memoryview], int]
"""Reads at least one byte into a buffer and returns how many, 0 if the connection was closed."""


class MySQLRows:
    """The rows of one result, from behind the packets that describe its columns.

    Args:
        columns: Of the result.
        fill: Reads from the connection.
        number: Of the first packet.
        refuse: Receives the packet with which the server ends a result early, and raises.
        block: Bytes of the buffer; it grows for a packet that is larger.
    """

    def __init__(
        self, columns: tuple[WireColumn, ...], fill: Fill, number: int, refuse: Callable[[bytes], None], block: int = BLOCK
    ) -> None:
        self._batch = WireBatch(columns, ROWS)
        self._fill = fill
        self._refuse = refuse
        self._data = np.empty(block, np.uint8)
        self._place = np.array([0, 0, 0, number], np.int64)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in their order.

        Raises:
            ConnectionError: the connection ended before the rows did, or what arrived is no row.
            ValueError: bytes are no value of their column.
        """
        while True:
            why = scan_packets(self._batch.cells, self._data, self._place)
            if why == MORE and self._place[1] < self._data.size:
                self._read_more()
                continue
            yield from self._rows_so_far()
            if why == END:
                return
            if why == MORE:
                self._make_room()
            elif why == LARGE:
                yield from self._large_row()
            elif why == ERROR:
                self._refuse(self._packet(any_number=True))
            elif why != FULL:
                raise ConnectionError("the server sent a packet that is no row of this result")

    def _read_more(self) -> None:
        """Reads what there is into the rest of the buffer."""
        end = int(self._place[1])
        count = self._fill(self._data.data[end:])
        if count <= 0:
            raise ConnectionError("the server closed the connection in the middle of the rows")
        self._place[1] = end + count

    def _rows_so_far(self) -> Iterator[pa.RecordBatch]:
        """Hands over the rows that were found; their texts are in the buffer, which is free for others then."""
        rows = int(self._place[2])
        if rows:
            self._batch.settle(self._data, rows)
            yield self._batch.hand_over(self._data, rows)
            self._batch.clear()
            self._place[2] = 0

    def _make_room(self) -> None:
        """Moves the begun packet to the beginning of the buffer, and makes the buffer larger if it is full of it."""
        start, end = int(self._place[0]), int(self._place[1])
        kept = self._data[start:end]
        larger = self._data if start else np.empty(2 * self._data.size, np.uint8)
        larger[: kept.size] = kept
        self._data = larger
        self._place[:2] = 0, kept.size

    def _packet(self, *, any_number: bool = False) -> bytes:
        """Takes the next packet, and returns its bytes without its head; MariaDB numbers an error 0 when it shuts down."""
        head = self._take(_HEAD)
        size = int.from_bytes(head[:3], "little")
        if head[3] != self._place[3] and not any_number:
            raise ConnectionError("the server sent packets that do not follow each other")
        self._place[3] = (self._place[3] + 1) & 255
        return self._take(size)

    def _take(self, size: int) -> bytes:
        """Takes so many bytes, which may be more than the buffer holds."""
        parts = []
        while size:
            start, end = int(self._place[0]), int(self._place[1])
            if start == end:
                self._place[:2] = 0
                self._read_more()
                continue
            parts.append(self._data[start : min(end, start + size)].tobytes())
            self._place[0] = start + len(parts[-1])
            size -= len(parts[-1])
        return b"".join(parts)

    def _large_row(self) -> Iterator[pa.RecordBatch]:
        """Yields a row of several packets: all but the last have the greatest length."""
        packets = [self._packet()]
        while len(packets[-1]) == _LONGEST:
            packets.append(self._packet())
        data = np.frombuffer(b"".join(packets), np.uint8)
        del packets
        if not scan_row(self._batch.cells, data):
            raise ConnectionError("the server sent packets that are no row of this result")
        self._batch.settle(data, 1)
        yield self._batch.hand_over(data, 1)
        self._batch.clear()
