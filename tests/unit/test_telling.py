"""What has been told already: asset events chain up, and a warning is not repeated."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.run_request import RunKind, RunRequest
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.sql import open_store
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.plan import line_of_plan
from cdc_ops.steps.reporting.warned_before import last_announced_version, unchanged_text, warned_before
from tests.declared_world import DeclaredWorld
from tests.operations import changed, made


def line(
    run_id: str, status: TableRunStatus, version: int | None = None, *, told: int | None = None, trigger: str = "scheduled"
) -> TableRun:
    return made(
        TableRun,
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
    assert last_announced_version([OWN], "own") is None
    lost = line("lost", TableRunStatus.FAILED)
    assert last_announced_version([OWN, lost], "own") is None
    assert last_announced_version([OWN, IDLE, lost], "own") is None, "the first load is in the lake, and its commit task has failed"


def test_an_event_begins_where_the_one_before_it_ended() -> None:
    assert last_announced_version([OWN, COMMITTED], "own") == 7
    assert last_announced_version([OWN, IDLE, IDLE, COMMITTED], "own") == 7


def test_what_no_event_has_told_of_is_told_by_the_next_one() -> None:
    assert last_announced_version([OWN, line("failed", TableRunStatus.FAILED, 7, told=5)], "own") == 5
    assert last_announced_version([OWN, line("shell", TableRunStatus.COMMITTED, 7, told=5, trigger="cli")], "own") == 5
    assert last_announced_version([OWN, changed(COMMITTED, silent=True)], "own") == 5


def test_what_a_silent_run_has_committed_is_told_after_any_number_of_idle_runs(tmp_path: Path) -> None:
    world = DeclaredWorld(tmp_path)
    world.archive(0)
    first = changed(world.run(), trigger="scheduled")
    world.archive(1)
    silent = changed(world.run(), trigger="backfill", silent=True, told_before=first.result.delta_version)
    idle = [
        changed(IDLE, run_id=f"idle-{number}", started_at=silent.timing.started_at + timedelta(microseconds=number + 1))
        for number in range(60)
    ]
    with closing(world.store()) as store:
        for run in (first, silent, *idle):
            store.record(run)
    world.archive(2)
    assert silent.result.delta_version != first.result.delta_version
    assert world.run().events.told_before == first.result.delta_version


def test_a_silent_run_that_finishes_an_increment_of_another_run_is_told(tmp_path: Path) -> None:
    world = DeclaredWorld(tmp_path)
    world.archive(0)
    plan = world.plan()
    request = RunRequest(run_id="b", trigger="backfill", holder="b", kind=RunKind.BACKFILL, silent=True)
    timing = OWN.timing
    assert plan.operations
    assert line_of_plan(request, plan, (), timing).events.silent is False
    again = tuple(replace(operation, kind=OperationKind.BACKFILL) for operation in plan.operations)
    only_again = replace(plan, unfinished=(), new=replace(plan.new, operations=again))
    assert line_of_plan(request, only_again, (), timing).events.silent is True
    assert line_of_plan(replace(request, silent=False), only_again, (), timing).events.silent is False
    assert line_of_plan(request, replace(only_again, unfinished=plan.operations), (), timing).events.silent is False


def test_a_commit_step_that_is_tried_again_tells_the_same() -> None:
    assert last_announced_version([line("own", TableRunStatus.COMMITTED, 9, told=7), COMMITTED], "own") == 7


def test_a_warning_is_old_if_the_run_before_this_one_gave_it(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'ledger.db'}")
    name = OWN.table
    store.release(store.acquire("shop", name, "test", ttl=timedelta(minutes=1), live=True))
    assert warned_before(store, "shop", name, "first") == ()
    store.record(changed(OWN, run_id="first", warnings=("no index", "no zone")))
    assert warned_before(store, "shop", name, "first") == (), "a step that is done again tells its own run's warnings again"
    later = OWN.timing.started_at + timedelta(minutes=1)
    store.record(changed(OWN, run_id="second", started_at=later, warnings=("no index",)))
    assert warned_before(store, "shop", name, "second") == ("no index", "no zone")
    assert warned_before(store, "shop", name, "third") == ("no index",), "what was gone for a run is new when it comes back"
    store.close()


def test_a_run_that_only_finishes_what_another_began_leaves_its_warnings_told(tmp_path: Path) -> None:
    world = DeclaredWorld(tmp_path)
    world.correct("min_file_age: 0s", "min_file_age: 0s, unrecognized_files: ignore")
    world.archive(0).with_name("notes.txt").write_text("")
    [text] = [text for text in world.plan().warnings if "names that nobody knows" in text]
    assert world.plan().warnings == (), "the archive was not looked at"
    assert world.run().messages.warnings == (text,)
    world.archive(1)
    plan = world.plan()
    assert plan.new.operations
    assert text in plan.warnings
    with closing(world.store()) as store:
        assert text in warned_before(store, "shop", plan.table, f"run-{world.runs}")


def test_unchanged_warnings_are_a_number() -> None:
    assert unchanged_text(0, "-v shows them") == ""
    assert unchanged_text(1, "-v shows them") == "1 earlier warning unchanged; -v shows them"
    assert unchanged_text(2, "-v shows them") == "2 earlier warnings unchanged; -v shows them"
