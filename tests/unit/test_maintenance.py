"""When maintenance is due, decided from numbers."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cdc_ops.core import json_codec
from cdc_ops.core.layout.data_files import SizeClass
from cdc_ops.core.maintenance import Maintenance, MaintenancePolicy, TableStats, Upkeep, Vacuum, carry_over, plan_maintenance
from tests.operations import changed

NOW = datetime(2026, 1, 31, tzinfo=UTC)
MB = 1024 * 1024
POLICY = MaintenancePolicy()
SMALL_FILES = TableStats(delta_version=9, files=40, size_bytes=40 * MB, upkeep=Upkeep(vacuumed_at=NOW))
UNTIDY = changed(SMALL_FILES, vacuumed_at=NOW - timedelta(days=1), commits_since_vacuum=3)


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({}, True),
        ({"files": 7, "size_bytes": 7 * MB}, False),
        ({"files": 8, "size_bytes": 8 * MB}, True),
        ({"size_bytes": 40 * 8 * MB}, False),
        ({"size_bytes": 40 * 8 * MB - 40}, True),
        ({"optimized_at": NOW - timedelta(minutes=59)}, False),
        ({"optimized_at": NOW - timedelta(hours=1)}, True),
        ({"files": 0, "size_bytes": 0}, False),
    ],
)
def test_optimize_is_due_when_there_are_many_small_files(changes: dict[str, object], due: bool) -> None:
    plan = plan_maintenance(POLICY, changed(SMALL_FILES, **changes), NOW)
    assert plan.optimize is plan.due is due
    assert bool(plan.reasons) is due


def test_large_files_beside_small_ones_hide_nothing_and_count_for_nothing() -> None:
    large = SizeClass(files=9, bytes=9 * 1024 * MB)
    sizes = (SizeClass(files=31, bytes=31 * MB), large)
    stats = changed(SMALL_FILES, files=40, size_bytes=31 * MB + large.bytes, sizes=sizes)
    assert not plan_maintenance(replace(POLICY, min_small_files=40), stats, NOW).optimize
    assert not plan_maintenance(POLICY, stats, NOW).optimize, "a scan of 9 GiB opens 31 files besides for a hundredth of its time"
    grown = replace(stats, sizes=(SizeClass(files=300, bytes=300 * MB), large), size_bytes=300 * MB + large.bytes)
    assert plan_maintenance(POLICY, grown, NOW).optimize


@pytest.mark.parametrize(("deleted", "rows", "due"), [(0, None, False), (1, None, True), (124, 1000, False), (125, 1000, True)])
def test_files_are_looked_at_when_many_rows_are_deleted_or_when_nobody_knows_of_how_many(deleted: int, rows: int | None, due: bool) -> None:
    stats = changed(SMALL_FILES, files=2, size_bytes=80 * MB, deleted_rows=deleted, rows=rows)
    assert plan_maintenance(POLICY, stats, NOW).optimize is due


@pytest.mark.parametrize(
    ("age", "commits", "due"),
    [(timedelta(days=1), 3, Vacuum.LITE), (timedelta(hours=23), 3, Vacuum.NONE), (timedelta(days=9), 0, Vacuum.NONE)],
)
def test_vacuum_is_due_when_a_day_has_passed_and_something_was_rewritten(age: timedelta, commits: int, due: Vacuum) -> None:
    stats = changed(SMALL_FILES, files=1, vacuumed_at=NOW - age, vacuumed_fully_at=NOW - age, commits_since_vacuum=commits)
    assert plan_maintenance(POLICY, stats, NOW).vacuum is due


@pytest.mark.parametrize(("full", "due"), [(timedelta(days=6), Vacuum.LITE), (timedelta(days=7), Vacuum.FULL)])
def test_vacuum_lists_the_folder_once_a_week(full: timedelta, due: Vacuum) -> None:
    stats = changed(SMALL_FILES, vacuumed_at=NOW - timedelta(days=1), vacuumed_fully_at=NOW - full, commits_since_vacuum=1)
    assert plan_maintenance(POLICY, stats, NOW).vacuum is due


@pytest.mark.parametrize(
    ("every", "deleted", "due"), [(timedelta(0), 5, False), (timedelta(days=30), 5, True), (timedelta(days=31), 5, False)]
)
def test_deleted_rows_are_purged_where_that_is_asked_for(every: timedelta, deleted: int, due: bool) -> None:
    stats = changed(SMALL_FILES, files=1, deleted_rows=deleted, rows=10_000, purged_at=NOW - timedelta(days=30))
    plan = plan_maintenance(replace(POLICY, purge_every=every), stats, NOW)
    assert (plan.purge, plan.optimize, plan.due) == (due, False, due)
    assert not plan_maintenance(replace(POLICY, purge_every=every), replace(stats, deleted_rows=0), NOW).purge


def test_both_may_be_due_at_once_and_say_why() -> None:
    plan = plan_maintenance(POLICY, UNTIDY, NOW)
    assert plan.optimize
    assert plan.vacuum
    assert plan.reasons == ("40 small files with 40.0 MiB together", "3 commits since the last VACUUM")


@pytest.mark.parametrize(
    ("table", "target"), [(0, 32 * MB), (16 << 30, 32 * MB), (64 << 30, 128 * MB), (512 << 30, 1 << 30), (9 << 40, 1 << 30)]
)
def test_files_grow_with_the_table(table: int, target: int) -> None:
    assert POLICY.limits(table).target_bytes == target
    assert replace(POLICY, target_file_bytes=5).limits(table).target_bytes == 5


@pytest.mark.parametrize(("policy", "stats"), [(replace(POLICY, enabled=False), UNTIDY), (POLICY, None)])
def test_nothing_is_due_where_it_is_off_or_where_nothing_was_written(policy: MaintenancePolicy, stats: TableStats | None) -> None:
    assert not plan_maintenance(policy, stats, NOW).due


def test_the_first_commit_starts_the_clock_of_vacuum_and_purge() -> None:
    seen = carry_over(None, TableStats(delta_version=1, files=2, size_bytes=3), NOW)
    assert seen.upkeep == Upkeep(vacuumed_at=NOW, vacuumed_fully_at=NOW, purged_at=NOW, commits_since_vacuum=1)


UPKEEP = Maintenance(
    at=NOW, did="OPTIMIZE", files_before=41, files_after=8, bytes_before=220 * MB, bytes_after=210 * MB, rewritten_bytes=6 * MB,
    written_bytes=5 * MB, seconds=1.6,
)  # fmt: skip


def test_a_commit_carries_the_history_of_upkeep_on() -> None:
    kept = {"vacuumed_fully_at": NOW, "purged_at": NOW, "last_upkeep": UPKEEP, "upkeep_bytes": 7, "rows": 9}
    before = changed(UNTIDY, optimized_at=NOW, optimized_files=30, **kept)
    seen = carry_over(before, TableStats(delta_version=10, files=20, size_bytes=5, deleted_rows=3), NOW)
    assert seen == changed(before, delta_version=10, files=20, size_bytes=5, deleted_rows=3, optimized_files=20, commits_since_vacuum=4)
    assert carry_over(before, TableStats(delta_version=10, files=20, size_bytes=5, rows=8), NOW).rows == 8


def test_what_upkeep_did_is_said_in_one_line() -> None:
    assert UPKEEP.words == "OPTIMIZE: 41 files became 8 (210 MiB, was 220 MiB), 5.0 MiB written, 2 s"


def test_the_numbers_of_an_earlier_version_are_understood() -> None:
    old = '{"delta_version":3,"files":40,"size_bytes":41943040,"vacuumed_at":"2026-01-30T00:00:00+00:00","commits_since_vacuum":2}'
    plan = plan_maintenance(POLICY, json_codec.loads(TableStats, old), NOW)
    assert (plan.optimize, plan.vacuum) == (True, Vacuum.LITE)
    assert json_codec.loads(TableStats, json_codec.dumps(changed(UNTIDY, last_upkeep=UPKEEP))).upkeep.last_upkeep == UPKEEP
