"""Columns on the wire: as what they travel to Spark, and how their bytes are read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cdc_ops.decode.batch import Batch
from cdc_ops.decode.cells import VALUE
from cdc_ops.decode.compiler import Bytes
from cdc_ops.decode.exact import exact_value
from cdc_ops.decode.program import Field, Program


@dataclass(frozen=True, slots=True, kw_only=True)
class WireColumn:
    """One column of a result.

    Args:
        name: In the record batch.
        carried: Type in which it travels on, as Spark's DDL.
        read: Type whose form its bytes have, as Spark's DDL; "" = the same. Both have the same width in Arrow.
        offset: Added to what is read, e.g. the days before 1970 of a source that counts from the year 0.
        exact: Makes the travelling value of bytes that are not plain; None = that of `cdc_ops.decode.exact`.
    """

    name: str
    carried: str
    read: str = ""
    offset: int = 0
    exact: Callable[[bytes], Any] | None = None

    @property
    def field(self) -> Field:
        """How its bytes are read."""
        return Field.of(self.name, self.read or self.carried)


class WireBatch(Batch):
    """A batch of which some columns travel on as another type of the same width.

    Args:
        columns: Of the result.
        rows: How many rows there is room for.
    """

    def __init__(self, columns: tuple[WireColumn, ...], rows: int) -> None:
        super().__init__(Program.of(column.field for column in columns), rows)
        self.columns = columns
        self.carried = Program.of(Field.of(column.name, column.carried) for column in columns)
        self._offsets = tuple((place, column.offset) for place, column in enumerate(columns) if column.offset)

    def settle(self, data: Bytes, rows: int) -> None:
        """Makes values of all texts: plain Python reads what kernels mark.

        Raises:
            ValueError: bytes are no value of their column, e.g. a text that is not UTF-8.
            ArithmeticError: a number that its column does not hold.
        """
        marked = self.decode_texts(data, rows)
        for place, offset in self._offsets:
            words = self.cells.low[place, :rows]
            np.add(words, offset, out=words, where=self.cells.state[place, :rows] == VALUE)
        for row, place in self.marked(rows) if marked else ():
            self._settle_one(row, place, self.bytes_of(row, place, data))

    def _settle_one(self, row: int, place: int, raw: bytes) -> None:
        column, field = self.columns[place], self.program.fields[place]
        if column.exact is None:
            self.put(row, place, exact_value(field, raw))
            return
        self.cells.low[place, row], self.cells.state[place, row] = column.exact(raw), VALUE

    def hand_over(self, data: Bytes, rows: int) -> pa.RecordBatch:
        """Returns the rows in the types in which they travel on."""
        batch = self.record_batch(data, rows)
        arrays = [
            array.view(field.arrow) if column.read else array
            for array, field, column in zip(batch.columns, self.carried.fields, self.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.carried.arrow)
