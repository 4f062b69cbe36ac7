"""What every ledger promises of questions to a person and their answers; a part of `StateContract`."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cdc_ops.core.approvals import Approval, ApprovalRecord, ApprovalStatus, Asked, Decision
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import RequestError, StaleStateError
from cdc_ops.state.sql import SqlStateStore, open_reader
from tests.operations import changed
from tests.state_values import NOON, ORDERS, PIPELINE, LedgerFixtures, fresh, make_operation, run, take

OTHER = TableName(schema="shop", name="other")


LONG = datetime(2200, 1, 1, tzinfo=UTC)
"""When nobody's time is over yet."""


def question(
    name: str = "q1", table: TableName | None = ORDERS, run_id: str = "run-1", ago: int = 0, expires_at: datetime = LONG
) -> ApprovalRecord:
    return ApprovalRecord(
        approval_id=name,
        pipeline=PIPELINE,
        table=table,
        run_id=run_id,
        asked=Asked(decision=Decision.DELETES, deletes=70, rows=100),
        text="70 rows would go",
        asked_at=NOON - timedelta(minutes=ago),
        expires_at=expires_at,
        users=("ann",),
    )


def let_through(operation: Operation, name: str = "q1") -> Operation:
    """The operation as a plan makes it that believes to have this approval."""
    return replace(operation, approval=Approval(approval_id=name, asked=question().asked, who="ann", at=NOON))


