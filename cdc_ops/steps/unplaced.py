"""Rows whose place in the order of changes is NULL: the statement ends at the first one. Spark-free."""

from collections.abc import Iterator
from contextlib import contextmanager

from cdc_ops.core.operations import OperationSpec
from cdc_ops.core.stored_as import UNPLACED
from cdc_ops.errors import NullSequenceError
from cdc_ops.steps.unstorable import full_text


@contextmanager
def translated_order(spec: OperationSpec) -> Iterator[None]:
    """Turns the failure of such a statement into an error of ours.

    Raises:
        NullSequenceError: a row has NULL in a column of `sequence_by`.
    """
    try:
        yield
    except Exception as error:  # of a failing statement, Py4J's own error comes through as well as PySpark's
        sequence = spec.stored_as.sequence
        if sequence is None or UNPLACED not in full_text(error):
            raise
        names = ", ".join(sequence.columns)
        raise NullSequenceError(
            f"Rows of {spec.table} have NULL in 'sequence_by' ({names}).",
            why="Such a row is neither older nor newer than any other.",
            data="Nothing of this batch was written; the watermark stays.",
            next=f"Repair the rows at the source (WHERE {' IS NULL OR '.join(sequence.columns)} IS NULL), or order by columns that are"
            " NOT NULL there.",
        ) from error
