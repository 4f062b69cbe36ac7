"""Refuses a read that has brought far fewer rows than there are, before anything of it is committed; for every reader and method."""

from collections.abc import Iterable

from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.row_counts import RowsExpected
from cdc_ops.errors import CountMismatchError
from cdc_ops.sources.base import Source


def check_rows_read(
    source: Source, operation: Operation, read: int, *, expected: RowsExpected | None = None, slices: Iterable[str] | None = None
) -> None:
    """Asks the source again for the number of rows where a read has brought too few of them.

    Args:
        source: That which was read. It counts in a new statement, so that neither a snapshot nor a limit of the read has a part in it.
        operation: The frozen operation.
        read: How many rows were read.
        expected: How many were expected; None = as the plan says.
        slices: Conditions of the rows; None = those of the operation.

    Raises:
        CountMismatchError: it has rows that were not read.
    """
    known = expected or RowsExpected.of(operation)
    if not known.is_doubtful(read):
        return
    found, limit = 0, known.too_many(read)
    for where in operation.slices if slices is None else slices:
        found += source.count(operation.table, where, limit - found)
        if found >= limit:
            raise _mismatch(operation, read, found, known)


def _mismatch(operation: Operation, read: int, found: int, expected: RowsExpected) -> CountMismatchError:
    planned = f"{'counted' if expected.exact else 'expected about'} {expected.rows:,} rows" if expected.rows else "knew no number"
    return CountMismatchError(
        f"Operation {operation.op_seq} ({operation.kind}) of {operation.table} has read {read:,} rows, and the source has at least"
        f" {found:,}.",
        why=f"The plan {planned}. Rows were hidden from the read: by a setting of the server or of the user, by a table that was replaced"
        " meanwhile, or by a fault.",
        data="Nothing of this read was written; the operation stays frozen with its window, and the watermark stays.",
        next="Nothing to do for a single case: scheduled runs read the same rows again. If it repeats, compare SELECT COUNT(*) with the"
        " number of rows that a SELECT of the user of the connection brings, and report it.",
    )
