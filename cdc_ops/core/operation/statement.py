"""Which statement a batch enters its table with: MERGE, or REPLACE, which does less where no row of the table has a say in it. Pure.

MERGE    reads the keys of the table three times, once of them sorted   every batch
REPLACE  reads the keys of the table once                               whole rows that overwrite what is there
"""

import enum
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.operation.merge_plan import MergePlan

MOST_FILES: Final = 1_000
"""Files up to which the footer of each may be read where MERGE, by literals, would open a few."""


class Statement(enum.StrEnum):
    """How a batch of `ApplyMode.MERGE` enters its table; either is one commit."""

    MERGE = "merge"
    REPLACE = "replace"
    """Rows with a key of the batch are deleted, and the batch's rows are inserted (Delta's `replaceOn`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """What of a Delta table decides about the statement.

    Args:
        columns: Name and Spark SQL type of each column.
        deletion_vectors: Rows are deleted by deletion vectors; without them whole files are written again.
        change_feed: It tells of its changes, where an update has to be one.
        row_tracking: Rows keep an id, as long as they are updated.
        files: How many files it has, None if the log does not tell.
    """

    columns: tuple[tuple[str, str], ...]
    deletion_vectors: bool
    change_feed: bool = False
    row_tracking: bool = False
    files: int | None = None


def choose_statement(plan: MergePlan, table: StoredTable, *, one_row_per_key: bool) -> tuple[Statement, str]:
    """Chooses the statement of a batch.

    Args:
        plan: The batch's plan.
        table: The table as it is before the statement.
        one_row_per_key: The batch has been brought to one row per key; MERGE would notice if it had more, REPLACE would insert them.

    Returns:
        The statement, and why it has to be a MERGE; "" for a REPLACE.
    """
    kept = sorted({name.lower() for name, _ in table.columns} - {name.lower() for name in plan.columns})
    needs = {
        "the whole table is written": plan.mode is not ApplyMode.MERGE,
        "a key may have several rows": not one_row_per_key or plan.versions,
        "rows are deleted": bool(plan.deleted_flag or plan.delete_missing_where),
        "only some columns are set": bool(plan.update_only or plan.present),
        "older rows are left out": bool(plan.sequence),
        "rows say whether they were inserted": bool(plan.metadata.names),
        f"the table keeps the column {kept[0]}" if kept else "": bool(kept),
        "the table has no deletion vectors": not table.deletion_vectors,
        "the table has a change data feed": table.change_feed,
        "the table tracks its rows": table.row_tracking,
        f"the table has more than {MOST_FILES:,} files": bool(plan.prune) and (table.files or 0) > MOST_FILES,
    }
    reasons = [reason for reason, holds in needs.items() if holds]
    return (Statement.MERGE, reasons[0]) if reasons else (Statement.REPLACE, "")
