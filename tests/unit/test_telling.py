"""Asset events chain up: each begins where the one before it ended."""

from datetime import UTC, datetime

from cdc_ops.core.operations import OperationKind
from cdc_ops.core.tables import TableName
from cdc_ops.state.base import TableRun, TableRunStatus
from cdc_ops.steps.telling import told_before


def line(
    run_id: str, status: TableRunStatus, version: int | None = None, *, told: int | None = None, trigger: str = "scheduled"
) -> TableRun:
    return TableRun(
        pipeline="shop",
        table=TableName(schema="shop", name="orders"),
        run_id=run_id,
        trigger=trigger,
        kind=OperationKind.INCREMENT,
        status=status,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        delta_version=version,
        told_before=told,
    )


OWN = line("own", TableRunStatus.PLANNED)
IDLE = line("idle", TableRunStatus.IDLE)
COMMITTED = line("before", TableRunStatus.COMMITTED, 7, told=5)


def test_a_first_load_has_told_nothing_before() -> None:
    assert told_before([OWN], "own", None) is None
    assert told_before([OWN, line("lost", TableRunStatus.FAILED)], "own", None) is None


def test_an_event_begins_where_the_one_before_it_ended() -> None:
    assert told_before([OWN, COMMITTED], "own", 8) == 7
    assert told_before([OWN, IDLE, IDLE, COMMITTED], "own", 8) == 7
    assert told_before([OWN, IDLE, IDLE], "own", 8) == 8, "the line of its last commit is older than those that are looked at"


def test_what_no_event_has_told_of_is_told_by_the_next_one() -> None:
    assert told_before([OWN, line("failed", TableRunStatus.FAILED, 7, told=5)], "own", 7) == 5
    assert told_before([OWN, line("shell", TableRunStatus.COMMITTED, 7, told=5, trigger="cli")], "own", 7) == 5


def test_a_commit_step_that_is_tried_again_tells_the_same() -> None:
    assert told_before([line("own", TableRunStatus.COMMITTED, 9, told=7), COMMITTED], "own", 9) == 7
