"""Events that change some columns of a row which the table does not have: the statement ends at the first one and names its key."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.schema.declared_tables import next_step
from cdc_ops.core.text import quoted
from cdc_ops.errors import IncompleteRowError
from cdc_ops.lake.merge.sql import INCOMPLETE
from cdc_ops.steps.stage.invalid_values import full_text

_FOUND: Final = re.compile(re.escape(INCOMPLETE) + r"([0-9A-F]*):")


@contextmanager
def translated_gaps(spec: Operation) -> Iterator[None]:
    """Turns the end of a statement at a row that is not known as a whole into an error of ours.

    Raises:
        IncompleteRowError: an event changes some columns of a row that the table does not have.
    """
    try:
        yield
    except Exception as error:  # of a failing statement, Py4J's own error comes through as well as PySpark's
        found = _FOUND.search(full_text(error))
        if found is None:
            raise
        key = bytes.fromhex(found[1]).decode()
        raise IncompleteRowError(
            f"An event changes some columns of the row with {', '.join(map(quoted, spec.source_keys))} = {key} of {spec.table},"
            " which the table does not have.",
            why="Its insert is not in the archive: the archive begins later, or events were removed from it.",
            data="Nothing of this batch was written; the watermark stays.",
            next=next_step(
                f"resync --pipeline {spec.pipeline} --table {spec.table} --mode full",
                "brings the rows from before the archive",
                declared=isinstance(spec.read, ArchiveRead) and bool(spec.read.batch.declared),
                first="Archive the tool's own snapshot, too.",
            ),
        ) from error
