"""Ledger and lake of a table beside each other: what may be planned or executed, and what is refused (docs/adr/0002, 0003). Pure.

The Delta log is the truth; `core.operation.protocol.table_state` has the state that the ledger caches of it.
"""

import enum

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.operation.operation import Operation, app_id
from cdc_ops.core.operation.protocol.commit_record import ForeignChange, LakeHead
from cdc_ops.core.operation.protocol.table_progress import SnapshotProgress
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.errors import LakeBehindError, LedgerBehindError, StaleStateError, TargetForeignError


def check_base(operation: Operation, head: LakeHead | None) -> None:
    """Refuses an operation whose table does not stand where its plan found it; called right before its statement.

    The transaction number stops who comes too late. It stops neither an operation whose table was restored or dropped under it, nor
    one whose number is higher only because it was drawn from a ledger that has been rolled back since.

    Raises:
        StaleStateError: the table has another watermark or snapshot progress than the plan was made for.
    """
    if head is not None and head.txn_version is not None and head.txn_version >= operation.op_seq:
        return  # Delta skips the statement, and the commit of that number says whose it was.
    if (undone := _undone(head, operation.target.version)) is not None:
        raise _base_moved(operation, f"{undone.operation} in Delta version {undone.version}")
    if head is not None and head.txn_version is not None and head.record is None:
        return  # Its records are pruned: nothing but maintenance happened for as long as the log is kept.
    record = head.record if head else None
    watermark, snapshot = (record.progress.watermark, record.progress.snapshot) if record else (None, None)
    if (watermark, snapshot) != (operation.before.watermark, operation.before.snapshot):
        raise _base_moved(operation, f"its rows stand for {_position(watermark, snapshot)}")


def _undone(head: LakeHead | None, seen: int | None) -> ForeignChange | None:
    """Returns the newest change that rewound or replaced the table after the Delta version that was seen."""
    changes = head.foreign_changes if head else ()
    return next((change for change in changes if change.undoes_commits and change.version > (seen or 0)), None)


class LedgerStatus(enum.StrEnum):
    """How a table's lake and ledger stand to each other before an operation is planned or executed."""

    EQUAL = "equal"
    """They agree: go on."""
    AHEAD_OURS = "ahead-ours"
    """The lake holds the open operation's commit, only the ledger missed it: catch up."""
    AHEAD_ABANDONED = "ahead-abandoned"
    """A zombie committed an operation that was given up: adopt it; rows that are read later overwrite its rows."""


def compare(
    state: TableState,
    head: LakeHead | None,
    open_operations: tuple[Operation, ...] = (),
    abandoned_ids: frozenset[str] = frozenset(),
) -> LedgerStatus:
    """Compares ledger and lake.

    Args:
        state: The ledger's state.
        head: The lake's head; None if there is no Delta table.
        open_operations: The table's unfinished operations (several only during a snapshot).
        abandoned_ids: operation ids that were given up.

    Raises:
        TargetForeignError: the table belongs to another pipeline, or to nobody we know.
        LedgerBehindError: the lake holds commits of this pipeline that the ledger does not know.
        LakeBehindError: the lake lacks commits that the ledger knows.
    """
    if head is None:
        if state.committed_op_seq:
            raise _lake_behind(state, "the Delta table no longer exists")
        return LedgerStatus.EQUAL
    if head.txn_version is None:
        return _compare_unmarked(state, head)
    if head.created_by_us and state.committed_op_seq:
        raise _lake_behind(state, "a table without rows of cdc-ops replaced it")
    if head.created_by_us and head.txn_version <= state.op_seq:
        return LedgerStatus.EQUAL  # made anew for a first load, under the number of one that was given up
    if head.txn_version == state.committed_op_seq:
        return _compare_same_number(state, head)
    if head.txn_version < state.committed_op_seq:
        raise _lake_behind(state, f"its newest operation is {head.txn_version}")
    newest = head.record.operation_id if head.record and head.record.op_seq == head.txn_version else ""
    if newest and newest in {operation.operation_id for operation in open_operations}:
        return LedgerStatus.AHEAD_OURS
    if newest and newest in abandoned_ids:
        return LedgerStatus.AHEAD_ABANDONED
    raise _ledger_behind(state, head)


