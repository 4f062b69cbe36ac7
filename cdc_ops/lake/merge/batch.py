"""A batch of rows on its way into its table, and the steps that prepare it.

    rows as they were read --+-- step --+-- step --+-- ... --+-- one statement (`lake.merge.apply`)
    the statement's plan   --+          +          +

Each step takes the frozen operation and a batch, and returns the batch: other rows, another plan, or both. A step that an operation does
not need returns the batch as it is. `steps.merge` has the list.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from cdc_ops.core.cursor.late_rows import NONE_LATE, LateRows
from cdc_ops.core.operation.merging.merge_plan import MergePlan
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Manifest
from cdc_ops.lake.data_files.checked_write import WrittenRows
from cdc_ops.lake.data_files.task_files import TaskFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows, and the statement that applies them.

    Args:
        rows: The rows; their session is the one that everything of the batch runs in.
        plan: The statement.
        manifest: What was landed; None for rows that were not.
        read_rows: How many rows were read, None if that is known only after the statement.
        latest: The last row of each key that was read, also of rows that the table has as they are and that `rows` lacks therefore; None
            for batches of other reads.
        differences: Rows of a comparison, with those to be deleted, which were not landed; 0 for other batches.
        late: Late rows among them, for the commit's record.
        newly_deleted: Rows of the table that the batch marks as deleted (`deletes: soft`) and that are not yet, for the commit's record.
        files: How tasks write the rows that were read, without Spark; they are no longer the batch's once a step has changed its rows.
        first: The table is not there yet, or is one that an earlier try left without a row.
        check: Receives the rows that an append or overwrite has written, before its commit; what it raises leaves the table as it is.
    """

    rows: DataFrame
    plan: MergePlan
    manifest: Manifest | None = None
    read_rows: int | None = None
    latest: DataFrame | None = None
    differences: int = 0
    late: LateRows = NONE_LATE
    newly_deleted: int = 0
    files: TaskFiles | None = None
    first: bool = False
    check: Callable[[WrittenRows], None] | None = None


BatchStep = Callable[[Operation, Batch], Batch]
"""One step of preparing a batch."""
