"""The rows of a binary COPY of Postgres as record batches, from the blocks that the driver hands out; memory for one buffer."""

from collections.abc import Iterable, Iterator
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
_SIGNS: Final = {0x0000: 0, 0x4000: 1}
_SPECIAL: Final = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}


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
        blocks: What the server sends, cut anywhere.
    """

    def __init__(self, program: Program, forms: tuple[str, ...], blocks: Iterable[bytes | bytearray | memoryview]) -> None:
        self._program = program
        self._batch = Batch(program, ROWS)
        self._forms = np.array([FORMS[form] for form in forms], np.int64)
        self._blocks = iter(blocks)
        self._data: Bytes = np.empty(0, np.uint8)
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
                return
            if why == BROKEN:
                raise ConnectionError("the server sent what is no row of these columns")
            if why != FULL:
                self._read_more()

    def _begin(self) -> None:
        """Reads what stands before the rows."""
        while self._data.size < _HEAD:
            self._read_more()
        head = self._data[:_HEAD].tobytes()
        if not head.startswith(_SIGNATURE) or head[len(_SIGNATURE) :] != bytes(8):
            raise ConnectionError("the server sent what is no binary COPY")
        self._place[0] = _HEAD

    def _read_more(self) -> None:
        """Keeps the begun row, and puts what comes next behind it.

        Blocks are copied at once: the driver hands out one per row.
        """
        data = bytearray(self._data[int(self._place[0]) :])
        start, enough = len(data), max(BLOCK, 2 * len(data))  # a large row is not copied again and again
        for block in self._blocks:
            data += block
            if len(data) >= enough:
                break
        if len(data) == start:
            raise ConnectionError("the server ended in the middle of the rows")
        self._data = np.frombuffer(data, np.uint8)
        self._place[:2] = 0, self._data.size

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
