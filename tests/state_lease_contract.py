"""What the ledger promises of leases, on whatever database it is kept."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo

import pytest

from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import LeaseHeldError, StaleStateError
from cdc_ops.state.db import schema
from cdc_ops.state.lease import Lease
from cdc_ops.state.sql import SqlStateStore, open_store
from tests.operations import changed
from tests.state_values import ORDERS, PIPELINE, TTL, LedgerFixtures, at_once, fresh, make_operation, race, run, take


class Holding:
    """A process of its own that takes the lease of the table and then does nothing until it is killed."""

    CODE = """
import sys
from cdc_ops.errors import LeaseHeldError
from cdc_ops.state.processes import this_process
from cdc_ops.state.sql import open_store
from tests.state_values import take
name = this_process().sign("cli:dead")
try:
    take(open_store(sys.argv[1]), name)
    print(name, "took", flush=True)
except LeaseHeldError:
    print(name, "refused", flush=True)
sys.stdin.read()
"""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-c", self.CODE, url]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.name, how = self._process.stdout.readline().split()
        self.refused = how == "refused"

    def kill(self) -> None:
        """SIGKILL; its parent, this process, is slow to ask how it ended."""
        self._process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)

    def end(self) -> None:
        """SIGKILL, and asks."""
        self._process.kill()
        self._process.communicate()


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
        with pytest.raises(StaleStateError, match="expired and another run took it"):
            store.renew(first, TTL)
        assert store.lease(PIPELINE, ORDERS) == second

    def test_a_lease_ends_by_the_databases_clock(self, store: SqlStateStore) -> None:
        before = store.now()
        lease = take(store, "a", ttl=timedelta(milliseconds=40))
        assert before + timedelta(milliseconds=40) <= lease.expires_at <= store.now() + timedelta(milliseconds=40)
        while store.now() < lease.expires_at:
            pass
        assert take(store, "b").token == 2

    @pytest.mark.parametrize("shift", [timedelta(days=1), timedelta(days=-1)])
    def test_a_local_clock_that_is_a_day_off_neither_ends_a_lease_nor_prolongs_it(
        self, store: SqlStateStore, expire: Callable[..., None], monkeypatch: pytest.MonkeyPatch, shift: timedelta
    ) -> None:
        class Shifted(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
                return datetime.now(tz) + shift

        clocks = [module for name, module in sys.modules.items() if name.startswith("cdc_ops.state") and hasattr(module, "datetime")]
        assert any(module.__name__ == "cdc_ops.state.db.leases" for module in clocks)
        for module in clocks:
            monkeypatch.setattr(module, "datetime", Shifted)
        before = store.now()
        lease = take(store, "a")
        assert before + TTL <= lease.expires_at <= store.now() + TTL
        assert store.lease(PIPELINE, ORDERS) == lease
        with pytest.raises(LeaseHeldError):
            take(store, "b")
        renewed = store.renew(lease, TTL)
        assert before + TTL <= renewed.expires_at <= store.now() + TTL
        expire(schema.tables, "expires_at")
        assert store.lease(PIPELINE, ORDERS) is None
        assert take(store, "b").token == lease.token + 1

    def test_a_process_that_was_killed_holds_nothing_any_more_and_keeps_nobody_waiting(self, url: str, store: SqlStateStore) -> None:
        holder = Holding(url)
        try:
            with pytest.raises(LeaseHeldError, match=r"held by cli:dead for work of") as refused:
                take(store, "b")
            assert "cdc-ops unlock shop.orders --pipeline" in refused.value.next
            holder.kill()
            taken = take(store, "b")
        finally:
            holder.end()
        assert (taken.token, taken.instead_of) == (2, holder.name)
        assert store.lease(PIPELINE, ORDERS) == replace(taken, instead_of="")

    def test_a_killed_run_that_waited_is_not_waited_for(self, url: str, store: SqlStateStore) -> None:
        held = take(store, "backfill-1", live=False)
        holder = Holding(url)
        try:
            assert holder.refused
            store.release(held)
            with pytest.raises(LeaseHeldError, match="reserved for cli:dead, which waits"):
                take(store, "backfill-2", live=False)
            holder.kill()
            assert take(store, "backfill-2", live=False).token == 2
        finally:
            holder.end()

    def test_a_lease_is_unlocked_once_and_its_holder_can_write_no_more(self, store: SqlStateStore) -> None:
        lease = take(store, "airflow:cdc_shop:manual")
        store.unlock(lease)
        assert store.lease(PIPELINE, ORDERS) is None
        for late in (lambda: store.renew(lease, TTL), lambda: store.freeze(lease, fresh(), (make_operation(1),))):
            with pytest.raises(StaleStateError, match="or it was unlocked"):
                late()
        store.release(lease)
        other = take(store, "b")
        assert other.token == lease.token + 2
        with pytest.raises(StaleStateError, match="It is held by b now"):
            store.unlock(lease)
        assert store.lease(PIPELINE, ORDERS) == other

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
        with pytest.raises(StaleStateError, match="released"):
            store.renew(lease, TTL)

    def test_a_live_run_that_waits_goes_before_backfills(self, store: SqlStateStore) -> None:
        held = take(store, "backfill-1", live=False)
        with pytest.raises(LeaseHeldError, match="This run gets the table next"):
            take(store, "live")
        assert take(store, "backfill-1", live=False).token == held.token  # whoever works may finish
        store.release(held)
        with pytest.raises(LeaseHeldError, match="reserved for live"):
            take(store, "backfill-2", live=False)
        with pytest.raises(LeaseHeldError, match="reserved for live"):
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
        with pytest.raises(LeaseHeldError, match="reserved for live-2"):
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
        long = changed(run("r" * 250, table=table, pipeline="é" * 128), message="m" * 100_000)
        store.record(long)
        assert store.table_run("é" * 128, table, "r" * 250) == long
        assert store.lease("é" * 128, table) == lease

    def test_a_holder_that_comes_back_has_a_new_token_and_its_old_lease_is_void(self, store: SqlStateStore) -> None:
        old = take(store, "a")
        store.release(old)
        new = take(store, "a")
        with pytest.raises(StaleStateError, match="its token was 1, the newest is 2"):
            store.freeze(old, fresh(), (make_operation(1),))
        store.release(old)
        assert store.lease(PIPELINE, ORDERS) == new
