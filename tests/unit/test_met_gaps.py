"""A run that meets a gap in an archive says so itself: its line, the list of gaps, the exit code. On a folder, without Spark."""

from contextlib import closing
from pathlib import Path

import pytest
import typer

from cdc_ops.cli.commands.pipelines import ARCHIVE_GAP, _exit_after
from cdc_ops.core.archive.completeness import GapRecord, GapStatus
from cdc_ops.core.pipeline.archive_config import OnGap
from cdc_ops.errors import ArchiveGapError
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.runs.run import RunReport
from tests.declared_world import DeclaredWorld


def gaps_of(world: DeclaredWorld) -> tuple[GapRecord, ...]:
    with closing(world.store()) as store:
        return store.archive_gaps("shop")


def exit_code_after(*runs: TableRun) -> int:
    try:
        _exit_after({"shop": RunReport(runs=runs, failures=(), warnings=())})
    except typer.Exit as left:
        return left.exit_code
    return 0


@pytest.fixture
def world(tmp_path: Path) -> DeclaredWorld:
    """A table whose archive misses the offsets 2 and 3: only what is in the first file tells that."""
    world = DeclaredWorld(tmp_path)
    world.archive(0, "{}\n{}\n")
    world.archive(4)
    return world


def test_the_run_that_meets_a_gap_says_so_and_the_list_of_gaps_has_it_at_once(world: DeclaredWorld) -> None:
    run = world.run()
    assert run.status is TableRunStatus.COMMITTED
    assert "t/0: 2 up to, not including, 4" in run.messages.alert
    assert "cdc-ops gap list" in run.messages.alert
    assert run.waits_for_somebody
    assert exit_code_after(run) == ARCHIVE_GAP == 7
    assert [(record.status, record.gap.low, record.gap.high) for record in gaps_of(world)] == [(GapStatus.OPEN, (2,), (4,))]
    with pytest.raises(ArchiveGapError):
        world.plan()


def test_a_gap_that_the_plan_sees_is_said_once_by_the_run_that_reads_what_comes_before_it(world: DeclaredWorld) -> None:
    world.run()
    world.archive(2)  # half of what was missing
    plan = world.plan(freeze=False)
    assert "t/0: 3 up to, not including, 4" not in plan.alert  # nobody knows yet how far the file goes
    run = world.run()
    assert run.messages.alert.count("has a gap") == 1
    assert "t/0: 3 up to, not including, 4" in run.messages.alert
    assert [(record.gap.low, record.gap.high) for record in gaps_of(world)] == [((3,), (4,))]


def test_a_gap_that_closes_leaves_the_list_with_the_run_that_reads_the_missing_file(world: DeclaredWorld) -> None:
    world.run()
    world.archive(2, "{}\n{}\n")
    run = world.run()
    assert (run.messages.alert, run.waits_for.missing, gaps_of(world)) == ("", None, ())
    assert exit_code_after(run) == 0


def test_an_accepted_gap_leaves_the_list_when_it_is_passed_and_stays_accepted_if_the_lake_is_set_back(world: DeclaredWorld) -> None:
    world.run()
    [record] = gaps_of(world)
    with closing(world.store()) as store:
        store.accept_gap("shop", record.gap_id, who="ops", why="the topic had expired")
    run = world.run()
    assert (run.messages.alert, exit_code_after(run), gaps_of(world)) == ("", 0, ())
    with closing(world.store()) as store:
        lease = store.acquire("shop", run.table, "a", ttl=world.ttl, live=True)
        [again] = store.report_gaps(lease, [record.gap])
    assert (again.status, again.decision and again.decision.who) == (GapStatus.ACCEPTED, "ops")


def test_where_the_next_run_heals_a_gap_nobody_is_called_but_the_run_says_it(world: DeclaredWorld) -> None:
    world.on_gap = OnGap.RECONCILE
    run = world.run()
    assert "The next run compares the table with its source" in run.messages.alert
    assert not run.waits_for_somebody
    assert exit_code_after(run) == 0
