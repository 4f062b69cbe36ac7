"""What a table's page says of the last comparison of source and lake: the last one, whoever made it, and what has been tried since."""

from datetime import UTC, datetime, timedelta

import pytest

from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.base import TableOverview
from cdc_ops.state.notices.alerts import Finding, Subject
from cdc_ops.state.table_run import RunMessages, RunResult, RunTiming, TableRun, TableRunStatus
from cdc_ops.web.table_health import comparisons
from cdc_ops.web.view import PipelineInfo, TableRow, table_row

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ORDERS, ITEMS = TableName(schema="shop", name="orders"), TableName(schema="shop", name="items")


def table(compared: int | None = None) -> TableRow:
    state = TableState(pipeline="shop", table=ORDERS, compared_at=None if compared is None else NOW - timedelta(hours=compared))
    return table_row(TableOverview(state=state, stats=None, last_run=None, lease=None), PipelineInfo(), NOW)


def run(hours: int, status: TableRunStatus, *, kind: OperationKind = OperationKind.RECONCILE, rows: int = 0, message: str = "") -> TableRun:
    at = NOW - timedelta(hours=hours)
    return TableRun(
        pipeline="shop",
        table=ORDERS,
        run_id=str(hours),
        trigger="manual",
        kind=kind,
        status=status,
        timing=RunTiming(started_at=at, finished_at=at if status.has_ended else None),
        result=RunResult(counts=Counts(updated=rows)),
        messages=RunMessages(message=message),
    )


def finding(hours: int, of: TableName = ORDERS, kind: AlertKind = AlertKind.VERIFICATION) -> Finding:
    text = f"Source and lake differ in {of}. Rows: 2 different."
    return Finding(subject=Subject(pipeline="shop", table=of, kind=kind), text=text, found_at=NOW - timedelta(hours=hours))


EQUAL = "reconcile found no difference"
REPAIRED = "reconcile found 3 rows that differed, and repaired them"
VERIFIED = "verify: Source and lake differ in shop.orders. Rows: 2 different."
FAILED = "reconcile failed: Too many deletes."
IDLE, COMMITTED, BROKEN = TableRunStatus.IDLE, TableRunStatus.COMMITTED, TableRunStatus.FAILED
REFUSED = run(1, BROKEN, message="Too many deletes.\nwhy: a limit")


@pytest.mark.parametrize(
    ("runs", "findings", "words"),
    [
        ((), (), []),
        ((run(1, COMMITTED, kind=OperationKind.INCREMENT),), (), []),
        ((run(1, IDLE), run(9, COMMITTED, rows=3)), (), [EQUAL]),
        ((run(1, COMMITTED, rows=3),), (), [REPAIRED]),
        ((REFUSED, run(9, IDLE)), (), [FAILED, EQUAL]),
        ((REFUSED,), (), [FAILED]),
        ((run(5, IDLE),), (finding(2),), [VERIFIED]),
        ((run(2, IDLE),), (finding(5),), [EQUAL]),
        ((REFUSED, run(9, IDLE)), (finding(5),), [FAILED, VERIFIED]),
        ((), (finding(1, ITEMS), finding(2, kind=AlertKind.DELETES)), []),
        ((run(1, TableRunStatus.LANDED), run(2, IDLE)), (), ["reconcile has begun, and has not ended", EQUAL]),
    ],
)
def test_the_last_verdict_is_shown_and_what_was_tried_since(
    runs: tuple[TableRun, ...], findings: tuple[Finding, ...], words: list[str]
) -> None:
    found = comparisons(table(), runs, findings)
    assert [one.words for one in found] == words
    assert [one.at for one in found] == sorted((one.at for one in found), reverse=True)
    assert [one.is_bad for one in found] == [text in (FAILED, VERIFIED) for text in words]


def test_a_table_without_cursor_is_compared_by_every_run() -> None:
    whole = "compared as a whole, because the table has no cursor"
    assert [one.words for one in comparisons(table(3), (run(9, IDLE),), ())] == [whole]
    assert [one.words for one in comparisons(table(3), (REFUSED,), ())] == [FAILED, whole]
