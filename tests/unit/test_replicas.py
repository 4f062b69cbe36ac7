"""Which operations are read from a replica, and that none is before the replica has come so far; without servers."""

from dataclasses import replace
from datetime import timedelta

import pytest

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.reconcile.diff import CompareLevel, CompareSpec, DeleteGuard
from cdc_ops.errors import SourceBusyError
from cdc_ops.sources.base import Source, SourcePosition
from cdc_ops.steps.query.replica_reads import LOOK_AGAIN, ReplicaReads
from tests.operations import with_fields
from tests.state_values import make_operation as increment

CONFIG = SourceConfig(kind=SourceKind.MARIADB, connection="c", snapshot_connection="r", max_load_wait=timedelta(minutes=1))
PLAIN = with_fields(increment(1), window=Window(low=None, high=None))
CHUNK = with_fields(PLAIN, kind=OperationKind.SNAPSHOT_CHUNK, window=None)
COMPARED = with_fields(
    PLAIN,
    kind=OperationKind.RECONCILE,
    compare=CompareSpec(strength=CompareLevel.KEYS, buckets=None, readers=1, guard=DeleteGuard(max_ratio=1.0, max_rows=0), why=""),
)
FULL = with_fields(PLAIN, kind=OperationKind.RESYNC, mode=ApplyMode.OVERWRITE, window=None)
COLUMNS = with_fields(PLAIN, kind=OperationKind.BACKFILL, update_only=("note",), window=None)


class Server:
    """A source whose position grows with each question, and a replica that needs some looks for each position."""

    def __init__(self, looks: int = 0) -> None:
        self.config = CONFIG
        self.looks, self.asked, self.opened = looks, 0, 0
        self.left: dict[str, int] = {}
        self.seconds = 0.0
        self.closed = 0

    def position(self) -> SourcePosition:
        self.asked += 1
        return SourcePosition(server="s", at=str(self.asked))

    def has_applied(self, position: SourcePosition, within: timedelta) -> bool:
        left = self.left.setdefault(position.at, self.looks)
        self.left[position.at] = left - 1
        if left > 0:
            self.seconds += within.total_seconds()
        return left <= 0

    def close(self) -> None:
        self.closed += 1

    def replica(self) -> Source:
        self.opened += 1
        return self  # type: ignore[return-value]

    def reads(self) -> tuple[object, ReplicaReads]:
        main = Server()
        main.position = self.position  # type: ignore[method-assign]
        return main, ReplicaReads(main, self.replica, lambda: self.seconds)  # type: ignore[arg-type]


@pytest.mark.parametrize("operation", [CHUNK, COMPARED, FULL, COLUMNS], ids=["chunk", "compared", "full", "columns"])
def test_whole_tables_are_read_from_the_replica_once_it_has_applied_the_position_of_now(
    operation: Operation, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(looks=2)
    _, reads = server.reads()
    assert reads.source_of(operation) is server
    assert (server.asked, server.left) == (1, {"1": -1})
    assert caplog.messages == [
        f"{operation.table}: waits until the replica has applied position 1",
        f"{operation.table}: the replica has caught up after {2 * LOOK_AGAIN.total_seconds():.0f} s",
    ]
    reads.close()
    assert (server.opened, server.closed) == (1, 1)


@pytest.mark.parametrize("operation", [PLAIN, with_fields(COLUMNS, window=Window(low=None, high=None))], ids=["increment", "range"])
def test_windows_are_read_from_the_source_and_no_replica_is_opened(operation: Operation) -> None:
    server = Server()
    main, reads = server.reads()
    assert reads.source_of(operation) is main
    reads.close()
    assert (server.opened, server.asked, server.closed) == (0, 0, 0)


def test_chunks_of_a_snapshot_wait_once_and_other_operations_each_time(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    _, reads = server.reads()
    for operation in (CHUNK, CHUNK, FULL, COMPARED):
        assert reads.source_of(operation) is server
    assert (server.asked, server.opened) == (3, 1)
    assert caplog.messages == []


def test_a_replica_that_stays_behind_ends_the_try_and_can_be_tried_again() -> None:
    server = Server(looks=1000)
    _, reads = server.reads()
    with pytest.raises(SourceBusyError, match="is behind: it has not applied position 1 in 60 s") as caught:
        reads.source_of(CHUNK)
    assert caught.value.retryable


def test_without_a_replica_the_source_reads_everything() -> None:
    main = Server()
    assert ReplicaReads(main, None).source_of(CHUNK) is main  # type: ignore[arg-type,comparison-overlap]
    assert main.asked == 0


def test_the_replica_is_the_source_by_another_connection() -> None:
    assert CONFIG.replica == replace(CONFIG, connection="r", snapshot_connection="")
    assert replace(CONFIG, snapshot_connection="").replica is None
