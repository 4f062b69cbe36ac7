"""Maintenance is done under a table's lease, and never beside somebody who works on it."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_ops.core.maintenance import MaintenancePlan, TableStats, Vacuum
from cdc_ops.core.operation.job import MaintenanceTask
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.steps.maintain import lease_maintenance

TTL = timedelta(minutes=5)
STATS = TableStats(delta_version=1, files=1, size_bytes=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStateStore]:
    opened = open_store(f"sqlite:///{tmp_path}/ledger.db")
    yield opened
    opened.close()


def task(name: str) -> MaintenanceTask:
    table = TableName(schema="shop", name=name)
    return MaintenanceTask(table=table, path=f"/lake/{name}", plan=MaintenancePlan(vacuum=Vacuum.LITE), stats=STATS)


def test_a_table_that_somebody_works_on_is_left_for_the_next_run(store: SqlStateStore) -> None:
    context = SimpleNamespace(pipeline=SimpleNamespace(name="shop"), store=store, lease_ttl=TTL)
    request = SimpleNamespace(holder="maintenance")
    free, busy = task("customers"), task("orders")
    merge = store.acquire("shop", busy.table, "merge", ttl=TTL, live=True)

    def leased() -> list[TableName]:
        found = lease_maintenance(cast(Any, context), cast(Any, request), (free, busy))
        for one, lease in found:
            assert (lease.table, lease.holder) == (one.table, "maintenance")
            store.release(lease)
        return [one.table for one, _ in found]

    assert leased() == [free.table]
    store.release(merge)
    assert leased() == [free.table, busy.table]
