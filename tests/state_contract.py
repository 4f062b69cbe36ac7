"""What a ledger promises, on whatever database it is kept: the same tests for SQLite, Postgres and MariaDB.

A test class derives from `StateContract` and gives it a fixture `url` of an empty database.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from cdc_ops.core import json_codec
from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.table_progress import SnapshotProgress, TableProgress
from cdc_ops.core.operation.protocol.table_state import Phase, abandoned, committed, scanned, unchanged
from cdc_ops.core.operation.results import Counts, Outcome
from cdc_ops.core.reconcile.diff import AbandonedOperation, CompareLevel, CompareSpec, DeleteGuard
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, StaleStateError, StateError
from cdc_ops.state.db import schema
from cdc_ops.state.sql import SqlStateStore, open_reader, open_store
from cdc_ops.state.table_run import TableRunStatus
from tests.operations import changed, with_fields
from tests.state_adopt_contract import AdoptContract
from tests.state_alert_contract import AlertContract
from tests.state_approval_contract import ApprovalContract
from tests.state_archive_contract import ArchiveContract
from tests.state_forget_contract import ForgetContract
from tests.state_idle_contract import IdleContract
from tests.state_lease_contract import LeaseContract
from tests.state_notified_contract import NotifiedFilesContract
from tests.state_pipeline_file_contract import PipelineFileContract
from tests.state_totals_contract import TotalsContract
from tests.state_values import NOON, ORDERS, PIPELINE, TTL, at_once, fresh, make_operation, race, result, run, settle, take

CUSTOMERS, ITEMS = TableName(schema="shop", name="customers"), TableName(schema="shop", name="items")


class StateContract(
    LeaseContract,
    ArchiveContract,
    IdleContract,
    AlertContract,
    ApprovalContract,
    NotifiedFilesContract,
    TotalsContract,
    PipelineFileContract,
    ForgetContract,
    AdoptContract,
):
    """The tests; those of leases, archives, idle tables, alerts, approvals, told files, sums and pipelines that go stand on their own."""

    # ---------------------------------------------------------------------------------------------- opening and migrating

    def test_an_empty_database_becomes_a_ledger_by_opening_it(self, url: str) -> None:
        with open_store(url) as store:
            assert store.overview() == ()
            assert store.table_state(PIPELINE, ORDERS) == fresh()
            assert abs(store.now() - datetime.now(UTC)) < timedelta(seconds=5)

    def test_processes_that_open_an_empty_ledger_at_once_do_not_clash(self, url: str) -> None:
        imports = "import alembic.command; from cdc_ops.state.sql import open_store"
        assert race(4, imports, "store = open_store(url); print(len(store.overview())); store.close()", url) == ["0"] * 4

    def test_threads_that_open_an_empty_ledger_at_once_do_not_clash(self, url: str) -> None:
        stores = at_once(4, lambda _: open_store(url))
        assert all(isinstance(store, SqlStateStore) for store in stores), stores
        for store in stores:
            store.close()

    def test_models_and_migrations_agree(self, store: SqlStateStore) -> None:
        from alembic.autogenerate import compare_metadata
        from alembic.migration import MigrationContext
        from alembic.script import ScriptDirectory

        def ours(name: str | None, kind: str, _: Any) -> bool:
            return kind != "table" or bool(name and name.startswith("cdc_") and name != schema.VERSION_TABLE)

        options = {"compare_type": True, "compare_server_default": True, "include_name": ours}
        with store._database.read() as connection:
            assert compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata) == []
        assert ScriptDirectory("cdc_ops/state/migrations").get_heads() == [schema.VERSION]

    def test_a_newer_ledger_is_refused_by_readers_and_writers(self, url: str, store: SqlStateStore) -> None:
        with store._database.write() as connection:
            connection.exec_driver_sql(f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'")
        with pytest.raises(StateError, match="version 9999; this cdc-ops knows up to"):
            open_store(url)
        with open_reader(url) as reader, pytest.raises(StateError, match="version 9999"):
            reader.overview()

    def test_an_older_ledger_is_upgraded_and_a_migration_that_was_cut_off_is_finished(self, url: str, store: SqlStateStore) -> None:
        with store._database.write() as connection:
            connection.exec_driver_sql(f"DELETE FROM {schema.VERSION_TABLE}")
            connection.exec_driver_sql("DROP TABLE cdc_table_runs")
        with open_reader(url) as reader:
            assert reader.overview() == ()
        with open_store(url) as again:
            again.record(run("run-1"))

    # ---------------------------------------------------------------------------------------------- readers

    def test_a_reader_finds_nothing_where_there_is_no_ledger(self, url: str) -> None:
        with open_reader(url) as reader:
            assert reader.overview() == reader.table_runs() == reader.open_operations(PIPELINE, ORDERS) == ()
            assert reader.table_state(PIPELINE, ORDERS) == fresh()
            assert reader.stats(PIPELINE, ORDERS) is reader.lease(PIPELINE, ORDERS) is reader.table_run(PIPELINE, ORDERS, "x") is None
            assert abs(reader.now() - datetime.now(UTC)) < timedelta(seconds=5)
            with open_store(url) as store:
                store.record(run("run-1"))
            assert len(reader.table_runs()) == 1

    def test_the_database_itself_refuses_what_a_reader_might_write(self, url: str, store: SqlStateStore) -> None:
        store.record(run("run-1"))
        with open_reader(url) as reader:
            for access in (reader._database.read, reader._database.write):
                with pytest.raises(CdcError), access() as connection:
                    connection.execute(sa.delete(schema.runs))
            assert len(reader.table_runs()) == 1

    def test_the_history_of_a_table_is_its_own_runs_newest_first(self, store: SqlStateStore) -> None:
        other = TableName(schema="shop", name="other")
        for minute in range(4):
            store.record(run(f"run-{minute}", NOON + timedelta(minutes=minute), table=ORDERS if minute % 2 else other))
        assert [item.run_id for item in store.history(PIPELINE, ORDERS)] == ["run-3", "run-1"]
        assert [item.run_id for item in store.history(PIPELINE, ORDERS, limit=1)] == ["run-3"]

    def test_runs_are_found_by_how_they_fared(self, store: SqlStateStore) -> None:
        store.record(run("run-1"))
        store.record(replace(run("run-2", NOON + timedelta(minutes=1)), status=TableRunStatus.IDLE))
        for status, found in ((TableRunStatus.COMMITTED, "run-1"), (TableRunStatus.IDLE, "run-2")):
            assert [item.run_id for item in store.history(PIPELINE, ORDERS, status=status)] == [found]
            assert [item.run_id for item in store.table_runs(PIPELINE, status=status)] == [found]

    def test_the_rows_that_runs_have_written_since_an_instant_are_summed_by_pipeline(self, store: SqlStateStore) -> None:
        assert store.rows_written(NOON) == {}
        known = run("run-1")
        for number, (minutes, counts) in enumerate(((-1, (100, 0, 0)), (0, (1, 20, 300)), (5, (0, 4_000_000_000, 0)))):
            inserted, updated, deleted = counts
            rows = Counts(read=7, inserted=inserted, updated=updated, deleted=deleted)
            line = replace(run(f"run-{number}", NOON + timedelta(minutes=minutes)), result=replace(known.result, counts=rows))
            store.record(line)
        store.record(replace(run("run-8", NOON), status=TableRunStatus.FAILED))
        store.record(run("run-9", NOON, pipeline="other"))
        store.record(replace(run("run-9", NOON, pipeline="idle"), status=TableRunStatus.IDLE))
        assert store.rows_written(NOON) == {PIPELINE: 4_000_000_321, "other": 1}

    # ---------------------------------------------------------------------------------------------- operations and state

    def test_what_is_frozen_comes_back_equal_and_in_order(self, store: SqlStateStore) -> None:
        lease = take(store)
        big = with_fields(make_operation(2), slices=tuple(f"id = {number}" for number in range(20_000)))
        store.freeze(lease, fresh(), (make_operation(1), big))
        assert store.open_operations(PIPELINE, ORDERS) == (make_operation(1), big)
        store.freeze(lease, fresh(), (make_operation(3),))
        assert [item.op_seq for item in store.open_operations(PIPELINE, ORDERS)] == [1, 2, 3]
        assert store.abandoned_ids(PIPELINE, ORDERS) == frozenset()

    def test_nothing_is_planned_over_what_is_unfinished(self, store: SqlStateStore) -> None:
        lease = take(store)
        store.freeze(lease, fresh(), (make_operation(1),))
        for wrong in ((make_operation(1, name="other"),), (make_operation(3),), (make_operation(2), make_operation(4))):
            with pytest.raises(StaleStateError, match="do not follow operation 1"):
                store.freeze(lease, fresh(), wrong)
        assert store.open_operations(PIPELINE, ORDERS) == (make_operation(1),)

    def test_of_two_plans_that_race_under_one_lease_one_is_frozen(self, store: SqlStateStore) -> None:
        lease = take(store)
        answers = at_once(4, lambda index: store.freeze(lease, fresh(), (make_operation(1, name=f"plan-{index}"),)))
        assert [type(answer) for answer in answers].count(type(None)) == 1, answers
        assert sum(isinstance(answer, StaleStateError) for answer in answers) == 3, answers
        assert len(store.open_operations(PIPELINE, ORDERS)) == 1

    def test_several_operations_are_frozen_all_or_none(self, store: SqlStateStore) -> None:
        lease = take(store)
        with pytest.raises(StateError):
            store.freeze(lease, fresh(), (make_operation(1, name="same"), make_operation(2, name="same")))
        assert store.open_operations(PIPELINE, ORDERS) == ()

    def test_what_an_open_operation_reads_can_be_replaced_under_its_own_number_alone(self, store: SqlStateStore) -> None:
        lease = take(store)
        store.freeze(lease, fresh(), (make_operation(1), make_operation(2)))
        changed = with_fields(make_operation(2), source_fingerprint="new")
        store.refreeze(lease, (make_operation(1), changed))
        assert store.open_operations(PIPELINE, ORDERS) == (make_operation(1), changed)
        with pytest.raises(StaleStateError, match="not open"):
            store.refreeze(lease, (replace(changed, op_seq=3),))
        settle(store, lease, make_operation(1))
        with pytest.raises(StaleStateError, match="committed"):
            store.refreeze(lease, (with_fields(make_operation(1), source_fingerprint="late"),))
        assert store.open_operations(PIPELINE, ORDERS) == (changed,)

    def test_freezing_needs_the_state_that_was_planned_for(self, store: SqlStateStore) -> None:
        lease = take(store)
        with pytest.raises(StaleStateError, match="changed the ledger's state"):
            store.freeze(lease, replace(fresh(), op_seq=1), (make_operation(2),))

    def test_settling_moves_state_operation_and_numbers_together(self, store: SqlStateStore) -> None:
        lease = take(store)
        store.freeze(lease, fresh(), (make_operation(1),))
        new = settle(store, lease, make_operation(1))
        assert store.table_state(PIPELINE, ORDERS) == new
        assert new.progress.watermark == make_operation(1).after.watermark
        assert store.open_operations(PIPELINE, ORDERS) == ()
        assert store.stats(PIPELINE, ORDERS) == result(make_operation(1)).stats

    def test_settling_twice_changes_nothing(self, store: SqlStateStore) -> None:
        lease = take(store)
        store.freeze(lease, fresh(), (make_operation(1),))
        new = settle(store, lease, make_operation(1))
        later = TableStats(delta_version=2, files=1, size_bytes=1)
        store.put_stats(lease, PIPELINE, ORDERS, later)
        for expected in (fresh(), new):
            store.settle(lease, expected, new, make_operation(1), result(make_operation(1)))
        assert store.table_state(PIPELINE, ORDERS) == new
        assert store.stats(PIPELINE, ORDERS) == later

    def test_settling_what_was_computed_from_an_old_state_is_refused_as_a_whole(self, store: SqlStateStore) -> None:
        lease = take(store)
        store.freeze(lease, fresh(), (make_operation(1), make_operation(2)))
        first = settle(store, lease, make_operation(1))
        with pytest.raises(StaleStateError, match="changed the ledger's state"):
            store.settle(
                lease, fresh(), changed(committed(first, make_operation(2), 2), fresh_at=None), make_operation(2), result(make_operation(2))
            )
        assert store.table_state(PIPELINE, ORDERS) == first
        assert store.open_operations(PIPELINE, ORDERS) == (make_operation(2),)
        settle(store, lease, make_operation(2))
        with pytest.raises(StaleStateError, match="not open: it is committed"):
            store.settle(lease, fresh(), first, make_operation(1), result(make_operation(1)))

    def test_an_operation_that_the_ledger_does_not_know_is_not_settled(self, store: SqlStateStore) -> None:
        lease = take(store)
        with pytest.raises(StaleStateError, match="unknown to the ledger"):
            settle(store, lease, make_operation(1))
        with pytest.raises(StaleStateError, match="unknown to the ledger"):
            store.start_attempt(lease, make_operation(1))

    def test_a_holder_whose_lease_was_taken_writes_nothing_any_more(self, store: SqlStateStore, expire: Callable[..., None]) -> None:
        old = take(store, "a")
        store.freeze(old, fresh(), (make_operation(1),))
        expire(schema.tables, "expires_at")
        take(store, "b")
        new = committed(fresh(), make_operation(1), 1)
        stats = TableStats(delta_version=1, files=1, size_bytes=1)
        for write in (
            lambda: store.settle(old, fresh(), new, make_operation(1), result(make_operation(1))),
            lambda: store.freeze(old, fresh(), (make_operation(2),)),
            lambda: store.start_attempt(old, make_operation(1)),
            lambda: store.replace_state(old, new),
            lambda: store.put_stats(old, PIPELINE, ORDERS, stats),
        ):
            with pytest.raises(StaleStateError, match="lost"):
                write()
        assert store.table_state(PIPELINE, ORDERS) == fresh()
        assert store.stats(PIPELINE, ORDERS) is None
        assert store.open_operations(PIPELINE, ORDERS) == (make_operation(1),)

    def test_of_two_that_settle_at_once_both_are_content_and_one_has_written(self, store: SqlStateStore) -> None:
        lease = take(store)
        store.freeze(lease, fresh(), (make_operation(1),))
        assert (
            at_once(
                4,
                lambda _: store.settle(
                    lease, fresh(), committed(fresh(), make_operation(1), 1), make_operation(1), result(make_operation(1))
                ),
            )
            == [None] * 4
        )
        assert store.table_state(PIPELINE, ORDERS) == committed(fresh(), make_operation(1), 1)

    def test_a_run_that_died_between_freeze_and_settle_is_continued(
        self, url: str, store: SqlStateStore, expire: Callable[..., None]
    ) -> None:
        with open_store(url) as dead:
            dead.freeze(take(dead, "dead"), fresh(), (make_operation(1),))
        expire(schema.tables, "expires_at")
        lease = take(store, "next")
        [frozen] = store.open_operations(PIPELINE, ORDERS)
        assert frozen == make_operation(1)
        assert store.start_attempt(lease, frozen) == 1
        assert settle(store, lease, frozen).op_seq == 1

    def test_tries_are_counted(self, store: SqlStateStore) -> None:
        lease = take(store)
        store.freeze(lease, fresh(), (make_operation(1), make_operation(2)))
        assert [store.start_attempt(lease, make_operation(1)) for _ in range(3)] == [1, 2, 3]
        assert (store.attempts(make_operation(1)), store.attempts(make_operation(2)), store.attempts(make_operation(9))) == (3, 0, 0)

    def test_an_abandoned_operation_burns_its_number_and_is_remembered(self, store: SqlStateStore) -> None:
        lease, hopeless = take(store), make_operation(1, OperationKind.BACKFILL)
        store.freeze(lease, fresh(), (hopeless,))
        for _ in range(2):
            store.settle(lease, fresh(), abandoned(fresh(), hopeless), hopeless, None)
        assert store.abandoned_ids(PIPELINE, ORDERS) == {hopeless.operation_id}
        assert store.last_abandoned(PIPELINE, ORDERS) == AbandonedOperation(
            op_seq=1, operation_id=hopeless.operation_id, run_id=hopeless.plan.run_id, kind="backfill"
        )
        assert store.open_operations(PIPELINE, ORDERS) == ()
        assert store.table_state(PIPELINE, ORDERS).op_seq == 1
        with pytest.raises(StaleStateError, match="not open: it is abandoned"):
            store.settle(lease, fresh(), committed(fresh(), hopeless, 1), hopeless, result(hopeless))

    def test_what_was_given_up_is_of_interest_until_a_later_number_is_committed_and_what_found_nothing_never(
        self, store: SqlStateStore
    ) -> None:
        lease, hopeless, same = take(store), make_operation(1, OperationKind.BACKFILL), make_operation(2, OperationKind.RECONCILE)
        same = with_fields(same, compare=CompareSpec(strength=CompareLevel.WHOLE, buckets=None, readers=1, guard=DeleteGuard()))
        store.freeze(lease, fresh(), (hopeless, same, make_operation(3)))
        store.settle(lease, fresh(), abandoned(fresh(), hopeless), hopeless, None)
        state = store.table_state(PIPELINE, ORDERS)
        store.settle(lease, state, unchanged(state, same), same, replace(result(same), outcome=Outcome.UNCHANGED))
        found = store.last_abandoned(PIPELINE, ORDERS)
        assert found is not None
        assert found.op_seq == 1
        settle(store, lease, make_operation(3))
        assert store.last_abandoned(PIPELINE, ORDERS) is None

    def test_a_scan_that_found_nothing_moves_only_what_was_scanned(self, store: SqlStateStore) -> None:
        lease = take(store)
        new = scanned(fresh(), CursorValue(parts=("2026-01-31 12:00:00",)), NOON)
        store.settle(lease, fresh(), new, None, None)
        assert store.table_state(PIPELINE, ORDERS) == new

    def test_a_rebuilt_state_discards_what_was_open(self, store: SqlStateStore) -> None:
        lease = take(store)
        store.freeze(lease, fresh(), (make_operation(1), make_operation(2)))
        rebuilt = replace(fresh(), op_seq=7, committed_op_seq=7, operation_id="from-the-lake", delta_version=9)
        store.replace_state(lease, rebuilt)
        assert store.table_state(PIPELINE, ORDERS) == rebuilt
        assert store.open_operations(PIPELINE, ORDERS) == ()
        assert store.abandoned_ids(PIPELINE, ORDERS) == frozenset()
        with pytest.raises(StaleStateError, match="not open: it is discarded"):
            store.settle(lease, rebuilt, rebuilt, make_operation(1), result(make_operation(1)))
        store.freeze(lease, rebuilt, (make_operation(8),))

    def test_a_lease_is_no_right_to_write_another_table(self, store: SqlStateStore) -> None:
        lease, other = take(store), TableName(schema="shop", name="customers")
        with pytest.raises(ValueError, match=r"does not allow to write shop/shop\.customers"):
            store.freeze(lease, fresh(other), (make_operation(1, table=other),))
        with pytest.raises(ValueError, match="does not allow to write"):
            store.put_stats(lease, PIPELINE, other, TableStats(delta_version=1, files=1, size_bytes=1))

    def test_what_was_settled_long_ago_is_forgotten_and_what_is_open_or_abandoned_stays(self, store: SqlStateStore) -> None:
        lease = take(store)
        store.freeze(lease, fresh(), (make_operation(1), make_operation(2, OperationKind.BACKFILL), make_operation(3)))
        state = settle(store, lease, make_operation(1))
        store.settle(
            lease, state, abandoned(state, make_operation(2, OperationKind.BACKFILL)), make_operation(2, OperationKind.BACKFILL), None
        )
        for index in range(3):
            store.record(run(f"run-{index}", NOON + timedelta(minutes=index)))
        assert store.prune(PIPELINE, ORDERS, NOON) == 0
        assert store.prune(PIPELINE, ORDERS, store.now() + timedelta(minutes=1)) == 3  # two lines and operation 1
        assert [item.run_id for item in store.table_runs()] == ["run-2"]
        assert store.open_operations(PIPELINE, ORDERS) == (make_operation(3),)
        assert store.abandoned_ids(PIPELINE, ORDERS) == {make_operation(2).operation_id}
        assert store.prune(PIPELINE, ORDERS, store.now() + timedelta(minutes=1)) == 0

    def test_a_table_s_last_commit_is_not_forgotten_however_long_it_is_idle(self, store: SqlStateStore) -> None:
        for index, status in enumerate(["committed", "committed", "idle", "failed", "idle"]):
            store.record(replace(run(f"run-{index}", NOON + timedelta(minutes=index)), status=TableRunStatus(status)))
        assert store.prune(PIPELINE, ORDERS, store.now() + timedelta(minutes=1)) == 3
        assert [item.run_id for item in store.table_runs()] == ["run-4", "run-1"], "asset events chain up by the last commit"

    # ---------------------------------------------------------------------------------------------- runs and overview

    def test_a_run_has_one_line_per_table_that_is_replaced(self, store: SqlStateStore) -> None:
        store.record(run("run-1"))
        store.record(run("run-1", message="done"))
        assert store.table_runs() == (run("run-1", message="done"),)
        assert store.table_run(PIPELINE, ORDERS, "run-1") == run("run-1", message="done")
        assert store.table_run(PIPELINE, ORDERS, "run-2") is None

    def test_runs_come_newest_first_and_can_be_narrowed(self, store: SqlStateStore) -> None:
        customers = TableName(schema="shop", name="customers")
        for index in range(4):
            store.record(run(f"run-{index}", NOON + timedelta(microseconds=index)))
        store.record(run("run-2", NOON + timedelta(hours=1), table=customers))
        store.record(run("run-9", NOON - timedelta(hours=1), pipeline="other"))
        assert [item.run_id for item in store.table_runs()] == ["run-2", "run-3", "run-2", "run-1", "run-0", "run-9"]
        assert [item.run_id for item in store.table_runs(limit=2)] == ["run-2", "run-3"]
        assert [item.table for item in store.table_runs(run_id="run-2")] == [customers, ORDERS]
        assert [item.run_id for item in store.table_runs("other")] == ["run-9"]

    def test_whole_runs_come_with_the_lines_of_all_their_tables_the_newest_in_front(
        self, store: SqlStateStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = [TableName(schema="shop", name=f"t{number}") for number in range(3)]
        for number, run_id in enumerate(("run-1", "run-2", "run-3")):
            for table in names:
                store.record(run(run_id, NOON + timedelta(minutes=number), table=table))
        store.record(run("run-2", NOON + timedelta(hours=1), pipeline="other"))

        def found(*pipelines: str, limit: int = 20) -> list[tuple[str, str, int]]:
            return [(lines[0].pipeline, lines[0].run_id, len(lines)) for lines in store.newest_runs(pipelines, limit=limit)]

        of_shop = [(PIPELINE, run_id, 3) for run_id in ("run-3", "run-2", "run-1")]
        for at_first in (500, 1):
            monkeypatch.setattr("cdc_ops.state.db.runs._LINES", at_first)
            assert found() == [("other", "run-2", 1), *of_shop]
            assert found(limit=2) == [("other", "run-2", 1), of_shop[0]]
            assert found(PIPELINE, limit=2) == of_shop[:2]
            assert found("nobody") == []

    def test_the_overview_shows_every_known_table_with_its_newest_run(self, store: SqlStateStore) -> None:
        lease = take(store)
        store.freeze(lease, fresh(), (make_operation(1),))
        state = settle(store, lease, make_operation(1))
        for index in range(3):
            store.record(run(f"run-{index}", NOON + timedelta(minutes=index)))
        store.record(run("run-0", table=TableName(schema="shop", name="customers"), message="refused"))
        store.record(run("run-0", pipeline="archive"))
        first, customers, orders = store.overview()
        assert (first.state.pipeline, customers.state.table.name, orders.state.table.name) == ("archive", "customers", "orders")
        assert (orders.state, orders.stats, orders.lease) == (state, result(make_operation(1)).stats, lease)
        assert orders.last_run is not None
        assert orders.last_run.run_id == "run-2"
        assert (customers.state.op_seq, customers.stats, customers.lease) == (0, None, None)
        assert customers.last_run is not None
        assert [item.state.table for item in store.overview("archive")] == [ORDERS]
        assert store.overview("archive", ORDERS) == store.overview("archive")
        assert [item.state.table for item in store.overview(table=ORDERS)] == [ORDERS, ORDERS]
        assert store.overview("archive", TableName(schema="shop", name="none")) == ()
        store.release(lease)
        assert store.overview()[2].lease is None

    def test_a_glance_says_the_same_as_the_overview(self, store: SqlStateStore) -> None:
        lease = take(store)
        store.freeze(lease, fresh(), (make_operation(1),))
        settle(store, lease, make_operation(1))
        for index, status in enumerate((TableRunStatus.COMMITTED, TableRunStatus.IDLE)):
            line = replace(run(f"run-{index}", NOON + timedelta(minutes=index)), status=status, max_lag=timedelta(minutes=90.5))
            store.record(replace(line, result=replace(line.result, counts=Counts(read=4_000_000_000 + index))))
        gone = replace(fresh(), table=CUSTOMERS, missing_since=NOON)
        store.replace_state(take(store, table=CUSTOMERS), gone)
        chunks = SnapshotProgress(bound=CursorValue(parts=("7",)), done=1, total=2)
        begun = TableProgress(snapshot=chunks, fresh_at=NOON)
        store.replace_state(take(store, table=ITEMS), replace(fresh(), table=ITEMS, progress=begun))
        store.record(run("run-9", pipeline="archive", message="of a table without a state"))
        for name in ("empty", "empty too"):
            store.release(store.acquire("bare", TableName(schema="shop", name=name), "a", ttl=TTL, live=True))
        for _ in range(2):  # what has not changed is not parsed again
            every = store.glances()
            assert every == tuple(one.glance for one in store.overview())
        assert [(one.pipeline, one.table.name) for one in every if one.last_run is None and one.phase is Phase.NEW][:2] == [
            ("bare", "empty"),
            ("bare", "empty too"),
        ]
        found = tuple(one for one in every if one.pipeline != "bare")
        assert [(one.pipeline, one.phase, one.is_leased) for one in found] == [
            ("archive", Phase.NEW, False),
            (PIPELINE, Phase.NEW, True),
            (PIPELINE, Phase.SNAPSHOT, True),
            (PIPELINE, Phase.READY, True),
        ]
        assert found[1].missing_since == NOON
        assert found[3].last_run is not None
        assert (found[3].last_run.read, found[3].last_run.max_lag) == (4_000_000_001, timedelta(minutes=90.5))
        store.release(lease)
        assert [one.is_leased for one in store.glances() if one.pipeline != "bare"] == [False, True, True, False]

    def test_some_tables_are_shown_by_their_names(self, store: SqlStateStore) -> None:
        for pipeline, table in ((PIPELINE, ORDERS), (PIPELINE, CUSTOMERS), ("archive", ORDERS)):
            store.record(run("run-1", pipeline=pipeline, table=table))
        wanted = [(PIPELINE, ORDERS), ("archive", ORDERS), ("archive", CUSTOMERS)]
        assert [(one.state.pipeline, one.state.table) for one in store.overviews(wanted)] == [("archive", ORDERS), (PIPELINE, ORDERS)]
        assert store.overviews(()) == ()

    def test_the_rows_that_older_versions_have_written_are_added_up_once(self, url: str, store: SqlStateStore) -> None:
        line = run("run-1")
        store.record(replace(line, result=replace(line.result, counts=Counts(read=9, inserted=1, updated=20, deleted=4_000_000_300))))
        store.record(replace(run("run-2"), status=TableRunStatus.FAILED))
        written = store.rows_written(NOON)
        assert written == {PIPELINE: 4_000_000_321}
        with store._database.write() as connection:  # as version 0006 left it
            connection.exec_driver_sql(f"UPDATE {schema.VERSION_TABLE} SET version_num = '0006'")
            connection.execute(sa.update(schema.runs).values(rows_written=0))
            connection.exec_driver_sql("CREATE INDEX ix_cdc_table_runs_pipeline ON cdc_table_runs (pipeline, started_at)")
        with open_store(url) as again:
            assert again.rows_written(NOON) == written
        assert "ix_cdc_table_runs_pipeline" not in {
            one["name"] for one in sa.inspect(store._database._engine).get_indexes("cdc_table_runs")
        }

    def test_an_overview_parses_only_what_has_changed_since_the_one_before(
        self, store: SqlStateStore, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("a", "b", "c"):
            store.record(run("run-1", table=TableName(schema="shop", name=name)))
        parsed: list[type] = []
        loads = json_codec.loads
        monkeypatch.setattr(json_codec, "loads", lambda cls, text: parsed.append(cls) or loads(cls, text))
        with open_reader(url) as reader:
            for expected in (3, 0, 1, 0):
                if expected == 1:
                    store.record(replace(run("run-2", NOON + timedelta(minutes=1), table=TableName(schema="shop", name="b")), trigger="x"))
                parsed.clear()
                found = reader.overview()
                assert (len(parsed), [row.last_run.trigger for row in found if row.last_run]) == (
                    expected,
                    ["scheduled", "x" if store.table_runs(run_id="run-2") else "scheduled", "scheduled"],
                )
                assert len(reader.overview(PIPELINE, TableName(schema="shop", name="a"))) == 1

    def test_the_overview_asks_as_often_for_many_tables_as_for_one(self, store: SqlStateStore) -> None:
        asked: list[str] = []
        sa.event.listen(store._database._engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
        counts = []
        for index in range(30):
            store.record(run("run-1", table=TableName(schema="shop", name=f"t{index}")))
            asked.clear()
            assert len(store.overview()) == index + 1
            counts.append(len([text for text in asked if "cdc_" in text]))
        assert set(counts[1:]) == {1}
