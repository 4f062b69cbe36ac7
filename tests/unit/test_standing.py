"""How ledger and lake of a table stand to each other: what is taken for the same, and which of the two is behind."""

from dataclasses import replace

import pytest

from cdc_ops.core.commits import CommitRecord, LakeHead, commit_record
from cdc_ops.core.operations import OperationSpec
from cdc_ops.core.runs import Standing, TableState, committed, compare
from cdc_ops.errors import LakeBehindError, LedgerBehindError
from tests.lake_case import PIPELINE, TABLE, Case

FIFTH = Case(root="/nowhere").operation(5, operation_id="ours")
STATE = committed(TableState(pipeline=PIPELINE, table=TABLE, op_seq=4, committed_op_seq=4), FIFTH, 7)


def record(spec: OperationSpec) -> CommitRecord:
    return commit_record(spec, rows=1, package_version="0")


def head(spec: OperationSpec, *, txn_version: int = 5, version: int = 7) -> LakeHead:
    return LakeHead(version=version, txn_version=txn_version, record=record(spec), record_version=version, foreign_app_ids=(), columns=())


def test_the_same_number_of_the_same_operation_is_equal() -> None:
    assert compare(STATE, head(FIFTH)) is Standing.EQUAL


def test_the_same_number_of_another_operation_is_another_plan_and_the_ledger_is_behind() -> None:
    """A ledger that was lost while an operation was open has drawn its number a second time."""
    other = replace(FIFTH, operation_id="theirs")
    with pytest.raises(LedgerBehindError, match="from another plan"):
        compare(STATE, head(other))
    with pytest.raises(LedgerBehindError):
        compare(STATE, head(other), open_operations=(other,), abandoned_ids=frozenset({"theirs"}))


def test_the_same_number_over_the_rows_of_an_older_operation_is_a_table_that_was_restored() -> None:
    older = replace(FIFTH, op_seq=3, operation_id="older")
    with pytest.raises(LakeBehindError, match="its rows are those of operation 3"):
        compare(STATE, head(older))


def test_the_same_number_without_a_record_is_equal_because_the_log_was_only_cleaned_up() -> None:
    assert compare(STATE, replace(head(FIFTH), record=None, record_version=None)) is Standing.EQUAL


def test_a_later_number_is_ours_only_by_the_id_of_an_operation_that_we_know() -> None:
    sixth = Case(root="/nowhere").operation(6, operation_id="next")
    ahead = head(sixth, txn_version=6, version=8)
    assert compare(STATE, ahead, (sixth,)) is Standing.AHEAD_OURS
    assert compare(STATE, ahead, (), frozenset({"next"})) is Standing.AHEAD_ABANDONED
    for known in ((), (replace(sixth, operation_id="of the same number"),)):
        with pytest.raises(LedgerBehindError):
            compare(STATE, ahead, known, frozenset({"another"}))
