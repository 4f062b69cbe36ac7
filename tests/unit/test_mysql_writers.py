"""What MySQL's listing of transactions says of one without a connection: when it began, or that nobody knows."""

from datetime import UTC, datetime, timedelta

import pytest

from cdc_ops.sources.mysql.bounds.open_transactions import _transaction_writer

BORN = datetime(2026, 2, 1, tzinfo=UTC)
RECOVERY = timedelta(minutes=20)
READY = BORN + RECOVERY
NOW = BORN + timedelta(hours=1)


@pytest.mark.parametrize(
    ("connection", "started", "ready", "known"),
    [
        (0, READY, READY, False),  # taken over by recovery, which took its time
        (0, READY - timedelta(seconds=1), READY, False),
        (0, READY + timedelta(seconds=1), READY, True),  # prepared right after it
        (0, READY + timedelta(minutes=5), None, False),  # nothing tells
        (7, READY, READY, True),
    ],
)
def test_what_recovery_took_over_has_no_known_start_however_long_recovery_took(
    connection: int, started: datetime, ready: datetime | None, known: bool
) -> None:
    row = {
        "trx_id": 1,
        "trx_mysql_thread_id": connection,
        "trx_rows_modified": 1,
        "trx_state": "RUNNING",
        "trx_query": None,
        "started": started.timestamp(),
    }
    assert _transaction_writer(row, {}, NOW, BORN, ready).start_known is known
