"""How ledger and lake of a table stand to each other: what is taken for the same, and which of the two is behind."""

from dataclasses import replace

import pytest

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.commit_record import CommitRecord, ForeignChange, LakeHead, commit_record
from cdc_ops.core.operation.protocol.ledger_and_lake import LedgerStatus, check_base, compare
from cdc_ops.core.operation.protocol.table_state import TableState, committed, rebuilt, rebuilt_from_data
from cdc_ops.errors import LakeBehindError, LedgerBehindError, StaleStateError
from tests.lake_case import PIPELINE, TABLE, Case, watermark
from tests.operations import with_fields

FIFTH = Case(root="/nowhere").operation(5, operation_id="ours")
STATE = committed(TableState(pipeline=PIPELINE, table=TABLE, op_seq=4, committed_op_seq=4), FIFTH, 7)


def record(operation: Operation) -> CommitRecord:
    return commit_record(operation, rows=1, package_version="0")


def head(operation: Operation, *, txn_version: int = 5, version: int = 7) -> LakeHead:
    return LakeHead(
        version=version, txn_version=txn_version, record=record(operation), record_version=version, foreign_app_ids=(), columns=()
    )


def test_the_same_number_of_the_same_operation_is_equal() -> None:
    assert compare(STATE, head(FIFTH)) is LedgerStatus.EQUAL


def test_the_same_number_of_another_operation_is_another_plan_and_the_ledger_is_behind() -> None:
    """A ledger that was lost while an operation was open has drawn its number a second time."""
    other = replace(FIFTH, operation_id="theirs")
    with pytest.raises(LedgerBehindError, match="of another plan"):
        compare(STATE, head(other))
    with pytest.raises(LedgerBehindError):
        compare(STATE, head(other), open_operations=(other,), abandoned_ids=frozenset({"theirs"}))


def test_the_same_number_over_the_rows_of_an_older_operation_is_a_table_that_was_restored() -> None:
    older = replace(FIFTH, op_seq=3, operation_id="older")
    with pytest.raises(LakeBehindError, match="its rows are those of operation 3"):
        compare(STATE, head(older))


def test_the_same_number_without_a_record_is_equal_because_the_log_was_only_cleaned_up() -> None:
    assert compare(STATE, replace(head(FIFTH), record=None, record_version=None)) is LedgerStatus.EQUAL


def test_a_later_number_is_ours_only_by_the_id_of_an_operation_that_we_know() -> None:
    sixth = Case(root="/nowhere").operation(6, operation_id="next")
    ahead = head(sixth, txn_version=6, version=8)
    assert compare(STATE, ahead, (sixth,)) is LedgerStatus.AHEAD_OURS
    assert compare(STATE, ahead, (), frozenset({"next"})) is LedgerStatus.AHEAD_ABANDONED
    for known in ((), (replace(sixth, operation_id="of the same number"),)):
        with pytest.raises(LedgerBehindError):
            compare(STATE, ahead, known, frozenset({"another"}))


def test_a_rebuilt_state_uses_no_number_again_that_was_burnt_or_that_the_log_has_seen() -> None:
    third = record(replace(FIFTH, op_seq=3, operation_id="older"))
    assert (rebuilt(third, 7).op_seq, rebuilt(third, 7).committed_op_seq) == (3, 3)
    restored = rebuilt(third, 9, txn_version=5)
    assert (restored.op_seq, restored.committed_op_seq, restored.progress.watermark) == (5, 5, third.progress.watermark)
    burnt = rebuilt(third, 9, txn_version=5, settled=8)
    assert (burnt.op_seq, burnt.committed_op_seq) == (8, 5)
    low = CursorValue(parts=("2026-01-01 00:00:00.000000",))
    without_record = rebuilt_from_data(PIPELINE, TABLE, 5, low, settled=8)
    assert (without_record.op_seq, without_record.committed_op_seq, without_record.progress.watermark) == (8, 5, low)
    assert rebuilt_from_data(PIPELINE, TABLE, 5, low, settled=2).op_seq == 5


def test_an_operation_is_applied_only_to_the_table_that_its_plan_saw() -> None:
    fourth = with_fields(FIFTH, op_seq=4, operation_id="before", watermark_after=watermark(4))
    base = with_fields(FIFTH, watermark_before=record(fourth).progress.watermark, delta_version_before=6)
    stands = head(fourth, txn_version=4, version=6)
    check_base(base, stands)
    elsewhere = CursorValue(parts=("2025-01-01 00:00:00.000000",))
    with pytest.raises(StaleStateError, match="the Delta table has another state"):
        check_base(with_fields(base, watermark_before=elsewhere), stands)
    with pytest.raises(StaleStateError, match="the Delta table has another state"):
        check_base(base, None)
    undone = ForeignChange(version=7, operation="RESTORE")
    with pytest.raises(StaleStateError, match="RESTORE in Delta version 7"):
        check_base(base, replace(stands, version=7, foreign_changes=(undone,)))
    check_base(with_fields(base, delta_version_before=7), replace(stands, version=7, foreign_changes=(undone,)))
    taken = head(with_fields(FIFTH, watermark_after=elsewhere))
    check_base(base, taken)  # Delta skips it, and the log says whose number it was
    check_base(base, replace(stands, record=None, record_version=None))  # its records were cleaned up
