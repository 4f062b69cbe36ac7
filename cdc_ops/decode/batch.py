"""A batch: cells that kernels fill, values that plain Python puts beside them, and the record batch of Arrow that both become."""

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdc_ops.decode.cells import ASIDE, MARKED, NULL, TEXT, VALUE, Cells
from cdc_ops.decode.compiler import Bytes
from cdc_ops.decode.program import Field, Kind, Program
from cdc_ops.decode.text_columns import decode_texts, find_marked, gather, lay_out

_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_UTC: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WORD: Final = 2**64


class Batch:
    """The rows of one program on their way from an input to a record batch; used again for the next input after `clear`.

    A front end fills `cells` and says how many rows are filled; `decode_texts` makes values of texts; `marked` lists what goes the exact
    way, which is put back with `put`; `record_batch` hands over.

    Args:
        program: What the columns are.
        rows: How many rows there is room for.
    """

    def __init__(self, program: Program, rows: int) -> None:
        self.program = program
        self.cells = Cells.empty(len(program.fields), rows)
        self._aside = bytearray()

    def clear(self) -> None:
        """Makes all cells NULL, and forgets what was put aside."""
        self.cells.state[:] = NULL
        self._aside = bytearray()

    def decode_texts(self, data: Bytes, rows: int, separator: str = " ") -> int:
        """Makes values of the cells in the state TEXT; returns how many cells are marked."""
        return int(decode_texts(self.program.arrays, self.cells, data, rows, ord(separator)))

    def marked(self, rows: int) -> list[tuple[int, int]]:
        """Returns row and column of the marked cells, in the order of the rows."""
        count = int(np.count_nonzero(self.cells.state[:, :rows] == MARKED))
        places = np.empty((2, count), np.int64)
        find_marked(self.cells, rows, places[0], places[1])
        return list(zip(places[0].tolist(), places[1].tolist(), strict=True))

    def bytes_of(self, row: int, column: int, data: Bytes) -> bytes:
        """Returns the bytes of a marked cell."""
        return data[self.cells.low[column, row] : self.cells.high[column, row]].tobytes()

    def put(self, row: int, column: int, value: Any) -> None:
        """Puts a Python value into a cell: None, bool, int, float, Decimal, date, datetime, str or bytes, as the column wants it.

        Raises:
            OverflowError: the column's type does not hold the value.
        """
        if value is None:
            self.cells.state[column, row] = NULL
            return
        field = self.program.fields[column]
        low, high, state = self._words(field, value)
        if not -(2**63) <= high < 2**63:
            raise OverflowError(f"{value!r} does not fit into {field.arrow}")
        self.cells.low[column, row], self.cells.high[column, row], self.cells.state[column, row] = low, high, state

    def _words(self, field: Field, value: Any) -> tuple[int, int, int]:
        match field.kind:
            case Kind.STRING | Kind.BINARY:
                raw = value.encode() if isinstance(value, str) else bytes(value)
                start = self.put_aside(raw)
                return start, start + len(raw), ASIDE
            case Kind.DECIMAL:
                return *_decimal_words(field, value), VALUE
            case Kind.FLOAT:
                return struct.unpack("<i", struct.pack("<f", value))[0], 0, VALUE
            case Kind.DOUBLE:
                return struct.unpack("<q", struct.pack("<d", value))[0], 0, VALUE
            case Kind.DATE:
                return (value - date(1970, 1, 1)).days, 0, VALUE
            case Kind.TIMESTAMP:
                return _micros(value, _EPOCH_UTC), 0, VALUE
            case Kind.TIMESTAMP_NTZ:
                return _micros(value, _EPOCH), 0, VALUE
            case Kind.INTEGER | Kind.BOOLEAN:
                return _in_range(field, int(value)), 0, VALUE

    def put_aside(self, raw: bytes) -> int:
        """Puts bytes into the batch's own buffer, until `clear`, for cells in the state ASIDE; returns where they begin."""
        start = len(self._aside)
        self._aside += raw
        return start

    def record_batch(self, data: Bytes, rows: int) -> pa.RecordBatch:
        """Hands the rows over: a record batch of its own memory.

        Raises:
            ValueError: a cell is still marked, or a text not yet decoded: it would be lost.
            OverflowError: the texts of one column have more than 2 GiB.
        """
        state = self.cells.state[:, :rows]
        if np.any((state == MARKED) | (state == TEXT)):
            raise ValueError("cells are marked and not settled")
        aside = np.frombuffer(self._aside, np.uint8)
        arrays = [self._array(column, field, rows, data, aside) for column, field in enumerate(self.program.fields)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.program.arrow)

    def _array(self, column: int, field: Field, rows: int, data: Bytes, aside: Bytes) -> pa.Array:
        state = self.cells.state[column, :rows]
        valid = (state == VALUE) | (state == ASIDE)
        nulls = rows - int(np.count_nonzero(valid))
        validity = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
        if field.kind in {Kind.STRING, Kind.BINARY}:
            buffers = [validity, *self._gathered(column, rows, data, aside)]
        else:
            buffers = [validity, pa.py_buffer(_fixed(self.cells, column, field, rows))]
        return pa.Array.from_buffers(field.arrow, rows, buffers, nulls)

    def _gathered(self, column: int, rows: int, data: Bytes, aside: Bytes) -> list[pa.Buffer]:
        offsets = np.empty(rows + 1, np.int32)
        size = lay_out(self.cells, column, rows, offsets)
        if size < 0:
            raise OverflowError("the texts of one column of a batch have more than 2 GiB")
        out = np.empty(size, np.uint8)
        gather(self.cells, column, rows, data, aside, out)
        return [pa.py_buffer(offsets), pa.py_buffer(out)]


def _fixed(cells: Cells, column: int, field: Field, rows: int) -> np.ndarray[Any, Any]:
    """Returns the values of a column of fixed width, as Arrow keeps them."""
    low = cells.low[column, :rows]
    match field.kind:
        case Kind.DECIMAL:
            return np.stack((low, cells.high[column, :rows]), axis=1)
        case Kind.BOOLEAN:
            return np.packbits(low != 0, bitorder="little")
        case Kind.FLOAT | Kind.DATE:
            return low.astype(np.int32)
        case _:
            return low.astype(f"i{field.width}")


def _in_range(field: Field, value: int) -> int:
    if not -(1 << (8 * field.width - 1)) <= value < 1 << (8 * field.width - 1):
        raise OverflowError(f"{value} does not fit into {field.arrow}")
    return value


def _decimal_words(field: Field, value: Decimal) -> tuple[int, int]:
    sign, digits, exponent = value.as_tuple()
    shift = exponent + field.scale if isinstance(exponent, int) else -1
    unscaled = int("".join(map(str, digits)) or "0")
    if shift < 0 and (not isinstance(exponent, int) or unscaled % 10**-shift):
        raise OverflowError(f"{value} does not fit into {field.arrow}")
    unscaled = unscaled * 10**shift if shift >= 0 else unscaled // 10**-shift
    if unscaled >= 10**field.precision:
        raise OverflowError(f"{value} does not fit into {field.arrow}")
    low, high = (-unscaled if sign else unscaled) % _WORD, (-unscaled if sign else unscaled) // _WORD
    return low - _WORD if low >= _WORD // 2 else low, high


def _micros(value: datetime, epoch: datetime) -> int:
    span = value - epoch
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds
