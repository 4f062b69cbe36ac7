"""Which statement a batch enters its table with: MERGE, or one that does less where no row of the table has a say in it. Pure.

INSERT   reads nothing of the table                                     the table has no rows
MERGE    reads the keys of the table three times, once of them sorted   every batch
REPLACE  reads the keys of the table once                               whole rows that overwrite what is there
    by tasks        without a job on the table; rows may be deleted, and older ones be left out; a small batch, a plain table
    by a join       every file is opened
    by literals     Delta skips files, and Parquet skips pages, by the keys themselves; few keys, one column, a large table
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.operation.merging.merge_plan import MergePlan

MOST_FILES: Final = 1_000
"""Files up to which the footer of each may be read where MERGE, by literals, would open a few."""


MOST_LITERALS: Final = 2_000
"""Rows of a batch up to which its keys are written into the statement: its text stands in the commit, and grows with them."""
LEAST_FILES: Final = 32
"""Files from which on it pays: in a smaller table there is little to skip, and the text of the keys has to be read too."""
KEYS_OF_A_GROUP: Final = 20
"""Neighbouring keys that one list of the condition has. Spark hands longer lists to Parquet as their two ends only, unless it is told."""
_SUFFIXES: Final = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"}


class Statement(enum.StrEnum):
    """How a batch of `ApplyMode.MERGE` enters its table; each is one commit."""

    INSERT = "insert"
    """The rows that are not deleted are appended, as a MERGE inserts them."""
    MERGE = "merge"
    REPLACE = "replace"
    """Rows with a key of the batch are deleted, and the batch's rows are inserted: by tasks, or by Delta's `replaceOn`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """What of a Delta table decides about the statement.

    Args:
        columns: Name and Spark SQL type of each column.
        deletion_vectors: Rows are deleted by deletion vectors; without them whole files are written again.
        change_feed: It tells of its changes, where an update has to be one.
        row_tracking: Rows keep an id, as long as they are updated.
        partition_by: The columns by which it is partitioned.
        files: How many files it has, None if the log does not tell.
    """

    columns: tuple[tuple[str, str], ...]
    deletion_vectors: bool
    change_feed: bool = False
    row_tracking: bool = False
    partition_by: tuple[str, ...] = ()
    files: int | None = None


def choose_statement(
    plan: MergePlan, table: StoredTable, *, one_row_per_key: bool, rows: int | None = None, appends: bool = True, by_tasks: bool = False
) -> tuple[Statement, str]:
    """Chooses the statement of a batch.

    Args:
        plan: The batch's plan.
        table: The table as it is before the statement.
        one_row_per_key: The batch has been brought to one row per key; MERGE would notice if it had more, REPLACE would insert them.
        rows: How many rows it has at most, None if that is not known.
        appends: Rows can be appended in a transaction that has read the table.
        by_tasks: Tasks can replace the rows: they delete rows, ask for an order, notice a key with several rows, and do better than an
            INSERT.

    Returns:
        The statement, and why it has to be a MERGE; "" for the others.
    """
    why = _why_merged(plan, table, one_row_per_key=one_row_per_key, rows=rows, by_tasks=by_tasks)
    if by_tasks and not why:
        return Statement.REPLACE, ""
    if appends and table.files == 0 and _inserts_only(plan, table):
        return Statement.INSERT, ""
    return (Statement.MERGE, why) if why else (Statement.REPLACE, "")


def _why_merged(plan: MergePlan, table: StoredTable, *, one_row_per_key: bool, rows: int | None, by_tasks: bool) -> str:
    """Returns why a batch has to be merged, "" if its rows can be replaced."""
    opens_all = not (rows is not None and can_use_literals(plan, table, rows))
    kept = sorted({name.lower() for name, _ in table.columns} - {name.lower() for name in plan.columns})
    needs = {
        "the whole table is written": plan.mode is not ApplyMode.MERGE,
        "a key may have several rows": not (one_row_per_key or by_tasks) or plan.versions,
        "rows are deleted": bool(plan.delete_missing_where or (plan.deleted_flag and not by_tasks)),
        "deleted rows stay, and are marked": bool(plan.deleted_flag and plan.deleted_column),
        "only some columns are set": bool(plan.update_only or plan.present),
        "older rows are left out": bool(plan.sequence) and not by_tasks,
        "rows say whether they were inserted": bool(plan.metadata.names),
        f"the table keeps the column {kept[0]}" if kept else "": bool(kept),
        "the table has no deletion vectors": not table.deletion_vectors,
        "the table has a change data feed": table.change_feed,
        "the table tracks its rows": table.row_tracking,
        f"the table has more than {MOST_FILES:,} files": opens_all and bool(plan.prune) and (table.files or 0) > MOST_FILES,
    }
    return next((reason for reason, holds in needs.items() if holds), "")


def _inserts_only(plan: MergePlan, table: StoredTable) -> bool:
    """True if a MERGE into the table without rows does no more than to append, and Delta's writer lays the files out as well."""
    others = plan.mode is not ApplyMode.MERGE or plan.versions or plan.update_only or plan.metadata.names
    same = {name.lower() for name, _ in table.columns} == {name.lower() for name in plan.columns}
    return same and not (others or table.partition_by)


def can_use_literals(plan: MergePlan, table: StoredTable, rows: int) -> bool:
    """True if a REPLACE finds its rows by the keys as literals.

    The keys are whole numbers: of these Delta keeps exact statistics, and a literal has the column's own type. A decimal would be cast in
    the condition, where Delta skips nothing, and a date may be one that Python does not have.

    Args:
        plan: The batch's plan.
        table: The table as it is before the statement.
        rows: Rows of the batch, which are its keys.
    """
    kinds = {name.lower(): kind for name, kind in table.columns}
    one = len(plan.keys) == 1 and kinds.get(plan.keys[0].lower(), "") in _SUFFIXES
    return one and 0 < rows <= MOST_LITERALS and (table.files or 0) >= LEAST_FILES


def key_condition(column: str, kind: str, keys: Iterable[int]) -> str:
    """Returns the condition that is true for rows with one of the keys, and for no others.

    The list of all decides; the groups of neighbours say the same once more, in a form by which files and pages are skipped.

    Args:
        column: The key column as SQL.
        kind: Its type in the table, one of those of `can_use_literals`.
        keys: At least one key.

    >>> key_condition("t.id", "bigint", [3, 1, 2])
    't.id IN (1L, 2L, 3L) AND (t.id IN (1L, 2L, 3L))'
    """
    values = [f"{key}{_SUFFIXES[kind]}" for key in sorted(set(keys))]
    groups = [values[start : start + KEYS_OF_A_GROUP] for start in range(0, len(values), KEYS_OF_A_GROUP)]
    either = " OR ".join(f"{column} IN ({', '.join(group)})" for group in groups)
    return f"{column} IN ({', '.join(values)}) AND ({either})"
