"""The rows of a binary COPY of Postgres as record batches, read in large blocks; a row of any size, memory for one block."""

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, localcontext
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdc_ops.decode.batch import Batch
from cdc_ops.decode.compiler import Bytes
from cdc_ops.decode.program import Kind, Program
from cdc_ops.decode.wire.postgres_tuples import AS_IS, BROKEN, DAYS, END, FULL, MICROS, decode_fields, scan_tuples

BLOCK: Final = 4 << 20
ROWS: Final = 16_384
"""The most rows of a record batch."""
FORMS: Final = {"": AS_IS, "days": DAYS, "micros": MICROS}
"""How fields become what travels."""
_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
_HEAD: Final = len(_SIGNATURE) + 8
_LAST: Final = b"\xff\xff"
_SIGNS: Final = {0x0000: 0, 0x4000: 1}
_SPECIAL: Final = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}

Fill = Callable[[Bytes], int]
"""Puts at least one byte into a buffer and returns how many, 0 if the server has ended the COPY."""


def fill_from(blocks: Iterable[bytes | bytearray | memoryview]) -> Fill:
    """Returns what fills buffers from blocks of any size, e.g. one per row, as drivers hand them out."""
    source, rest = iter(blocks), memoryview(b"")

    def fill(view: Bytes) -> int:
        nonlocal rest
        room = view.data
        while room:
            if not rest:
                found = next(source, None)
                if found is None:
                    break
                rest = memoryview(found)
            count = min(len(rest), len(room))
            room[:count], room, rest = rest[:count], room[count:], rest[count:]
        return view.size - len(room)

    return fill


def numeric_value(raw: bytes) -> Decimal:
    """Returns the value of a numeric as Postgres sends it, NaN and infinities among them.

    >>> numeric_value(bytes.fromhex("0002" "0000" "4000" "0002" "0001" "1388"))
    Decimal('-1.5000')

    Raises:
        ValueError: the bytes are no numeric.
    """
    numbers = [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]
    if len(raw) % 2 or len(numbers) < 4 or len(numbers) != 4 + numbers[0] or any(group > 9999 for group in numbers[4:]):
        raise ValueError(f"{raw[:40]!r} is no numeric")
    groups, weight, sign, _ = numbers[:4]
    if sign in _SPECIAL:
        return Decimal(_SPECIAL[sign])
    if sign not in _SIGNS:
        raise ValueError(f"{raw[:40]!r} is no numeric")
    weight -= (weight & 0x8000) << 1
    digits = tuple(int(digit) for group in numbers[4:] for digit in f"{group:04}")
    with localcontext(prec=200_000):
        return Decimal((_SIGNS[sign], digits or (0,), 4 * (weight - groups + 1) if groups else 0))


class PostgresRows:
    """The rows of one COPY.

    Args:
        program: The columns, as they travel.
        forms: One of `FORMS` per column.
        fill: Reads what the server sends, cut anywhere.
        block: Bytes of the buffer; it grows for a row that is larger.
    """

    def __init__(self, program: Program, forms: tuple[str, ...], fill: Fill, block: int = BLOCK) -> None:
        self._program = program
        self._batch = Batch(program, ROWS)
        self._forms = np.array([FORMS[form] for form in forms], np.int64)
        self._fill = fill
        self._data: Bytes = np.empty(max(block, _HEAD), np.uint8)
        self._place = np.zeros(3, np.int64)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in their order.

        Raises:
            ConnectionError: the server ended before the rows did, or what arrived is no row.
            ValueError: bytes are no value of their column.
        """
        self._begin()
        while True:
            why = scan_tuples(self._batch.cells, self._data, self._place)
            if rows := int(self._place[2]):
                yield self._handed_over(rows)
            if why == END:
                self._end()
                return
            if why == BROKEN:
                raise ConnectionError("the server sent what is no row of these columns")
            if why != FULL:
                self._read_more()

    def _begin(self) -> None:
        """Reads what stands before the rows."""
        while self._place[1] < _HEAD:
            self._read_more()
        head = self._data[:_HEAD].tobytes()
        if not head.startswith(_SIGNATURE) or head[len(_SIGNATURE) :] != bytes(8):
            raise ConnectionError("the server sent what is no binary COPY")
        self._place[0] = _HEAD

    def _end(self) -> None:
        """Makes sure that the server, too, ends behind the last row: an error may follow."""
        left = self._data[int(self._place[0]) + len(_LAST) : int(self._place[1])]
        if left.size or self._fill(self._data):
            raise ConnectionError("the server sent more behind the last row")

    def _read_more(self) -> None:
        """Puts what comes next behind the begun row."""
        if self._place[1] == self._data.size:
            self._make_room()
        end = int(self._place[1])
        count = self._fill(self._data[end:])
        if count <= 0:
            raise ConnectionError("the server ended in the middle of the rows")
        self._place[1] = end + count

    def _make_room(self) -> None:
        """Moves the begun row to the beginning of the buffer, and makes the buffer larger if it is full of it."""
        start = int(self._place[0])
        kept = self._data[start:]
        larger = self._data if start else np.empty(2 * self._data.size, np.uint8)
        larger[: kept.size] = kept
        self._data = larger
        self._place[:2] = 0, kept.size

    def _handed_over(self, rows: int) -> pa.RecordBatch:
        decode_fields(self._program.arrays, self._forms, self._batch.cells, self._data, rows)
        for row, column in self._batch.marked(rows):
            self._batch.put(row, column, self._exact(column, self._batch.bytes_of(row, column, self._data)))
        found = self._batch.record_batch(self._data, rows)
        self._batch.clear()
        self._place[2] = 0
        return found

    def _exact(self, column: int, raw: bytes) -> Any:
        field = self._program.fields[column]
        if field.kind is Kind.DECIMAL:
            return numeric_value(raw)
        raise ValueError(
            f"{raw[:40]!r} is no {field.kind.name.lower()} of {field.width} bytes" if field.width else f"{raw[:40]!r} is not UTF-8"
        )
