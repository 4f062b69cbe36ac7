"""What a ledger promises of tables without news, which are settled together; a part of `StateContract`."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from cdc_ops.core import json_codec
from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.operation.protocol.table_state import TableState, scanned
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.base import FreeTable, IdleTable
from cdc_ops.state.db import schema
from cdc_ops.state.sql import SqlStateStore
from cdc_ops.state.table_run import TableRunStatus
from tests.state_values import NOON, ORDERS, PIPELINE, LedgerFixtures, make_operation, run, settle, take

BOUND = CursorValue(parts=("2026-01-31 13:00:00",))


def all_free(store: SqlStateStore) -> tuple[FreeTable, ...]:
    return store.free_tables(PIPELINE, [row.state.table for row in store.overview(PIPELINE)])


def known(store: SqlStateStore, *names: str) -> tuple[FreeTable, ...]:
    """Makes the ledger know tables that have committed one operation each, and returns them as a run sees them."""
    for name in names:
        table = TableName(schema="shop", name=name)
        lease = take(store, table=table)
        store.freeze(lease, TableState(pipeline=PIPELINE, table=table), (make_operation(table=table),))
        settle(store, lease, make_operation(table=table))
        store.release(lease)
    return all_free(store)


def idle(seen: FreeTable, run_id: str = "run-2") -> IdleTable:
    table = seen.state.table
    line = replace(run(run_id, NOON + timedelta(hours=1), table=table, message="no row"), status=TableRunStatus.IDLE)
    return IdleTable(seen=seen, new=scanned(seen.state, BOUND, NOON), run=line)


def somebody_holds_it(store: SqlStateStore) -> None:
    take(store, "b")


def somebody_had_it(store: SqlStateStore) -> None:
    store.release(take(store, "b"))


def its_holder_has_gone(store: SqlStateStore) -> None:
    take(store, "b", ttl=timedelta(seconds=-1))


def an_operation_is_open(store: SqlStateStore) -> None:
    lease = take(store, "b")
    store.freeze(lease, store.table_state(PIPELINE, ORDERS), (make_operation(2),))
    store.release(lease)


def its_watermark_moved(store: SqlStateStore) -> None:
    lease = take(store, "b")
    store.freeze(lease, store.table_state(PIPELINE, ORDERS), (make_operation(2),))
    settle(store, lease, make_operation(2))
    store.release(lease)


def its_state_changed(store: SqlStateStore) -> None:
    other = scanned(store.table_state(PIPELINE, ORDERS), CursorValue(parts=("2026-01-31 12:30:00",)), NOON)
    with store._database.write() as connection:
        mine = schema.tables.c.table_name == ORDERS.name
        connection.execute(sa.update(schema.tables).where(mine).values(state=json_codec.dumps(other)))


MEANWHILE = (somebody_holds_it, somebody_had_it, its_holder_has_gone, an_operation_is_open, its_watermark_moved, its_state_changed)


class IdleContract(LedgerFixtures):
    """The tests."""

    def test_free_tables_are_those_that_nobody_holds_and_that_have_nothing_open(self, store: SqlStateStore) -> None:
        known(store, "orders", "held", "expired", "planned")
        store.record(run("run-0", NOON, table=ORDERS, message="older"))
        store.record(run("run-1", NOON + timedelta(minutes=1), table=ORDERS, message="newest"))
        take(store, table=TableName(schema="shop", name="held"))
        take(store, table=TableName(schema="shop", name="expired"), ttl=timedelta(seconds=-1))
        planned = TableName(schema="shop", name="planned")
        lease = take(store, table=planned)
        store.freeze(lease, store.table_state(PIPELINE, planned), (make_operation(2, table=planned),))
        store.release(lease)
        take(store, table=TableName(schema="shop", name="fresh"))
        [found] = all_free(store)
        assert found.state == store.table_state(PIPELINE, ORDERS)
        assert found.stats == store.stats(PIPELINE, ORDERS) is not None
        assert found.last_run is not None
        assert found.last_run.messages.message == "newest"
        assert store.free_tables("another", [ORDERS]) == store.free_tables(PIPELINE, []) == ()

    def test_idle_tables_are_settled_as_a_run_of_each_would_settle_them(self, store: SqlStateStore) -> None:
        [orders, other] = known(store, "orders", "other")
        alone = take(store, "run")
        store.settle(alone, orders.state, idle(orders).new, None, None)
        store.record(idle(orders).run)
        store.release(alone)
        assert store.settle_idle(PIPELINE, [idle(other)]) == {other.state.table}
        rows = {}
        with store._database.read() as connection:
            for name in ("orders", "other"):
                for part in (schema.tables, schema.runs):
                    found = connection.execute(sa.select(part).where(part.c.table_name == name)).mappings().one()
                    rows[name, part.name] = {key: str(value).replace("other", "orders") for key, value in found.items()}
        assert rows["orders", "cdc_tables"] == rows["other", "cdc_tables"]
        assert rows["orders", "cdc_table_runs"] == rows["other", "cdc_table_runs"]
        assert store.table_state(PIPELINE, other.state.table).scanned_to == BOUND
        assert store.stats(PIPELINE, other.state.table) is not None, "the numbers of the Delta table stay"

    @pytest.mark.parametrize("meanwhile", MEANWHILE)
    def test_a_table_that_is_not_as_it_was_seen_is_left_alone(
        self, store: SqlStateStore, meanwhile: Callable[[SqlStateStore], None]
    ) -> None:
        seen = {item.state.table: item for item in known(store, "orders", "quiet")}
        meanwhile(store)
        state, quiet = store.table_state(PIPELINE, ORDERS), TableName(schema="shop", name="quiet")
        settled = store.settle_idle(PIPELINE, [idle(item) for item in seen.values()])
        assert settled == {quiet}, "the others are settled all the same"
        assert store.table_state(PIPELINE, ORDERS) == state
        assert store.table_run(PIPELINE, ORDERS, "run-2") is None
        assert store.table_run(PIPELINE, quiet, "run-2") is not None

    def test_settling_again_what_was_settled_changes_nothing(self, store: SqlStateStore) -> None:
        [orders] = known(store, "orders")
        assert store.settle_idle(PIPELINE, [idle(orders)]) == {ORDERS}
        assert store.settle_idle(PIPELINE, [idle(orders, "run-3")]) == frozenset()
        assert store.settle_idle(PIPELINE, [idle(replace(orders, state=TableState(pipeline=PIPELINE, table=ORDERS)))]) == frozenset()
        assert store.table_run(PIPELINE, ORDERS, "run-3") is None
        assert take(store, "next").token == orders.token + 2, "its fencing number is used up as by a lease"

    def test_hundreds_of_tables_are_settled_in_portions_and_their_old_lines_forgotten(
        self, store: SqlStateStore, expire: Callable[[sa.Table, str], None]
    ) -> None:
        [orders] = known(store, "orders")
        names = [f"t{number:03}" for number in range(300)]
        with store._database.write() as connection:
            row = dict(connection.execute(sa.select(schema.tables)).mappings().one())
            body = str(row.pop("state"))
            new = [row | {"table_name": name, "state": body.replace('"orders"', f'"{name}"')} for name in names]
            connection.execute(sa.insert(schema.tables), new)
        first = all_free(store)
        assert len(store.settle_idle(PIPELINE, [idle(item, "run-2") for item in first])) == 301
        expire(schema.runs, "started_at")
        expire(schema.operations, "settled_at")
        second = all_free(store)
        settled = store.settle_idle(PIPELINE, [idle(item, "run-3") for item in second])
        assert len(settled) == 301
        assert store.prune_idle(PIPELINE, settled, NOON) == 301 + 1, "a line of each, and the operation of one"
        assert store.prune_idle(PIPELINE, settled, NOON) == 0
        assert {line.run_id for line in store.table_runs(PIPELINE, limit=1000)} == {"run-3"}
        assert orders.state.table in settled

    def test_a_table_s_last_commit_is_not_forgotten_among_tables_without_news(self, store: SqlStateStore) -> None:
        known(store, "orders")
        for index, status in enumerate(["committed", "idle", "failed"]):
            store.record(replace(run(f"run-{index}", NOON - timedelta(days=9 - index)), status=TableRunStatus(status)))
        assert store.prune_idle(PIPELINE, [ORDERS], NOON - timedelta(days=1)) == 2
        assert [line.run_id for line in store.history(PIPELINE, ORDERS, status=TableRunStatus.COMMITTED)] == ["run-0"]
