"""What the ledger promises of leases, on whatever database it is kept."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from cdc_ops.core.tables import TableName
from cdc_ops.errors import LeaseHeldError, StaleStateError
from cdc_ops.state import schema
from cdc_ops.state.base import Lease
from cdc_ops.state.sql import SqlStateStore, open_store
from tests.state_values import ORDERS, PIPELINE, TTL, LedgerFixtures, at_once, fresh, race, run, spec, take


class LeaseContract(LedgerFixtures):
    """The tests."""

    def test_a_lease_is_for_one_holder_and_tokens_grow_over_releases(self, store: SqlStateStore) -> None:
        first = take(store, "a")
        assert store.lease(PIPELINE, ORDERS) == first
        with pytest.raises(LeaseHeldError, match=r"held by a for work of a until \d{4}-"):
            take(store, "b")
        assert take(store, "a").token == first.token
        store.release(first)
        assert store.lease(PIPELINE, ORDERS) is None
        second = take(store, "b")
        store.release(first)
        assert store.lease(PIPELINE, ORDERS) == second
        store.release(second)
        assert [first.token, second.token, take(store, "a").token] == [1, 2, 3]

    def test_threads_that_race_for_a_lease_get_one_winner_each_time(self, url: str, store: SqlStateStore) -> None:
        tokens = []
        with open_store(url) as other:
            for _ in range(5):
                answers = at_once(4, lambda index: take((store, other)[index % 2], f"holder-{index}"))
                won = [answer for answer in answers if isinstance(answer, Lease)]
                assert len(won) == 1, answers
                assert sum(isinstance(answer, LeaseHeldError) for answer in answers) == 3, answers
                tokens.append(won[0].token)
                store.release(won[0])
        assert tokens == [1, 2, 3, 4, 5]

    def test_processes_that_race_for_a_lease_get_one_winner(self, url: str, store: SqlStateStore) -> None:
        imports = "from cdc_ops.state.sql import open_store; from tests.state_values import take; from cdc_ops.errors import LeaseHeldError"
        code = "try: print(take(open_store(url), str(os.getpid())).token)\nexcept LeaseHeldError: print('held')"
        assert race(3, imports, code, url) == ["1", "held", "held"]

    def test_an_expired_lease_goes_on_with_a_larger_token(self, store: SqlStateStore, expire: Callable[..., None]) -> None:
        first = take(store, "a")
        expire(schema.tables, "expires_at")
        assert store.lease(PIPELINE, ORDERS) is None
        second = take(store, "b", live=False)
        assert second.token == first.token + 1
        with pytest.raises(StaleStateError, match="expired and was taken"):
            store.renew(first, TTL)
        assert store.lease(PIPELINE, ORDERS) == second

    def test_a_lease_ends_by_the_databases_clock(self, store: SqlStateStore) -> None:
        before = store.now()
        lease = take(store, "a", ttl=timedelta(milliseconds=40))
        assert before + timedelta(milliseconds=40) <= lease.expires_at <= store.now() + timedelta(milliseconds=40)
        while store.now() < lease.expires_at:
            pass
        assert take(store, "b").token == 2

    def test_renewing_extends_also_late_as_long_as_nobody_took_the_table(self, store: SqlStateStore, expire: Callable[..., None]) -> None:
        lease = take(store, "a", ttl=timedelta(seconds=1))
        renewed = store.renew(lease, TTL)
        assert renewed.token == lease.token
        assert renewed.expires_at > lease.expires_at
        expire(schema.tables, "expires_at")
        assert store.renew(renewed, TTL).token == lease.token
        with pytest.raises(LeaseHeldError):
            take(store, "b")
        store.release(lease)
        with pytest.raises(StaleStateError, match="given back"):
            store.renew(lease, TTL)

    def test_a_live_run_that_waits_goes_before_backfills(self, store: SqlStateStore) -> None:
        held = take(store, "backfill-1", live=False)
        with pytest.raises(LeaseHeldError, match="This run goes first"):
            take(store, "live")
        assert take(store, "backfill-1", live=False).token == held.token  # whoever works may finish
        store.release(held)
        with pytest.raises(LeaseHeldError, match="kept for live"):
            take(store, "backfill-2", live=False)
        with pytest.raises(LeaseHeldError, match="kept for live"):
            take(store, "backfill-1", live=False)
        store.release(take(store, "live"))
        assert take(store, "backfill-2", live=False).token == 3

    def test_each_waiting_live_run_is_served_before_backfills(self, store: SqlStateStore) -> None:
        held = take(store, "backfill", live=False)
        for holder in ("live-1", "live-2"):
            with pytest.raises(LeaseHeldError):
                take(store, holder)
        store.release(held)
        store.release(take(store, "live-1"))
        with pytest.raises(LeaseHeldError, match="kept for live-2"):
            take(store, "backfill", live=False)
        store.release(take(store, "live-2"))
        take(store, "backfill", live=False)

    def test_a_live_run_that_gave_up_waiting_holds_nobody(self, store: SqlStateStore, expire: Callable[..., None]) -> None:
        held = take(store, "backfill", live=False)
        with pytest.raises(LeaseHeldError):
            take(store, "live")
        store.release(held)
        expire(schema.waiters, "until")
        take(store, "backfill", live=False)

    def test_names_are_told_apart_by_case_and_other_tables_are_free(self, store: SqlStateStore) -> None:
        take(store, "a")
        take(store, "b", table=TableName(schema="shop", name="Orders"))
        take(store, "c", table=TableName(schema="Shop", name="orders"))
        store.acquire("other", ORDERS, "d", ttl=TTL, live=False)
        assert len(store.overview()) == 4

    def test_long_names_fit(self, store: SqlStateStore) -> None:
        table = TableName(schema="ß" * 128, name="🚲" * 128)
        lease = store.acquire("é" * 128, table, "h" * 600, ttl=TTL, live=True)
        with pytest.raises(LeaseHeldError):
            store.acquire("é" * 128, table, "i" * 600, ttl=TTL, live=True)
        long = replace(run("r" * 250, table=table, pipeline="é" * 128), message="m" * 100_000)
        store.record(long)
        assert store.table_run("é" * 128, table, "r" * 250) == long
        assert store.lease("é" * 128, table) == lease

    def test_a_holder_that_comes_back_has_a_new_token_and_its_old_lease_is_void(self, store: SqlStateStore) -> None:
        old = take(store, "a")
        store.release(old)
        new = take(store, "a")
        with pytest.raises(StaleStateError, match="its token was 1, the newest is 2"):
            store.freeze(old, fresh(), (spec(1),))
        store.release(old)
        assert store.lease(PIPELINE, ORDERS) == new
