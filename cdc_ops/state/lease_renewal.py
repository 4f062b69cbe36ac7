"""Leases while Spark works: renewed in the background, and a lost one is told at once."""

import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from types import TracebackType
from typing import Self

from cdc_ops.errors import CdcError, StaleStateError
from cdc_ops.state.base import StateStore
from cdc_ops.state.lease import Lease


class LeaseKeeper:
    """Renews leases every third of their life for as long as the `with` block runs.

    The Delta transaction number is the fence, so a lost lease endangers no data; it means that another run is finishing the work, and that
    going on is a waste.

    Args:
        store: The ledger.
        leases: What to renew.
        ttl: How long each renewal lasts.
        on_lost: Called once, from the background thread, when a lease is no longer ours, e.g. to kill the Spark application.
    """

    def __init__(self, store: StateStore, leases: Iterable[Lease], ttl: timedelta, on_lost: Callable[[Lease], None]) -> None:
        self._store = store
        self._leases = list(leases)
        self._ttl = ttl
        self._on_lost = on_lost
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cdc-ops-leases", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._ttl.total_seconds() / 3):
            for lease in self._leases:
                try:
                    self._store.renew(lease, self._ttl)
                except StaleStateError:
                    self._on_lost(lease)
                    return
                except CdcError:
                    break  # the lease may outlive an outage of the ledger; if not, the next renewal says so
