"""Rows of binlogs for the fold: what of them kernels read exactly as the format reads its records. Spark-free.

    Changes --left_rows--> which rows are left to the records

What `events.formats.binlog` would read of a record, this takes as the kernels make it, or leaves; tests read the same files both ways.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdc_ops.core.schema.logical_types import LogicalType, byte_length, logical_type_of
from cdc_ops.core.schema.server_types.mysql_types import DeclaredType
from cdc_ops.core.schema.server_types.unsigned_bigints import LARGEST
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.decode.program import Field, Program, is_supported
from cdc_ops.events.fast_binlog.change_batches import Changes, Target

_TAKEN: Final = frozenset(
    {
        *(LogicalType.INTEGER, LogicalType.UNSIGNED_BIGINT, LogicalType.YEAR, LogicalType.DECIMAL, LogicalType.FLOAT),
        *(LogicalType.DATE, LogicalType.WALL_CLOCK, LogicalType.INSTANT),
        *(LogicalType.TEXT, LogicalType.ENUM, LogicalType.SET, LogicalType.BINARY, LogicalType.GEOMETRY, LogicalType.VECTOR),
    }
)
"""Types of which a value that the kernels take is the one that the records have. Of others every row with a value is left."""
_SETTLED: Final = frozenset({LogicalType.JSON, LogicalType.BOOLEAN})
"""Types of which the reference decoder's value is the one that the records have, so that it is made at once where a kernel marks it."""
_ADDRESSES: Final = frozenset({"inet4", "inet6"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainBinlog:
    """How the rows of one table are read.

    Args:
        keys: The columns of the key, by their numbers.
        target: What the decoder is to read.
        settled: Columns of which the reference decoder makes the marked values.
        table: The table.
    """

    keys: tuple[int, ...]
    target: Target
    settled: frozenset[str]
    table: TableSchema


def plain_binlog(schema: TableSchema, keys: tuple[str, ...]) -> PlainBinlog | None:
    """Returns how a table's rows are read; None if all of them are left to the records."""
    names = schema.names
    if not keys or len(set(names)) != len(names) or not all(is_supported(column.delta_type) for column in schema.columns):
        return None
    fields = tuple(Field.of(column.name, column.delta_type) for column in schema.columns)
    places = tuple(names.index(key) for key in keys)
    program = Program.of(fields)
    return PlainBinlog(
        keys=places,
        target=Target(database=schema.table.schema, table=schema.table.name, program=program, images=True),
        settled=frozenset(column.name for column in schema.columns if logical_type_of(column) in _SETTLED),
        table=schema,
    )


def left_rows(form: PlainBinlog, changes: Changes) -> npt.NDArray[np.bool_]:
    """Returns which rows are left to the records: those that lack columns, move their key, or have a value of which only these know all."""
    assert changes.before is not None
    left = np.zeros(changes.kind.size, np.bool_) if changes.left is None else changes.left.copy()
    if changes.absent is not None:
        left |= changes.absent.any(axis=0)
    updates = changes.kind == 1
    for key in form.keys:
        now, then = changes.rows.column(key), changes.before.column(key)
        left |= ~_is_true(pc.is_valid(now))
        left |= updates & ~_is_true(pc.equal(now, then))
    for place, column in enumerate(form.table.columns):
        left |= _is_left(column, changes.rows.column(place))
    return left


def _is_left(column: Column, values: pa.Array) -> npt.NDArray[np.bool_]:
    """Returns which values of a column are left, by what the column is."""
    logical = logical_type_of(column)
    if logical in _SETTLED:
        return np.zeros(len(values), np.bool_)
    if logical not in _TAKEN or DeclaredType.parse(column.source_type).base in _ADDRESSES:
        return _is_true(pc.is_valid(values))
    if logical is LogicalType.INTEGER and pa.types.is_decimal(values.type):  # a BIGINT that was unsigned once
        return _is_true(pc.greater(values, pa.scalar(LARGEST).cast(values.type)))
    if logical is LogicalType.UNSIGNED_BIGINT:  # a negative number stands for one that wrapped around
        return _is_true(pc.less(values, pa.scalar(0).cast(values.type)))
    if logical is LogicalType.BINARY and (length := byte_length(column)):  # a log leaves zeros at the end out
        return _is_true(pc.not_equal(pc.binary_length(values), length))
    return np.zeros(len(values), np.bool_)


def _is_true(condition: Any) -> npt.NDArray[np.bool_]:
    """Returns a condition as an array; NULL is false."""
    found: npt.NDArray[np.bool_] = condition.fill_null(False).to_numpy(zero_copy_only=False)
    return found
