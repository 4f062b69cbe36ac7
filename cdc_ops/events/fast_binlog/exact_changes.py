"""The changes of one table by the reference decoder alone: where there is no numba, and what the fast way must equal."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdc_ops.core.binlog import refusals
from cdc_ops.core.events.format_spec import EventOperation
from cdc_ops.decode.program import Field
from cdc_ops.events.binlog.decoder import BadRows, BinlogFile, Change, RowChange
from cdc_ops.events.binlog.rows import Image
from cdc_ops.events.fast_binlog.change_batches import KIND_OF, Changes, Target, unfit
from cdc_ops.events.fast_binlog.exact_values import UnfitValueError, stored

ROWS: Final = 20_000


def exact_changes(file: BinlogFile, target: Target, start: int, end: int) -> Iterator[Changes]:
    """Yields the changes of the transactions that begin in a range of a file.

    Raises:
        BinlogError: bytes do not fit the format, or rows not their table.
        UnstorableValueError: a column does not hold a value.
    """
    wanted = (target.database, target.table)
    changes = (_checked(file, change) for change in file.changes(lambda *name: name == wanted, start=start))
    rows = (change for change in changes if isinstance(change, RowChange) and start <= change.transaction.start < end)
    while part := list(islice(rows, ROWS)):
        yield _batch(file.name, part, target)


def _checked(file: BinlogFile, change: Change) -> Change:
    if isinstance(change, BadRows):
        raise refusals.damaged(file.name, change.place.offset, change.reason)
    return change


def _batch(file: str, changes: list[RowChange], target: Target) -> Changes:
    fields = target.program.fields
    images: list[Image] = [{**(change.before or {}), **(change.after or {})} for change in changes]
    before: list[Image] = [(change.before or {}) if change.op is EventOperation.UPDATE else {} for change in changes]
    absent = np.array([[field.name not in image for image in images] for field in fields], np.bool_)
    numbers = [
        (KIND_OF[change.op], change.place.offset, change.place.inner, change.place.row, change.time, change.transaction.start)
        for change in changes
    ]
    kind, offset, inner, row, time, transaction = np.array(numbers, np.int64).T
    return Changes(
        rows=_columns(file, changes, images, target),
        before=_columns(file, changes, before, target) if target.images else None,
        absent=absent if absent.any() else None,
        kind=kind,
        offset=offset,
        inner=inner,
        row=row,
        time=time,
        transaction=transaction,
    )


def _columns(file: str, changes: list[RowChange], images: list[Image], target: Target) -> pa.RecordBatch:
    arrays = []
    for field in target.program.fields:
        values = [_stored(file, change, image, field, target) for change, image in zip(changes, images, strict=True)]
        try:
            arrays.append(pa.array(values, field.arrow))
        except (pa.ArrowInvalid, OverflowError) as error:
            raise unfit(file, changes[0].place.offset, target, field, str(error)) from None
    return pa.RecordBatch.from_arrays(arrays, schema=target.program.arrow)


def _stored(file: str, change: RowChange, image: Image, field: Field, target: Target) -> Any:
    scales = {column.name: column.scale for column in change.table.columns}
    try:
        return stored(image.get(field.name), field, scales.get(field.name, 0))
    except UnfitValueError as error:
        raise unfit(file, change.place.offset, target, field, str(error)) from None
