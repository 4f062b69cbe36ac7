"""What a table's state becomes by each kind of operation, one transition at a time; their histories are in test_commit_protocol."""

from dataclasses import replace
from typing import Any

import pytest

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.late_rows import RangeChecksum
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.protocol.commit_record import CommitRecord, ForeignChange, LakeHead, commit_record
from cdc_ops.core.operation.protocol.ledger_and_lake import check_base, compare
from cdc_ops.core.operation.protocol.table_state import TableState, abandoned, committed, projected, rebuilt, scanned
from cdc_ops.errors import LakeBehindError, StaleStateError
from tests.lake_case import PIPELINE, TABLE, Case, watermark
from tests.operations import made

SEEN = RangeChecksum(window=Window(low=watermark(3), high=watermark(5)), rows=2, checksum="before")
READ = replace(SEEN, checksum="read by a backfill")
STATE = made(
    TableState,
    pipeline=PIPELINE,
    table=TABLE,
    op_seq=7,
    committed_op_seq=7,
    operation_id="operation-7",
    watermark=watermark(5),
    scanned_to=watermark(6),
    delta_version=40,
    seen=SEEN,
)
REREADS = (OperationKind.BACKFILL, OperationKind.RESYNC, OperationKind.RECONCILE)


def operation_of(op_seq: int, kind: OperationKind, after: CursorValue, **changes: Any) -> Operation:
    return Case(root="/r").operation(op_seq, kind=kind, watermark_after=after, **changes)


def test_an_increment_moves_watermark_and_number_together() -> None:
    after = committed(STATE, operation_of(8, OperationKind.INCREMENT, watermark(9)), 41)
    assert (after.op_seq, after.committed_op_seq, after.operation_id) == (8, 8, "operation-8")
    assert (after.progress.watermark, after.scanned_to, after.delta_version) == (watermark(9), watermark(9), 41)


@pytest.mark.parametrize("kind", REREADS)
def test_what_reads_again_moves_neither_watermark_nor_what_was_searched_or_seen(kind: OperationKind) -> None:
    after = committed(STATE, operation_of(8, kind, watermark(5), seen_after=READ), 41)
    assert (after.op_seq, after.committed_op_seq) == (8, 8)
    assert (after.progress.watermark, after.scanned_to, after.progress.seen) == (watermark(5), watermark(6), SEEN)


def test_a_commit_step_that_runs_twice_changes_the_state_once() -> None:
    operation = operation_of(8, OperationKind.INCREMENT, watermark(9))
    once = committed(STATE, operation, 41)
    assert committed(once, operation, 41) == once


@pytest.mark.parametrize("op_seq", [7, 9])
def test_an_operation_that_does_not_follow_the_state_is_not_committed(op_seq: int) -> None:
    with pytest.raises(StaleStateError, match="does not follow"):
        committed(STATE, operation_of(op_seq, OperationKind.INCREMENT, watermark(9), operation_id="another"), 41)


def test_what_is_planned_behind_open_operations_begins_where_they_end() -> None:
    open_ones = (operation_of(8, OperationKind.INCREMENT, watermark(9)), operation_of(9, OperationKind.BACKFILL, watermark(9)))
    assert (projected(STATE, open_ones).op_seq, projected(STATE, open_ones).progress.watermark) == (9, watermark(9))


def test_a_search_that_found_nothing_leaves_the_watermark() -> None:
    after = scanned(STATE, watermark(9), None)
    assert (after.progress.watermark, after.scanned_to, after.op_seq) == (watermark(5), watermark(9), 7)


@pytest.mark.parametrize("kind", REREADS)
def test_what_is_given_up_burns_its_number_and_nothing_else(kind: OperationKind) -> None:
    assert abandoned(STATE, operation_of(8, kind, watermark(5))) == replace(STATE, op_seq=8)


def test_what_is_live_is_never_given_up() -> None:
    with pytest.raises(StaleStateError):
        abandoned(STATE, operation_of(8, OperationKind.INCREMENT, watermark(9)))


def record(op_seq: int) -> CommitRecord:
    return commit_record(operation_of(op_seq, OperationKind.INCREMENT, watermark(op_seq)), rows=1, package_version="1")


def test_a_record_carries_the_watermark_that_the_table_has_after_it() -> None:
    assert record(8).progress.watermark == watermark(8)


@pytest.mark.parametrize(("txn", "settled", "expected"), [(None, 0, 8), (11, 0, 11), (11, 13, 13)])
def test_a_rebuilt_ledger_has_the_records_watermark_and_the_largest_number_that_was_ever_used(
    txn: int | None, settled: int, expected: int
) -> None:
    state = rebuilt(record(8), 41, txn_version=txn, settled=settled)
    assert (state.op_seq, state.committed_op_seq) == (expected, max(txn or 0, 8))
    assert (state.progress.watermark, state.scanned_to, state.operation_id) == (watermark(8), watermark(8), "operation-8")


def test_a_table_that_lacks_commits_which_the_ledger_knows_stops() -> None:
    head = LakeHead(version=12, txn_version=3, record=record(3), record_version=12, foreign_app_ids=(), columns=())
    with pytest.raises(LakeBehindError, match="its newest operation is 3"):
        compare(STATE, head)


def head(op_seq: int, version: int, *changes: ForeignChange) -> LakeHead:
    found = record(op_seq)
    return LakeHead(
        version=version, txn_version=op_seq, record=found, record_version=12, foreign_app_ids=(), columns=(), foreign_changes=changes
    )


def test_an_operation_is_applied_only_where_its_plan_found_the_table() -> None:
    operation = operation_of(8, OperationKind.INCREMENT, watermark(9), watermark_before=watermark(7), delta_version_before=12)
    check_base(operation, head(7, 12))
    check_base(operation, head(8, 13))  # its number is taken: Delta skips the statement
    for elsewhere in (head(6, 12), None):
        with pytest.raises(StaleStateError, match="the Delta table has another state"):
            check_base(operation, elsewhere)


def test_a_table_that_was_restored_to_where_it_stood_is_another_one_all_the_same() -> None:
    operation = operation_of(8, OperationKind.INCREMENT, watermark(9), watermark_before=watermark(7), delta_version_before=12)
    check_base(operation, head(7, 13, ForeignChange(version=13, operation="DELETE")))
    with pytest.raises(StaleStateError, match="RESTORE in Delta version 13"):
        check_base(operation, head(7, 13, ForeignChange(version=13, operation="RESTORE")))
