"""When a writer that holds the watermark back is worth an alert."""

from datetime import UTC, datetime, timedelta

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.held_watermark import long_transaction_alert
from cdc_ops.core.cursor.windows import SafeBound
from cdc_ops.core.operation.protocol.table_progress import TableProgress
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.table_run import RunTiming
from cdc_ops.steps.plan import TablePlan, line_of_plan
from cdc_ops.steps.planning.request import Draft

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
HERE = CursorValue(parts=("2026-01-31 10:00:00",))
HOUR = timedelta(hours=1)


def bound(held_since: datetime | None) -> SafeBound:
    by = "transaction 7 of app@10.0.0.1" if held_since else ""
    return SafeBound(
        value=HERE, clock=HERE, method="test", observed_at=NOON, held_by=by, held_since=held_since, held_hint="End it: KILL 7" if by else ""
    )


def test_what_holds_nothing_back_or_not_for_long_is_no_alert() -> None:
    assert long_transaction_alert(bound(None), HOUR) == ""
    assert long_transaction_alert(bound(NOON - HOUR), HOUR) == ""


def test_an_alert_names_the_writer_since_when_and_how_to_end_it() -> None:
    alert = long_transaction_alert(bound(NOON - timedelta(hours=2, minutes=5)), HOUR)
    assert "held back for 2:05:00 by transaction 7 of app@10.0.0.1, longer than 'long_transaction_alert' (1:00:00)" in alert
    assert "since 2026-01-31 09:55:00 UTC" in alert
    assert alert.endswith("End it: KILL 7")


def test_a_limit_of_zero_tells_of_every_writer() -> None:
    assert long_transaction_alert(bound(NOON - timedelta(seconds=1)), timedelta(0))


def test_the_line_of_a_run_names_the_writer_and_up_to_when_an_idle_table_is_complete() -> None:
    table = TableName(schema="shop", name="orders")
    config = TableConfig(pipeline="p", table=table, settings=TableSettings(), path="/lake/orders")
    before = TableState(pipeline="p", table=table, progress=TableProgress(fresh_at=NOON - HOUR))
    request, timing = RunRequest(run_id="r", trigger="cli", holder="cli:me"), RunTiming(started_at=NOON)
    held = TablePlan(config=config, state=before, new=Draft(idle="nothing new", bound=bound(NOON - HOUR), bound_advanced=False))
    line = line_of_plan(request, held, (), timing)
    assert (line.messages.held_by, line.result.fresh_at) == ("transaction 7 of app@10.0.0.1", NOON - HOUR)
    free = TablePlan(config=config, state=before, new=Draft(idle="nothing new", bound=bound(None)), fresh_at=NOON)
    line = line_of_plan(request, free, (), timing)
    assert (line.messages.held_by, line.result.fresh_at) == ("", NOON)
