"""The load guard and the lines of a snapshot's progress, without server or Spark."""

from datetime import timedelta
from typing import Any

import pytest

from cdc_ops.core import json_codec
from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.table_progress import SnapshotProgress
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.text import span_text
from cdc_ops.errors import SourceBusyError
from cdc_ops.steps.query.load_guard import LOOK_AGAIN_SECONDS, LoadGuard
from cdc_ops.steps.reporting.progress_lines import Pace, chunk_line, merge_line, rows_text
from tests.lake_case import Case
from tests.operations import with_fields

TABLE = TableName(schema="shop", name="orders")


class Server:
    """Runs as many statements as the list says, one number a look."""

    def __init__(self, running: list[int], **config: Any) -> None:
        self.config = SourceConfig(kind=SourceKind.MYSQL, connection="c", **config)
        self.looks = running
        self.slept = 0.0
        self.guard = LoadGuard(self, lambda: self.slept, self.sleep)  # type: ignore[arg-type]

    def running(self) -> int:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


def test_a_chunk_waits_until_the_load_has_passed_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    server = Server([9, 8, 5], max_threads_running=5)
    server.guard.wait(TABLE)
    assert server.slept == 2 * LOOK_AGAIN_SECONDS
    assert caplog.messages == [
        "shop.orders: waits, the source runs 9 statements, the limit is 5",
        "shop.orders: goes on after 4 s, the source runs 5 statements",
    ]


def test_a_load_that_stays_ends_the_try_and_can_be_tried_again() -> None:
    server = Server([6], max_threads_running=5, max_load_wait=timedelta(minutes=2))
    with pytest.raises(SourceBusyError, match="more than 5 statements for 2 min, at last 6") as caught:
        server.guard.wait(TABLE)
    assert caught.value.retryable
    assert server.slept == 120


def test_without_a_limit_the_server_is_not_asked(caplog: pytest.LogCaptureFixture) -> None:
    server = Server([])
    server.guard.wait(TABLE)
    assert caplog.messages == []


def test_the_limits_reach_the_job() -> None:
    config = SourceConfig(kind=SourceKind.MYSQL, connection="c", max_threads_running=3, max_load_wait=timedelta(seconds=90.5))
    assert json_codec.loads(SourceConfig, json_codec.dumps(config)) == config


def progress(done: int) -> SnapshotProgress:
    return SnapshotProgress(bound=CursorValue(parts=("1",)), done=done, total=10, rest="x", rows_done=done * 100_000, rows_total=1_000_000)


def test_a_line_per_chunk_says_rows_bytes_and_what_is_left() -> None:
    operation = with_fields(
        Case(root="x").operation(3), kind=OperationKind.SNAPSHOT_CHUNK, snapshot_before=progress(2), snapshot_after=progress(3)
    )
    pace = Pace()
    pace.add(Counts(read=100_000, bytes=5 * 1024**2), 10.0)
    line = chunk_line(operation, pace)
    assert line.endswith(": 3 of 10 parts, 300 k of about 1.0 M rows, 10 s, about 1 min 10 s left, 10,000 rows/s, 5 MiB written")
    last = chunk_line(with_fields(operation, snapshot_before=progress(9), snapshot_after=None), pace)
    assert ": 10 of 10 parts, 1.0 M of about 1.0 M rows" in last
    assert "left" not in last


def test_other_operations_and_tables_of_one_chunk_have_no_such_line() -> None:
    assert chunk_line(Case(root="x").operation(3), Pace()) == ""
    assert chunk_line(with_fields(Case(root="x").operation(1), kind=OperationKind.SNAPSHOT_CHUNK), Pace()) == ""


def test_spans_and_numbers_of_rows_are_written_for_people() -> None:
    assert [span_text(seconds) for seconds in (0, 59.6, 3599, 7325)] == ["0 s", "1 min", "59 min 59 s", "2 h 2 min"]
    assert [rows_text(rows) for rows in (7, 9_999, 10_000, 999_400, 5_040_000)] == ["7", "9,999", "10 k", "999 k", "5.0 M"]


def test_a_merge_says_how_many_rows_go_into_what() -> None:
    operation = Case(root="/lake").operation(3)
    assert (
        merge_line(with_fields(operation, delta_version_before=7), 1234)
        == f"{operation.table}: merges 1,234 rows into version 7 at {operation.target.path}"
    )
    assert merge_line(with_fields(operation, delta_version_before=None), 1).startswith(
        f"{operation.table}: merges 1 row into a new table at "
    )
