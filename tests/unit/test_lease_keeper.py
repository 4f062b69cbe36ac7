"""Leases while Spark works: renewed until the end, and a lost one is told at once and only then."""

import threading
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from cdc_ops.airflow.exceptions import RetryableRunError, tables_failed, to_airflow
from cdc_ops.errors import CdcError, LakeConflictError, LedgerUnavailableError, NullKeyError, SchemaChangedError, StaleStateError
from cdc_ops.state.lease import Lease
from cdc_ops.state.lease_renewal import LeaseKeeper
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.testing.source_harness import wait_until
from tests.state_values import ORDERS, PIPELINE, take

SOON = timedelta(milliseconds=30)
PATIENCE = 60


class Counting:
    """The renewals of a real ledger, counted; some of them find no ledger."""

    def __init__(self, store: SqlStateStore, *outages: int) -> None:
        self.store, self.outages = store, outages
        self.renewals = 0
        self.enough = threading.Event()

    def renew(self, lease: Lease, ttl: timedelta) -> Lease:
        self.renewals += 1
        if self.renewals >= 3:
            self.enough.set()
        if self.renewals in self.outages:
            raise LedgerUnavailableError("The ledger does not answer.")
        return self.store.renew(lease, ttl)


@pytest.mark.parametrize("outages", [(), (1, 2)])
def test_a_lease_is_renewed_while_the_work_lasts_also_over_an_outage_of_the_ledger(tmp_path: Path, outages: tuple[int, ...]) -> None:
    lost: list[Lease] = []
    with open_store(f"sqlite:///{tmp_path / 'ledger.db'}") as store:
        lease = take(store, "run", ttl=timedelta(hours=1))
        counting = Counting(store, *outages)
        with LeaseKeeper(counting, [lease], SOON, lost.append):  # type: ignore[arg-type]
            assert counting.enough.wait(PATIENCE)
        ended = counting.renewals
        held = store.table_state(PIPELINE, ORDERS), counting.renewals
        assert not lost
        assert held[1] == ended, "nothing is renewed after the end"


def test_a_lease_that_somebody_took_is_told_once(tmp_path: Path) -> None:
    lost: list[Lease] = []
    told = threading.Event()

    def on_lost(lease: Lease) -> None:
        lost.append(lease)
        told.set()

    with open_store(f"sqlite:///{tmp_path / 'ledger.db'}") as store:
        lease = take(store, "run")
        with LeaseKeeper(store, [lease], SOON, on_lost):
            store.unlock(lease)
            assert told.wait(PATIENCE)
        assert lost == [lease]
        with pytest.raises(StaleStateError):
            store.renew(lease, SOON)


def test_once_a_lease_is_lost_nothing_is_renewed_and_nothing_told_again(tmp_path: Path) -> None:
    lost: list[Lease] = []
    with open_store(f"sqlite:///{tmp_path / 'ledger.db'}") as store:
        lease = take(store, "run")
        counting = Counting(store)
        with LeaseKeeper(counting, [lease, lease], SOON, lost.append) as keeper:  # type: ignore[arg-type]
            store.unlock(lease)
            wait_until(lambda: not keeper._thread.is_alive() or len(lost) > 1, "the end of renewals")
        assert lost == [lease]


def test_airflow_retries_what_may_heal_and_nothing_else() -> None:
    heals, fatal = LakeConflictError("x"), NullKeyError("y")
    assert isinstance(to_airflow(heals), RetryableRunError)
    assert not isinstance(to_airflow(heals), AirflowFailException)
    assert isinstance(to_airflow(fatal), AirflowFailException)
    several: dict[str, tuple[dict[str, CdcError], type[Exception]]] = {
        "all may heal": ({"a": heals, "b": heals}, RetryableRunError),
        "one may heal": ({"a": heals, "b": fatal}, RetryableRunError),
        "none may heal": ({"a": fatal, "b": SchemaChangedError("z")}, AirflowFailException),
    }
    for name, (errors, kind) in several.items():
        assert type(tables_failed("merge", errors)) is kind, name
