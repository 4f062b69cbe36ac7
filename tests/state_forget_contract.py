"""What a ledger promises of a pipeline that is gone; a part of `StateContract`."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.errors import LeaseHeldError
from cdc_ops.state.db import schema
from cdc_ops.state.notices.alerts import Finding, NotifiedAlert, Subject
from cdc_ops.state.sql import SqlStateStore
from tests.state_values import NOON, ORDERS, PIPELINE, TTL, LedgerFixtures, fresh, make_operation, run, take


class ForgetContract(LedgerFixtures):
    """The tests."""

    def test_everything_of_a_pipeline_is_forgotten_and_nothing_of_another(self, url: str, store: SqlStateStore) -> None:
        lease = take(store)
        store.freeze(lease, fresh(), (make_operation(1),))
        with pytest.raises(LeaseHeldError):
            take(store, "who waits")
        store.release(lease)
        for pipeline in (PIPELINE, "other"):
            finding = Finding(subject=Subject(pipeline=pipeline, table=None, kind=AlertKind.FAILURE), text="no", found_at=NOON)
            store.put_finding(finding)
            store.put_notified([NotifiedAlert(receiver="team", subject=finding.subject, what="no", first_at=NOON, last_at=NOON)])
            store.record(run("run-1", pipeline=pipeline))
            store.note_pipeline_file(pipeline, "a", "run-1")
        before = _rows(url)
        assert len({name for name, of in before if of == PIPELINE}) >= 7
        assert store.pipelines() == ("other", PIPELINE)
        assert store.forget(PIPELINE) == (ORDERS,)
        assert _rows(url) == {(name, of): count for (name, of), count in before.items() if of == "other"}
        assert (store.pipelines(), store.forget(PIPELINE)) == (("other",), ())
        assert store.table_state(PIPELINE, ORDERS) == fresh()

    def test_a_pipeline_whose_table_a_run_holds_is_not_forgotten(self, url: str, store: SqlStateStore) -> None:
        store.acquire(PIPELINE, replace(ORDERS, name="another"), "b", ttl=TTL, live=True)
        before = _rows(url)
        with pytest.raises(LeaseHeldError, match=r"another .* is held by b"):
            store.forget(PIPELINE)
        assert _rows(url) == before


def _rows(url: str) -> dict[tuple[str, str], int]:
    """How many rows each table has of each pipeline."""
    engine = sa.create_engine(url)
    found = dict[tuple[str, str], int]()
    with engine.connect() as connection:
        for table in schema.metadata.sorted_tables:
            if "pipeline" in table.c:
                counted = sa.select(table.c.pipeline, sa.func.count()).group_by(table.c.pipeline)
                found |= {(table.name, pipeline): count for pipeline, count in connection.execute(counted)}
    engine.dispose()
    return found
