"""When upkeep is due, decided from numbers."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cdc_ops.core.maintenance import MaintenancePolicy, TableStats, carry_over, plan_maintenance

NOW = datetime(2026, 1, 31, tzinfo=UTC)
MB = 1024 * 1024
POLICY = MaintenancePolicy()
SMALL_FILES = TableStats(delta_version=9, files=40, size_bytes=40 * MB, vacuumed_at=NOW)
UNTIDY = replace(SMALL_FILES, vacuumed_at=NOW - timedelta(days=1), commits_since_vacuum=3)


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({}, True),
        ({"files": 31, "size_bytes": 31 * MB}, False),
        ({"files": 32, "size_bytes": 32 * MB}, True),
        ({"size_bytes": 40 * 64 * MB}, False),
        ({"size_bytes": 40 * 64 * MB - 1}, True),
        ({"optimized_files": 9}, False),
        ({"optimized_files": 8}, True),
        ({"optimized_at": NOW - timedelta(minutes=59)}, False),
        ({"optimized_at": NOW - timedelta(hours=1)}, True),
        ({"files": 0, "size_bytes": 0}, False),
    ],
)
def test_optimize_is_due_when_many_small_files_have_come_since_the_last(changes: dict[str, object], due: bool) -> None:
    plan = plan_maintenance(POLICY, replace(SMALL_FILES, **changes), NOW)  # type: ignore[arg-type]
    assert plan.optimize is plan.due is due
    assert bool(plan.reasons) is due


@pytest.mark.parametrize(
    ("age", "commits", "due"), [(timedelta(days=1), 3, True), (timedelta(hours=23), 3, False), (timedelta(days=9), 0, False)]
)
def test_vacuum_is_due_when_a_day_has_passed_and_something_was_rewritten(age: timedelta, commits: int, due: bool) -> None:
    stats = replace(SMALL_FILES, files=1, vacuumed_at=NOW - age, commits_since_vacuum=commits)
    assert plan_maintenance(POLICY, stats, NOW).vacuum is due


def test_both_may_be_due_at_once_and_say_why() -> None:
    plan = plan_maintenance(POLICY, UNTIDY, NOW)
    assert plan.optimize
    assert plan.vacuum
    assert plan.reasons == ("40 files of 1048576 bytes on average, 40 since the last OPTIMIZE", "3 commits since the last VACUUM")


@pytest.mark.parametrize(("policy", "stats"), [(replace(POLICY, enabled=False), UNTIDY), (POLICY, None)])
def test_nothing_is_due_where_it_is_off_or_where_nothing_was_written(policy: MaintenancePolicy, stats: TableStats | None) -> None:
    assert not plan_maintenance(policy, stats, NOW).due


def test_the_first_commit_starts_the_clock_of_vacuum() -> None:
    seen = carry_over(None, TableStats(delta_version=1, files=2, size_bytes=3), NOW)
    assert (seen.vacuumed_at, seen.commits_since_vacuum) == (NOW, 1)


def test_a_commit_carries_the_history_of_upkeep_on() -> None:
    before = replace(UNTIDY, optimized_at=NOW, optimized_files=30)
    seen = carry_over(before, TableStats(delta_version=10, files=20, size_bytes=5), NOW)
    assert seen == replace(before, delta_version=10, files=20, size_bytes=5, optimized_files=20, commits_since_vacuum=4)
