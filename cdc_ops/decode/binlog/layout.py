"""How the columns of tables lie in the rows of binlogs, and what becomes of their values: the arrays that steer the loop over rows."""

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from cdc_ops.decode.cells import Cells
from cdc_ops.decode.compiler import INT64S, Int64s
from cdc_ops.decode.text_columns import CELLS

Table = npt.NDArray[np.int64]
"""Rows and columns of numbers."""


class How(IntEnum):
    """How the value of a column becomes that of a cell; `a` and `b` are its numbers in `SourceColumns`."""

    EXACT = 0
    """Always marked."""
    SIGNED = 1
    """`a`: bytes of the target."""
    UNSIGNED = 2
    """`a`: bytes of the target."""
    WIDE_SIGNED = 3
    """An integer as a decimal."""
    WIDE_UNSIGNED = 4
    FLOAT = 5
    DOUBLE = 6
    DECIMAL = 7
    """`a`: digits, `b`: of them those behind the point."""
    DATE = 8
    DATETIME = 9
    """`a`: digits of fractions."""
    TIMESTAMP = 10
    """`a`: digits of fractions."""
    OLD_TIMESTAMP = 11
    YEAR = 12
    UTF8 = 13
    SHORT_UTF8 = 14
    """Without signs above U+FFFF."""
    ASCII = 15
    BYTES = 16
    PADDED = 17
    """Bytes that the server cuts the zeros off from; `a`: their length."""
    LABEL = 18
    """The number of a label; `a`: their count, `b`: the place of the first one among all labels."""
    FLAGS = 19
    """Bits of labels, plain if it is one at most; `a`, `b`: as with LABEL."""


class ColumnLayout(IntEnum):
    """What a row of `Layout.columns` says of a column."""

    SIZE = 0
    """Bytes of a value; negative = it begins with so many bytes of its length."""
    HOW = 1
    A = 2
    B = 3
    TARGET = 4
    """The column of the cells, -1 = it is not asked for."""


class Layout(NamedTuple):
    """How the columns of tables lie in rows, and what becomes of them, int64.

    Args:
        columns: A row each column, see `ColumnLayout`; those of all descriptions, one behind the other.
        tables: A row each description: its first column, and how many it has.
        labels: A row each label: where it begins and ends in the batch's own buffer.
    """

    columns: Table
    tables: Table
    labels: Table


class Output(NamedTuple):
    """What is filled, one element a row.

    Args:
        cells: The rows: after inserts and updates, and what was deleted. Of what an update does not say, the image before it speaks.
            Where the images before updates are asked for, their columns stand behind those of the rows.
        event: The event of a row, by its number in the list, int64.
        row: The number of the row in its event, from 0, int64.
    """

    cells: Cells
    event: Int64s
    row: Int64s


class Cursor(IntEnum):
    """What stands where in the array that says how far the rows are decoded, int64; changed in place."""

    EVENT = 0
    """The event, by its place in `chosen`."""
    AT = 1
    """Where its next row begins; 0 = it has not begun."""
    ROW = 2
    """The number of that row in it."""
    FILLED = 3
    """How many rows the cells hold."""
    IMAGES = 4
    """How many columns the rows have, if the images before updates are asked for, too; else 0."""


LAYOUT: Final = types.NamedUniTuple(types.int64[:, ::1], 3, Layout)
"""numba's type of `Layout`."""
OUTPUT: Final = types.NamedTuple((CELLS, INT64S, INT64S), Output)
"""numba's type of `Output`."""
CURSOR_PLACES: Final = len(Cursor)