class ApprovalContract(LedgerFixtures):
    """Questions and answers."""

    def test_questions_are_found_by_pipeline_table_and_run_the_newest_first(self, url: str, store: SqlStateStore) -> None:
        first, second, third = question(ago=9), question("q2", run_id="r2", ago=5), question("q3", table=None, run_id="r2")
        for record in (second, first, third):
            store.ask_approval(record)
        with open_reader(url) as reader:
            assert reader.approvals() == reader.approvals(PIPELINE) == (third, second, first)
            assert reader.approvals(PIPELINE, ORDERS) == (second, first)
            assert reader.approvals(run_id="r2") == (third, second)
            assert reader.approvals(PIPELINE, ORDERS, limit=1) == (second,)
            assert reader.approvals("another") == reader.approvals(PIPELINE, OTHER) == ()

    def test_an_open_question_is_found_behind_any_number_of_newer_ones_that_are_answered(self, store: SqlStateStore) -> None:
        store.ask_approval(question("open", ago=99))
        for number in range(3):
            store.ask_approval(question(f"q{number}", ago=number))
            store.answer_approval(f"q{number}", ApprovalStatus.REFUSED, "ann")
        assert [record.approval_id for record in store.approvals(PIPELINE, ORDERS, limit=1)] == ["q0"]
        asked = store.approvals(PIPELINE, ORDERS, status=ApprovalStatus.ASKED, limit=1)
        assert [record.approval_id for record in asked] == ["open"]
        assert len(store.approvals(status=ApprovalStatus.REFUSED)) == 3

    def test_the_first_answer_stays(self, store: SqlStateStore) -> None:
        store.ask_approval(question())
        refused = store.answer_approval("q1", ApprovalStatus.REFUSED, "ann")
        assert (refused.status, refused.who, refused.approval) == (ApprovalStatus.REFUSED, "ann", None)
        assert refused.decided_at is not None
        assert store.answer_approval("q1", ApprovalStatus.GRANTED, "ben") == refused
        assert store.approvals() == (refused,)
        with pytest.raises(RequestError, match="no question 'q9'"):
            store.answer_approval("q9", ApprovalStatus.GRANTED, "ann")

    @pytest.mark.parametrize("status", [ApprovalStatus.GRANTED, ApprovalStatus.REFUSED])
    def test_an_answer_after_the_end_of_its_time_is_none_by_the_ledgers_clock(self, store: SqlStateStore, status: ApprovalStatus) -> None:
        store.ask_approval(question(expires_at=store.now()))
        late = store.answer_approval("q1", status, "ann")
        assert (late.status, late.who, late.approval) == (ApprovalStatus.TIMED_OUT, "", None)
        assert store.answer_approval("q1", status, "ann") == late
        store.ask_approval(question("q2", expires_at=store.now()))
        assert store.answer_approval("q2", ApprovalStatus.WITHDRAWN).status is ApprovalStatus.WITHDRAWN

    def test_an_approval_is_used_by_the_operation_that_is_frozen_with_it_and_by_no_other(self, store: SqlStateStore) -> None:
        lease = take(store)
        store.ask_approval(question())
        approval = store.answer_approval("q1", ApprovalStatus.GRANTED, "ann").approval
        assert approval is not None
        assert (approval.who, approval.asked.deletes) == ("ann", 70)
        state = fresh()
        operation = replace(make_operation(), approval=approval)
        store.freeze(lease, state, (operation,))
        [used] = store.approvals()
        assert (used.op_seq, used.approval) == (operation.op_seq, None)
        assert store.open_operations(PIPELINE, ORDERS) == (operation,)

    def test_no_second_operation_is_frozen_with_an_approval_and_nothing_of_its_plan_is(self, store: SqlStateStore) -> None:
        lease = take(store)
        store.ask_approval(question())
        store.answer_approval("q1", ApprovalStatus.GRANTED, "ann")
        first, second = (let_through(make_operation(number)) for number in (1, 2))
        store.freeze(lease, fresh(), (first, second))
        assert store.approvals()[0].op_seq == 1, "the operations of one plan share it"
        free, again = make_operation(3), let_through(make_operation(4))
        with pytest.raises(StaleStateError, match=r"operation 1 .*once"):
            store.freeze(lease, fresh(), (free, again))
        assert store.open_operations(PIPELINE, ORDERS) == (first, second)
        altered = changed(first, planned_at=NOON + timedelta(seconds=1))
        store.refreeze(lease, (altered,))
        assert store.open_operations(PIPELINE, ORDERS) == (altered, second), "the same operation is frozen again with its approval"

    @pytest.mark.parametrize("status", [None, *(status for status in ApprovalStatus if status is not ApprovalStatus.GRANTED)])
    def test_nothing_is_frozen_with_what_was_not_granted(self, store: SqlStateStore, status: ApprovalStatus | None) -> None:
        if status is not None:
            store.ask_approval(question())
            store.answer_approval("q1", status, "ann")
        with pytest.raises(StaleStateError, match=status.words if status else "no such question"):
            store.freeze(take(store), fresh(), (let_through(make_operation()),))
        assert store.open_operations(PIPELINE, ORDERS) == ()

    @pytest.mark.parametrize("other", [{"table": OTHER}, {"run_id": "run-0"}, {"table": None}])
    def test_an_approval_of_another_table_or_another_run_does_not_count(self, store: SqlStateStore, other: dict[str, Any]) -> None:
        store.ask_approval(question(**other))
        store.answer_approval("q1", ApprovalStatus.GRANTED, "ann")
        with pytest.raises(StaleStateError, match="was asked about"):
            store.freeze(take(store), fresh(), (let_through(make_operation()),))
        assert store.open_operations(PIPELINE, ORDERS) == ()
        assert store.approvals()[0].op_seq is None

    def test_old_questions_of_a_table_are_forgotten_with_its_lines_but_none_that_is_open_or_granted_since(
        self, store: SqlStateStore
    ) -> None:
        store.ask_approval(question(ago=60))
        store.ask_approval(question("late", ago=60, expires_at=NOON))
        store.ask_approval(question("q2"))
        store.ask_approval(question("q3", table=OTHER, ago=60))
        store.ask_approval(question("open", ago=60))
        store.ask_approval(question("granted", ago=60))
        store.answer_approval("q1", ApprovalStatus.REFUSED, "ann")
        store.answer_approval("granted", ApprovalStatus.GRANTED, "ann")
        for run_id, at in (("r0", NOON - timedelta(hours=1)), ("r1", NOON)):
            store.record(run(run_id, at))
        store.prune(PIPELINE, ORDERS, NOON - timedelta(minutes=30))
        assert {record.approval_id for record in store.approvals()} == {"q2", "q3", "open", "granted"}
