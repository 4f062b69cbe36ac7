"""The changes of one table as record batches: what is asked for, and what both decoders hand over."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_ops.core.events.format_spec import EventOperation
from cdc_ops.decode.program import Field, Program
from cdc_ops.errors import UnstorableValueError

Int64s = npt.NDArray[np.int64]
KIND_OF: Final = {EventOperation.CREATE: 0, EventOperation.UPDATE: 1, EventOperation.DELETE: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is read of a binlog.

    Args:
        database: Of the table.
        table: Its name.
        program: The columns that are asked for, by their names.
        images: True if the images before updates are asked for, too.
    """

    database: str
    table: str
    program: Program
    images: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Rows in the order in which they were changed; all arrays have one element a row.

    Args:
        rows: After inserts and updates, and what was deleted. Of what an update does not say, the image before it speaks.
        before: The images before updates, if they are asked for; NULL for other changes.
        absent: True where no image of the row has the column, bool at [column, row]; None = nowhere.
        kind: 0 for inserts, 1 for updates, 2 for deletes.
        offset: Where its event begins in the file.
        inner: The number of its event within a compressed transaction, from 1; 0 outside.
        row: Its number in the event, from 0.
        time: Seconds since 1970 in UTC at which its statement began.
        transaction: Where the event with the GTID of its transaction begins in the file, -1 = there is none.
        left: True for rows with a value that is left to another reader, and NULL here; None = there are none.
    """

    rows: pa.RecordBatch
    before: pa.RecordBatch | None
    absent: npt.NDArray[np.bool_] | None
    kind: Int64s
    offset: Int64s
    inner: Int64s
    row: Int64s
    time: Int64s
    transaction: Int64s
    left: npt.NDArray[np.bool_] | None = None


@dataclass(slots=True, kw_only=True)
class LeftEvents:
    """What is left to another reader, who reads all of a row: what kernels do not take, and the reference decoder shall not make.

    Args:
        settled: The columns, by their names, whose marked values the reference decoder makes all the same.
        events: Offset and inner number of events, and the number of the first row that is left; filled by the reading.
    """

    settled: frozenset[str] = frozenset()
    events: dict[tuple[int, int], int] = field(default_factory=dict)


def unfit(file: str, offset: int, target: Target, field: Field, why: str) -> UnstorableValueError:
    """A column does not hold a value."""
    return UnstorableValueError(
        f"{file} has, at byte {offset}, a value of {target.database}.{target.table}.{field.name} that {field.arrow} does not hold: {why}.",
        why="The schema that was asked for has another type for the column.",
        data="Nothing behind this row was read.",
        next="Read the column as a wider type, or as STRING.",
    )
