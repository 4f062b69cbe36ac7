"""What a ledger promises of a table that another pipeline takes over; a part of `StateContract`."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.errors import StaleStateError
from cdc_ops.state.db import schema
from cdc_ops.state.notices.alerts import Finding, NotifiedAlert, Subject
from cdc_ops.state.sql import SqlStateStore
from tests.state_values import NOON, ORDERS, PIPELINE, TTL, LedgerFixtures, fresh, make_operation, run, settle, take

NEW = "renamed"


class AdoptContract(LedgerFixtures):
    """The tests."""

    def test_all_that_is_known_of_a_table_goes_to_the_pipeline_that_takes_it(self, url: str, store: SqlStateStore) -> None:
        old = take(store)
        store.freeze(old, fresh(), (make_operation(1), make_operation(2)))
        state = settle(store, old, make_operation(1))
        for table, kind in ((ORDERS, AlertKind.FAILURE), (None, AlertKind.CATALOG)):
            finding = Finding(subject=Subject(pipeline=PIPELINE, table=table, kind=kind), text="no", found_at=NOON)
            store.put_finding(finding)
            store.put_notified([NotifiedAlert(receiver="team", subject=finding.subject, what="no", first_at=NOON, last_at=NOON)])
        store.record(run("run-1"))
        store.record(run("run-1", pipeline="other"))
        store.record(run("run-1", pipeline=NEW, message="refused"))  # a run of the new name that was refused the table
        others = _rows(url, "other")
        new = store.acquire(NEW, ORDERS, "a", ttl=TTL, live=True)
        store.adopt(old, new, replace(state, pipeline=NEW, op_seq=2))
        store.adopt_rest(PIPELINE, NEW)
        assert _rows(url, PIPELINE) == {}
        assert _rows(url, "other") == others
        assert store.table_state(NEW, ORDERS) == replace(state, pipeline=NEW, op_seq=2)
        assert store.stats(NEW, ORDERS) is not None
        assert [(one.pipeline, one.run_id, one.messages.message) for one in store.table_runs(NEW)] == [(NEW, "run-1", "")]
        assert {(one.subject.pipeline, one.subject.table) for one in store.findings(NEW)} >= {(NEW, ORDERS), (NEW, None)}
        assert {(one.subject.pipeline, one.subject.table) for one in store.notified_alerts(NEW)} == {(NEW, ORDERS), (NEW, None)}
        assert store.open_operations(NEW, ORDERS) == ()  # it was given up
        assert store.lease(NEW, ORDERS) is not None
        with pytest.raises(StaleStateError):
            store.renew(old, TTL)

    def test_what_the_new_pipeline_has_of_itself_stays(self, url: str, store: SqlStateStore) -> None:
        for pipeline, text in ((PIPELINE, "old"), (NEW, "new")):
            for kind in (AlertKind.FAILURE, AlertKind.SPACE)[: 2 if pipeline == PIPELINE else 1]:
                subject = Subject(pipeline=pipeline, table=None, kind=kind)
                store.put_finding(Finding(subject=subject, text=text, found_at=NOON))
        store.adopt_rest(PIPELINE, NEW)
        assert {(one.subject.kind, one.text) for one in store.findings(NEW)} == {(AlertKind.FAILURE, "new"), (AlertKind.SPACE, "old")}
        assert _rows(url, PIPELINE) == {}

    def test_the_versions_of_the_new_file_count_on_behind_those_of_the_old_one(self, url: str, store: SqlStateStore) -> None:
        for pipeline, texts in ((PIPELINE, ("one", "two")), (NEW, ("three", "four"))):
            for text in texts:
                store.note_pipeline_file(pipeline, text, "run-1")
        store.adopt_rest(PIPELINE, NEW)
        assert [(one.number, one.text) for one in store.pipeline_versions(NEW)] == [(4, "four"), (3, "three"), (2, "two"), (1, "one")]
        assert _rows(url, PIPELINE) == {}

    def test_without_both_leases_nothing_is_taken(self, url: str, store: SqlStateStore) -> None:
        old = take(store)
        store.record(run("run-1"))
        new = store.acquire(NEW, ORDERS, "a", ttl=TTL, live=True)
        store.release(new)
        before = _rows(url, PIPELINE)
        with pytest.raises(StaleStateError):
            store.adopt(old, new, replace(fresh(), pipeline=NEW))
        assert _rows(url, PIPELINE) == before


def _rows(url: str, pipeline: str) -> dict[str, int]:
    """How many rows each table has of a pipeline."""
    engine = sa.create_engine(url)
    found = dict[str, int]()
    with engine.connect() as connection:
        for table in schema.metadata.sorted_tables:
            if "pipeline" in table.c:
                count = connection.scalar(sa.select(sa.func.count()).select_from(table).where(table.c.pipeline == pipeline))
                found |= {table.name: count} if count else {}
    engine.dispose()
    return found
