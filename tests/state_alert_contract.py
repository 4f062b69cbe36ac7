"""What a ledger promises of findings and of what receivers were told; a part of `StateContract`."""

from dataclasses import replace
from datetime import timedelta

from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.notices.alerts import Finding, NotifiedAlert, Subject
from cdc_ops.state.sql import SqlStateStore, open_reader
from tests.operations import changed
from tests.state_values import NOON, ORDERS, PIPELINE, LedgerFixtures, run

LINES = TableName(schema="shop", name="lines")
DELETES = Finding(subject=Subject(pipeline=PIPELINE, table=ORDERS, kind=AlertKind.DELETES), text="too many", found_at=NOON, run_id="run-1")
WHOLE = Finding(subject=Subject(pipeline=PIPELINE, table=None, kind=AlertKind.FAILURE), text="no table was read", found_at=NOON)


def told(finding: Finding, receiver: str = "on_call") -> NotifiedAlert:
    return NotifiedAlert(receiver=receiver, subject=finding.subject, what=finding.text, first_at=NOON, last_at=NOON, run_id=finding.run_id)


class AlertContract(LedgerFixtures):
    """The tests."""

    def test_a_finding_is_kept_replaced_and_dropped_by_its_subject(self, store: SqlStateStore) -> None:
        for finding in (DELETES, WHOLE, replace(DELETES, text="more than too many")):
            store.put_finding(finding)
        assert store.findings(PIPELINE) == (WHOLE, replace(DELETES, text="more than too many"))
        assert store.findings("other") == ()
        store.drop_findings(PIPELINE, LINES, AlertKind.DELETES)
        store.drop_findings(PIPELINE, ORDERS, AlertKind.VERIFICATION)
        assert len(store.findings(PIPELINE)) == 2
        store.drop_findings(PIPELINE, ORDERS, AlertKind.DELETES)
        store.put_finding(of_tasks := replace(WHOLE, subject=replace(WHOLE.subject, detail="tasks")))
        store.drop_findings(PIPELINE, None, AlertKind.FAILURE, detail="")
        assert store.findings(PIPELINE) == (of_tasks,)
        store.drop_findings(PIPELINE, None, AlertKind.FAILURE)
        assert store.findings(PIPELINE) == ()

    def test_what_a_receiver_was_told_is_kept_for_each_receiver_until_it_is_forgotten(self, url: str, store: SqlStateStore) -> None:
        first, second, whole = told(DELETES), told(DELETES, "team"), told(WHOLE)
        store.put_notified([first, second, whole])
        later = replace(first, last_at=NOON + timedelta(hours=1), run_id="run-9")
        store.put_notified([later])
        with open_reader(url) as reader:
            assert set(reader.notified_alerts(PIPELINE)) == {later, second, whole}
        store.forget_notified([first, whole])
        assert store.notified_alerts(PIPELINE) == (second,)

    def test_a_line_with_late_rows_or_changes_of_columns_is_a_finding_until_the_table_is_pruned(self, store: SqlStateStore) -> None:
        store.record(run("run-1"))
        assert store.findings(PIPELINE) == ()
        for number, changes in enumerate((("column a added",), ("column b added",), ("column b added",))):
            store.record(changed(run(f"run-{number}", NOON + timedelta(hours=number)), late_rows=number, schema_changes=changes))
        store.record(run("run-8", NOON + timedelta(hours=8)))
        store.put_finding(replace(DELETES, found_at=NOON - timedelta(days=9)))
        found = [(one.subject.kind, one.run_id) for one in store.findings(PIPELINE)]
        assert sorted(found) == [("deletes", "run-1"), ("late_rows", "run-2"), ("schema_change", "run-0"), ("schema_change", "run-2")]
        store.prune(PIPELINE, ORDERS, NOON + timedelta(hours=7))
        assert [one.subject.kind for one in store.findings(PIPELINE)] == [AlertKind.DELETES], "what lasts stays until somebody has acted"
