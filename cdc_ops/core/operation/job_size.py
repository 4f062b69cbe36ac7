"""Whether a job is a small one, so that the start of its JVM costs more than its work. Pure.

Only the processor time of a job depends on the answer. In doubt it is no.
"""

from collections.abc import Iterable
from typing import Final, assert_never

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.job import MaintenanceTask
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead, ChunkRead, CompareRead, KeysRead, ReplayRead, WindowRead
from cdc_ops.core.schema.tables import TableName

SMALL_ROWS: Final = 100_000
"""Rows that a small job reads at most. The plan counts the rows of a window up to twice as many."""

SMALL_ARCHIVE: Final = 8 << 20
"""Bytes of archived files that a small job reads at most, as they are on disk."""

SMALL_TABLES: Final = 2 << 30
"""Bytes of the tables that a small job merges into at most: MERGE looks for the keys of the batch in all of their files."""


SMALL_UPKEEP: Final = 512 << 20
"""Bytes of files that a small job of maintenance writes again at most."""


def is_small_maintenance(tasks: Iterable[MaintenanceTask]) -> bool:
    """True if little of the tables that are due for maintenance is written again."""
    return sum(_rewritten(task) for task in tasks) <= SMALL_UPKEEP


def _rewritten(task: MaintenanceTask) -> int:
    """Returns how many bytes maintenance writes again at most."""
    chosen = bool(task.plan.rewrites) or not task.plan.optimize
    return task.plan.rewritten_bytes if chosen and not task.plan.purge else task.stats.size_bytes


def is_small(operations: Iterable[Operation], sizes: dict[TableName, TableStats | None]) -> bool:
    """True if it is known that operations move few rows, and into tables of moderate size.

    Args:
        operations: All operations of a job.
        sizes: What the last merge of each table left, None where nothing is known.
    """
    rows, files, stored = 0, 0, 0
    for operation in operations:
        seen = sizes.get(operation.table)
        if operation.apply.mode is ApplyMode.MERGE:
            if seen is None:
                return False
            stored += seen.size_bytes
        match operation.read:
            case WindowRead() | KeysRead() as read:
                rows += read.expected_rows
            case ChunkRead() | CompareRead() as read:
                if not read.expected_rows:  # sources that have no estimate say 0
                    return False
                rows += read.expected_rows
            case ArchiveRead(batch=batch):
                files += sum(file.size for file in batch.files)
            case ReplayRead():
                return False
            case _:
                assert_never(operation.read)
    return rows <= SMALL_ROWS and files <= SMALL_ARCHIVE and stored <= SMALL_TABLES
