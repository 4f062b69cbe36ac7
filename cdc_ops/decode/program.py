"""The program of a table: what each of its columns is, as arrays that the kernels read. A kernel is compiled once, never per table.

Types are those of Spark's DDL, because that is what the lake stores and what a source's rows travel in.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MAX_DIGITS: Final = 38

_DECIMAL: Final = re.compile(r"decimal\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")


class Kind(IntEnum):
    """What a column holds. What the two words of a cell say then, `cdc_ops.decode.batch.Cells` tells."""

    BOOLEAN = 0
    INTEGER = 1
    DECIMAL = 2
    FLOAT = 3
    DOUBLE = 4
    DATE = 5
    TIMESTAMP = 6
    TIMESTAMP_NTZ = 7
    STRING = 8
    BINARY = 9


_SIMPLE: Final = {
    "boolean": (Kind.BOOLEAN, 1),
    "tinyint": (Kind.INTEGER, 1),
    "smallint": (Kind.INTEGER, 2),
    "int": (Kind.INTEGER, 4),
    "bigint": (Kind.INTEGER, 8),
    "float": (Kind.FLOAT, 4),
    "double": (Kind.DOUBLE, 8),
    "date": (Kind.DATE, 4),
    "timestamp": (Kind.TIMESTAMP, 8),
    "timestamp_ntz": (Kind.TIMESTAMP_NTZ, 8),
    "string": (Kind.STRING, 0),
    "binary": (Kind.BINARY, 0),
}
_ARROW: Final = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.TIMESTAMP_NTZ: pa.timestamp("us"),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
}
_INTEGERS: Final = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column of a program.

    Args:
        name: Of the column in the record batch.
        kind: What it holds.
        width: Bytes of a value, 0 for texts and bytes, 16 for decimals.
        precision: Digits of a decimal, else 0.
        scale: Of them those behind the point.
        nullable: False where a NULL is to be marked rather than taken.
    """

    name: str
    kind: Kind
    width: int
    precision: int = 0
    scale: int = 0
    nullable: bool = True

    @classmethod
    def of(cls, name: str, ddl: str, *, nullable: bool = True) -> "Field":
        """Makes a field from a type of Spark's DDL.

        Raises:
            ValueError: there are no kernels for this type; `is_supported` tells before.

        >>> Field.of("c1", "decimal(10,2)").scale
        2
        """
        text = ddl.strip().lower()
        if text in _SIMPLE:
            kind, width = _SIMPLE[text]
            return cls(name=name, kind=kind, width=width, nullable=nullable)
        found = _DECIMAL.fullmatch(text)
        if found is None or not 0 < int(found[1]) <= MAX_DIGITS or int(found[2] or 0) > int(found[1]):
            raise ValueError(f"there are no kernels for columns of type {ddl!r}")
        return cls(name=name, kind=Kind.DECIMAL, width=16, precision=int(found[1]), scale=int(found[2] or 0), nullable=nullable)

    @property
    def arrow(self) -> pa.DataType:
        """The type of the column in the record batch."""
        if self.kind is Kind.INTEGER:
            return _INTEGERS[self.width]
        return pa.decimal128(self.precision, self.scale) if self.kind is Kind.DECIMAL else _ARROW[self.kind]


def is_supported(ddl: str) -> bool:
    """True if columns of this type of Spark's DDL can be decoded."""
    try:
        Field.of("", ddl)
    except ValueError:
        return False
    return True


class ProgramArrays(NamedTuple):
    """What kernels read of a program, one element a column; numba takes a named tuple of arrays as it stands.

    Args:
        kind: Of `Kind`, uint8.
        width: Bytes of a value, uint8.
        precision: Digits of a decimal, uint8.
        scale: Of them those behind the point, uint8.
        nullable: 0 or 1, uint8.
    """

    kind: npt.NDArray[np.uint8]
    width: npt.NDArray[np.uint8]
    precision: npt.NDArray[np.uint8]
    scale: npt.NDArray[np.uint8]
    nullable: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The columns of a table, in their order, for Python (`fields`) and for kernels (`arrays`)."""

    fields: tuple[Field, ...]
    arrays: ProgramArrays

    @classmethod
    def of(cls, fields: Iterable[Field]) -> "Program":
        """Makes the program of these columns."""
        own = tuple(fields)
        rows = [(field.kind, field.width, field.precision, field.scale, field.nullable) for field in own]
        table = np.array(rows, dtype=np.uint8).reshape(len(own), 5)
        return cls(fields=own, arrays=ProgramArrays(*(np.ascontiguousarray(table[:, place]) for place in range(5))))

    @property
    def arrow(self) -> pa.Schema:
        """The schema of the record batches."""
        return pa.schema([pa.field(field.name, field.arrow, nullable=field.nullable) for field in self.fields])
