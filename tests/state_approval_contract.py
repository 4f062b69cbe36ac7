"""What every ledger promises of questions to a person and their answers; a part of `StateContract`."""

from dataclasses import replace
from datetime import timedelta

import pytest

from cdc_ops.core.approvals import ApprovalRecord, ApprovalStatus, Asked, Decision
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import RequestError
from cdc_ops.state.sql import SqlStateStore, open_reader
from tests.state_values import NOON, ORDERS, PIPELINE, LedgerFixtures, fresh, make_operation, run, take

OTHER = TableName(schema="shop", name="other")


def question(name: str = "q1", table: TableName | None = ORDERS, run_id: str = "r1", ago: int = 0) -> ApprovalRecord:
    return ApprovalRecord(
        approval_id=name,
        pipeline=PIPELINE,
        table=table,
        run_id=run_id,
        asked=Asked(decision=Decision.DELETES, deletes=70, rows=100),
        text="70 rows would go",
        asked_at=NOON - timedelta(minutes=ago),
        expires_at=NOON + timedelta(days=1),
        users=("ann",),
    )


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

    def test_the_first_answer_stays(self, store: SqlStateStore) -> None:
        store.ask_approval(question())
        refused = store.answer_approval("q1", ApprovalStatus.REFUSED, "ann")
        assert (refused.status, refused.who, refused.approval) == (ApprovalStatus.REFUSED, "ann", None)
        assert refused.decided_at is not None
        assert store.answer_approval("q1", ApprovalStatus.GRANTED, "ben") == refused
        assert store.approvals() == (refused,)
        with pytest.raises(RequestError, match="no question 'q9'"):
            store.answer_approval("q9", ApprovalStatus.GRANTED, "ann")

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

    def test_old_questions_of_a_table_are_forgotten_with_its_lines(self, store: SqlStateStore) -> None:
        store.ask_approval(question(ago=60))
        store.ask_approval(question("q2"))
        store.ask_approval(question("q3", table=OTHER, ago=60))
        for run_id, at in (("r0", NOON - timedelta(hours=1)), ("r1", NOON)):
            store.record(run(run_id, at))
        store.prune(PIPELINE, ORDERS, NOON - timedelta(minutes=30))
        assert {record.approval_id for record in store.approvals()} == {"q2", "q3"}