def _compare_unmarked(state: TableState, head: LakeHead) -> LedgerStatus:
    if head.foreign_app_ids:
        raise foreign_error(state, head)
    if state.committed_op_seq:
        raise _lake_behind(state, "a table without commits of cdc-ops replaced it")
    if head.created_by_us:
        return LedgerStatus.EQUAL
    raise TargetForeignError(
        f"The target of {state.table} is a Delta table (version {head.version}) that cdc-ops did not write.",
        why="It has no commit of cdc-ops; to overwrite it or to merge into it could destroy data of others.",
        data="Nothing was written; the table is as it was.",
        next="Give the table another 'path', or move the existing table away.",
    )


def if_renamed(old: str, new: str) -> str:
    """Returns what to do about the Delta table of another pipeline, if that is the same one under its old name."""
    return f"If pipeline {old} was renamed to {new}: cdc-ops adopt {new} --from {old}."


def foreign_error(state: TableState, head: LakeHead) -> TargetForeignError:
    """Returns the error for a Delta table that another pipeline writes; a pipeline that got another name can take it over."""
    names = [one.removesuffix(f"/{state.table}").rpartition("/")[2] for one in head.foreign_app_ids if one.endswith(f"/{state.table}")]
    taken = f"{if_renamed(names[0], state.pipeline)} " if names else ""
    return TargetForeignError(
        f"The Delta table for {state.table} is written by {', '.join(head.foreign_app_ids)}.",
        why=f"Pipeline {state.pipeline!r} has the same target path, and only one pipeline may write a table.",
        data="Nothing was written; the table is as it was.",
        next=f"{taken}{'Otherwise give' if taken else 'Give'} the table another 'path' in one of the two pipelines.",
    )


def _compare_same_number(state: TableState, head: LakeHead) -> LedgerStatus:
    record = head.record
    if record is not None and record.operation_id != state.operation_id:
        if record.op_seq < state.committed_op_seq:
            raise _lake_behind(state, f"its rows are those of operation {record.op_seq}")
        raise _ledger_behind(state, head)
    if (undone := _undone(head, state.delta_version)) is not None:
        raise _lake_behind(state, f"{undone.operation} in Delta version {undone.version}")
    if state.delta_version is not None and head.version < state.delta_version:
        raise _lake_behind(state, f"it is at version {head.version}")
    return LedgerStatus.EQUAL


def _position(watermark: CursorValue | None, snapshot: SnapshotProgress | None) -> str:
    if snapshot is not None:
        return f"snapshot, part {snapshot.done} of {snapshot.total}"
    return f"watermark {watermark}" if watermark is not None else "nothing"


def _base_moved(operation: Operation, seen: str) -> StaleStateError:
    return StaleStateError(
        f"Operation {operation.op_seq} ({operation.kind}) of {operation.table} was planned on"
        f" {_position(operation.before.watermark, operation.before.snapshot)};"
        f" the Delta table has another state: {seen}.",
        why="The table was restored, replaced or dropped, or the ledger was rolled back, while the operation was open.",
        data="Nothing was written; the table is as it was.",
        next="Nothing to do: the next run compares ledger and lake, and reports what to decide.",
    )


def _ledger_behind(state: TableState, head: LakeHead) -> LedgerBehindError:
    return LedgerBehindError(
        f"The Delta table of {state.table} is at operation {head.txn_version}, and the ledger is at operation {state.committed_op_seq}"
        + (" of another plan." if head.txn_version == state.committed_op_seq else "."),
        why="The ledger was lost or rolled back, or two ledgers serve this pipeline; it lacks commits of"
        f" {app_id(state.pipeline, state.table)}.",
        data="Nothing was written; the table is as it was.",
        next=f"cdc-ops state rebuild --pipeline {state.pipeline} --table {state.table}   # takes the watermark from the table",
    )


def _lake_behind(state: TableState, seen: str) -> LakeBehindError:
    return LakeBehindError(
        f"The Delta table of {state.table} lacks commits that the ledger has: {seen}, and the ledger is at operation"
        f" {state.committed_op_seq} (Delta version {state.delta_version}).",
        why="The table was restored to an older version, replaced, dropped or moved.",
        data="Nothing was written; the table is as it was.",
        next=f"To follow the table: cdc-ops state rebuild --pipeline {state.pipeline} --table {state.table}. "
        f"To follow the source: the same, then cdc-ops resync --pipeline {state.pipeline} --table {state.table} --mode full.",
    )
