"""What every ledger promises of the sums that it keeps of tables; a part of `StateContract`."""

from dataclasses import replace
from datetime import timedelta

import sqlalchemy as sa

from cdc_ops.core.approvals import ApprovalStatus
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.db import schema
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.state.table_run import RunResult, RunTiming, TableRun, TableRunStatus
from cdc_ops.state.totals import Totals
from tests.operations import changed
from tests.state_approval_contract import question
from tests.state_idle_contract import idle, known
from tests.state_values import NOON, ORDERS, PIPELINE, LedgerFixtures, at_once, run

OTHER = TableName(schema="shop", name="other")
SOME = Counts(read=9, inserted=4, updated=3, deleted=2, bytes=900, quarantined=1)


def line(status: TableRunStatus, minutes: float = 0, run_id: str = "run-1", counts: Counts = SOME, *, late: int = 5) -> TableRun:
    """The line of a run that began at noon, and has ended so many minutes later."""
    ended = NOON + timedelta(minutes=minutes) if status.has_ended else None
    timing = RunTiming(started_at=NOON, finished_at=ended)
    return replace(run(run_id), status=status, timing=timing, result=RunResult(counts=counts, late_rows=late))


def sums_of(store: SqlStateStore, table: TableName | None = ORDERS) -> Totals:
    (found,) = (one for one in store.totals(PIPELINE) if one.table == table)
    return found


ONE_RUN = Totals.of(
    pipeline=PIPELINE,
    table=ORDERS,
    committed_runs=1,
    run_seconds=120,
    read_rows=9,
    inserted_rows=4,
    updated_rows=3,
    deleted_rows=2,
    late_rows=5,
    quarantined_records=1,
    written_bytes=900,
    succeeded_at=NOON + timedelta(minutes=2),
)


class TotalsContract(LedgerFixtures):
    """Sums that only grow."""

    def test_a_run_is_counted_when_it_has_ended_and_once(self, store: SqlStateStore) -> None:
        store.record(line(TableRunStatus.PLANNED, counts=Counts(), late=0))
        store.record(line(TableRunStatus.MERGED, counts=Counts(), late=0))
        assert store.totals() == ()
        store.record(line(TableRunStatus.COMMITTED, 2))
        assert store.totals() == store.totals(PIPELINE) == (ONE_RUN,)
        store.record(changed(line(TableRunStatus.COMMITTED, 2), silent=True))
        store.record(line(TableRunStatus.COMMITTED, 3))
        assert (store.totals(), store.totals("another")) == ((ONE_RUN,), ()), "the same end, told again"

    def test_what_forgets_old_lines_leaves_the_sums(self, store: SqlStateStore) -> None:
        for number in range(4):
            ended = line(TableRunStatus.COMMITTED, 2, f"run-{number}")
            store.record(replace(ended, timing=replace(ended.timing, started_at=NOON + timedelta(seconds=number))))
        before = store.totals()
        assert (before[0].runs.committed_runs, before[0].data.inserted_rows) == (4, 16)
        assert store.prune(PIPELINE, ORDERS, NOON + timedelta(days=1)) == 3
        assert (len(store.history(PIPELINE, ORDERS)), store.totals()) == (1, before)

    def test_a_try_that_failed_is_counted_beside_the_one_that_healed_it_and_no_row_twice(self, store: SqlStateStore) -> None:
        half = replace(SOME, inserted=1, bytes=300)
        store.record(line(TableRunStatus.FAILED, 1, counts=half))
        store.record(line(TableRunStatus.LANDED, counts=half))
        store.record(line(TableRunStatus.FAILED, 1.5, counts=half))
        assert (sums_of(store).runs.failed_runs, sums_of(store).data.inserted_rows, sums_of(store).succeeded_at) == (2, 1, None)
        store.record(line(TableRunStatus.COMMITTED, 2))
        found = sums_of(store)
        assert (found.runs.failed_runs, found.runs.committed_runs, found.data.inserted_rows, found.data.written_bytes) == (2, 1, 4, 900)
        store.record(line(TableRunStatus.FAILED, 3, "run-2", Counts()))
        assert sums_of(store).succeeded_at == NOON + timedelta(minutes=2)

    def test_tables_without_news_are_counted_together(self, store: SqlStateStore) -> None:
        items = [idle(seen) for seen in known(store, "orders", "other", "third")]
        store.settle_idle(PIPELINE, items)
        store.settle_idle(PIPELINE, [idle(seen, "run-3") for seen in known(store)])
        assert [(str(one.table), one.runs.idle_runs, one.runs.failed_runs) for one in store.totals()] == [
            (f"shop.{name}", 2, 0) for name in ("orders", "other", "third")
        ]

    def test_questions_and_their_ends_are_counted_also_when_they_are_forgotten(self, store: SqlStateStore) -> None:
        for number, status in enumerate((ApprovalStatus.GRANTED, ApprovalStatus.REFUSED, ApprovalStatus.REFUSED, ApprovalStatus.WITHDRAWN)):
            store.ask_approval(question(f"q{number}"))
            store.answer_approval(f"q{number}", status, "ann")
            store.answer_approval(f"q{number}", ApprovalStatus.GRANTED, "too late")
        store.ask_approval(question("of all", table=None))
        found = sums_of(store)
        assert (
            found.questions.asked,
            found.questions.granted,
            found.questions.refused,
            found.questions.timed_out,
            found.questions.withdrawn,
        ) == (4, 1, 2, 0, 1)
        assert (sums_of(store, None).questions.asked, sums_of(store, None).questions.refused) == (1, 0)

    def test_runs_that_end_at_once_are_all_counted(self, url: str, store: SqlStateStore) -> None:
        def ended(number: int) -> None:
            with open_store(url) as own:
                own.record(line(TableRunStatus.COMMITTED, 2, f"run-{number}"))

        assert at_once(4, ended) == [None] * 4
        assert (sums_of(store).runs.committed_runs, sums_of(store).data.read_rows) == (4, 36)

    def test_a_ledger_of_the_version_before_says_when_tables_last_succeeded_and_counts_from_then_on(self, url: str) -> None:
        with open_store(url) as store:
            store.record(line(TableRunStatus.COMMITTED, 2))
            failed = line(TableRunStatus.FAILED, 9, "run-2")
            store.record(replace(failed, timing=replace(failed.timing, started_at=NOON + timedelta(minutes=8))))
            store.record(replace(failed, table=OTHER))
            with store._database.write() as connection:
                schema.totals.drop(connection)
                connection.execute(sa.text(f"UPDATE {schema.VERSION_TABLE} SET version_num = '0006'"))
        with open_store(url) as store:
            assert store.totals() == (Totals(pipeline=PIPELINE, table=ORDERS, succeeded_at=NOON),)
            store.record(line(TableRunStatus.COMMITTED, 2, "run-3"))
            assert sums_of(store) == ONE_RUN
