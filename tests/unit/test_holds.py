"""When a writer that holds the watermark back is worth an alert."""

from datetime import UTC, datetime, timedelta

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.held_watermark import long_transaction_alert
from cdc_ops.core.cursor.windows import SafeBound

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
