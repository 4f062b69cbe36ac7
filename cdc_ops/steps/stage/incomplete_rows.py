"""Events that change some columns of a row which the table does not have: the statement ends at the first one and names its key."""

import re
from typing import Final

from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.schema.declared_tables import next_step
from cdc_ops.core.text import quoted
from cdc_ops.errors import IncompleteRowError
from cdc_ops.lake.merge.sql import INCOMPLETE

_FOUND: Final = re.compile(re.escape(INCOMPLETE) + r"([0-9A-F]*):")


def incomplete_row(operation: Operation, failure: str) -> IncompleteRowError | None:
    """Returns the error, if the text of a failure is that of an event that changes some columns of a row which the table does not have."""
    found = _FOUND.search(failure)
    if found is None:
        return None
    key = bytes.fromhex(found[1]).decode()
    return IncompleteRowError(
        f"An event changes some columns of the row with {', '.join(map(quoted, operation.source_keys))} = {key} of {operation.table},"
        " which the table does not have.",
        why="Its insert is not in the archive: the archive begins later, or events were removed from it.",
        data="Nothing of this batch was written; the watermark stays.",
        next=next_step(
            f"resync --pipeline {operation.pipeline} --table {operation.table} --mode full",
            "brings the rows from before the archive",
            declared=isinstance(operation.read, ArchiveRead) and bool(operation.read.batch.declared),
            first="Archive the tool's own snapshot, too.",
        ),
    )
