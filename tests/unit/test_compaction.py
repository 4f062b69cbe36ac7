"""Which files are worth to be written again, and that the bytes of maintenance stay in proportion to those of the batches."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cdc_ops.core.layout.compaction import NEVER, Partitioning, Rewrite, RewriteLimits, joining, plan_rewrites
from cdc_ops.core.layout.data_files import DataFile, size_classes
from cdc_ops.core.maintenance import Maintenance, MaintenancePlan, MaintenancePolicy, TableStats, choose_files, plan_maintenance
from tests.operations import changed

MB = 1 << 20
LIMITS = RewriteLimits(min_small_files=4, target_bytes=128 * MB, max_deleted_share=0.25)
PLAIN = Partitioning()


def files(*sizes: int) -> list[DataFile]:
    return [DataFile(size=size, rows=100) for size in sizes]


def worn(size: int, deleted: int) -> DataFile:
    return DataFile(size=size, rows=100, deleted=deleted, vector=True)


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ((), 0),
        ((1, 1, 1), 0),
        ((1, 1, 1, 1), 4),
        ((1, 1, 1, 1, 13), 4),
        ((1, 1, 1, 1, 4, 4, 4), 7),
        ((1, 1, 1, 1, 4, 4), 4),
        ((1, 1, 1, 1, 33 * MB), 4),
        ((33 * MB,) * 9, 0),
        ((10 * MB,) * 4, 4),
    ],
)
def test_small_files_join_where_the_result_is_four_times_as_large_as_the_largest(sizes: tuple[int, ...], count: int) -> None:
    assert joining(sizes, LIMITS) == count


def test_a_large_table_waits_for_more_small_files_and_for_no_more_than_32_times_as_many() -> None:
    small, large = [1] * 120, [1 << 30]
    assert joining([*small[:20], *large], LIMITS) == 0
    assert joining([*small, *large * 1_000], LIMITS) == 0
    assert joining([1] * 128 + large * 1_000, LIMITS) == 128


def test_files_of_one_size_join_together_or_not_at_all() -> None:
    [rewrite] = plan_rewrites(files(1, 1, 1, 1, 5, 5, 90 * MB), LIMITS, PLAIN)
    assert (rewrite.small_below, rewrite.files, rewrite.bytes) == (2, 4, 4)


def test_large_files_are_left_alone_until_enough_of_their_rows_are_deleted() -> None:
    assert plan_rewrites([worn(90 * MB, 25), worn(80 * MB, 25)], LIMITS, PLAIN) == ()
    [rewrite] = plan_rewrites([worn(90 * MB, 26), worn(80 * MB, 30), worn(70 * MB, 25)], LIMITS, PLAIN)
    assert (rewrite.small_below, rewrite.deleted_above, rewrite.files, rewrite.bytes) == (0, 0.25, 2, 170 * MB)
    assert rewrite.file_bytes == 170 * MB, "Delta writes a file again only together with another"
    assert rewrite.live_bytes == round(90 * MB * 0.74) + round(80 * MB * 0.7)


def test_a_single_file_is_not_written_again_because_delta_would_not_do_it() -> None:
    assert plan_rewrites([worn(90 * MB, 90), *files(80 * MB)], LIMITS, PLAIN) == ()


def test_a_budget_takes_the_files_with_the_most_deleted_rows() -> None:
    table = [worn(90 * MB, 30), worn(80 * MB, 60), worn(70 * MB, 50), worn(60 * MB, 40)]
    [rewrite] = plan_rewrites(table, replace(LIMITS, max_bytes=160 * MB), PLAIN)
    assert (rewrite.deleted_above, rewrite.bytes) == (0.4, 150 * MB)


def test_a_budget_holds_for_small_files_too() -> None:
    [rewrite] = plan_rewrites(files(*(10 * MB,) * 4, *(11 * MB,) * 4), replace(LIMITS, max_bytes=50 * MB), PLAIN)
    assert rewrite.bytes == 40 * MB


def test_the_newest_partitions_come_first_and_share_the_budget() -> None:
    divided = Partitioning(partition_by=(("day", "date"),))
    table = [DataFile(size=10 * MB, partition=(f"2026-01-0{day}",), modified=day) for day in (1, 2, 3) for _ in range(4)]
    rewrites = plan_rewrites(table, replace(LIMITS, max_bytes=90 * MB), divided)
    assert [rewrite.where for rewrite in rewrites] == [f"`day` = CAST('2026-01-0{day}' AS date)" for day in (3, 2)]


def test_a_table_of_many_partitions_is_maintained_though_each_has_few_small_files() -> None:
    limits = replace(LIMITS, min_small_files=10)
    divided = Partitioning(partition_by=(("day", "date"),))

    def table(days: int) -> list[DataFile]:
        return [DataFile(size=1, partition=(str(day),), modified=day) for day in range(days) for _ in range(5)]

    assert plan_rewrites(table(63), limits, divided) == ()
    assert len(plan_rewrites(table(64), limits, divided)) == 20


def test_the_condition_of_a_partition_quotes_what_it_holds() -> None:
    divided = Partitioning(partition_by=(("a`b", "string"), ("c", "int")))
    assert divided.condition(("it's \\", None)) == "`a``b` = CAST('it\\'s \\\\' AS string) AND `c` IS NULL"


def test_a_clustered_table_is_clustered_in_steps_and_never_as_a_whole_for_a_few_new_files() -> None:
    clustered = Partitioning(cluster_by=("id",))
    cube = [DataFile(size=50 * MB, rows=100, cube="a") for _ in range(4)]
    small = [DataFile(size=3 * MB, rows=100, cube="b")]
    assert plan_rewrites([*cube, *small, *files(1, 1, 1)], LIMITS, clustered) == ()
    [rewrite] = plan_rewrites([*cube, *small, *files(*(3 * MB,) * 4)], LIMITS, clustered)
    assert (rewrite.files, rewrite.bytes, rewrite.cube_bytes) == (5, 15 * MB, 3 * MB + 1)
    [rewrite] = plan_rewrites([*cube, *small, *files(*(1,) * 4)], LIMITS, clustered)
    assert (rewrite.files, rewrite.bytes) == (4, 4)


def test_a_clustered_part_joins_when_many_of_its_rows_are_deleted() -> None:
    old = [replace(worn(50 * MB, 60), cube="a"), replace(worn(50 * MB, 60), cube="b")]
    [rewrite] = plan_rewrites(old, LIMITS, Partitioning(cluster_by=("id",)))
    assert rewrite.files == 2


def optimized(found: list[DataFile], rewrite: Rewrite) -> list[DataFile]:
    """Returns the files that OPTIMIZE writes again, of those that it finds: a file that no other fits beside stays."""
    bins: list[list[DataFile]] = [[]]
    for file in sorted(found, key=lambda one: one.size):
        if sum(one.size for one in bins[-1]) + file.size > rewrite.file_bytes:
            bins.append([])
        bins[-1].append(file)
    return [file for one in bins if len(one) > 1 for file in one]


def kept(policy: MaintenancePolicy, batches: int, deleted: int) -> tuple[int, int, list[DataFile]]:
    """Applies batches of one file to a table of 8 large ones, and deletes rows of all files evenly; returns the bytes of both."""
    choice, table, written, upkeep = random.Random(1), [DataFile(size=15 * MB, rows=375_000) for _ in range(8)], 0, 0
    now, stats = datetime(2026, 1, 1, tzinfo=UTC), TableStats(delta_version=0, files=8, size_bytes=120 * MB)
    for batch in range(batches):
        size = choice.randint(50_000, 70_000)
        rows = sum(file.rows or 0 for file in table)
        table = [replace(file, deleted=file.deleted + round(deleted * (file.rows or 0) / rows), vector=True) for file in table]
        table.append(DataFile(size=size, rows=1_000, modified=batch))
        written, now = written + size, now + timedelta(minutes=15)
        gone = sum(file.deleted for file in table)
        stats = replace(
            stats, files=len(table), size_bytes=sum(f.size for f in table), sizes=size_classes(table), deleted_rows=gone, rows=rows
        )
        plan = plan_maintenance(policy, stats, now)
        plan = choose_files(plan, policy, table, PLAIN) if plan.optimize else plan
        for rewrite in plan.rewrites:
            taken = optimized(
                [file for file in table if file.size < rewrite.small_below or file.deleted_share > rewrite.deleted_above], rewrite
            )
            assert (len(taken), sum(file.size for file in taken)) == (rewrite.files, rewrite.bytes)
            live = sum((file.rows or 0) - file.deleted for file in taken)
            table = [file for file in table if not any(file is one for one in taken)]
            table.append(DataFile(size=rewrite.live_bytes, rows=live, modified=batch))
            upkeep, stats = upkeep + rewrite.live_bytes, changed(stats, optimized_at=now)
    return written, upkeep, table


@pytest.mark.parametrize(("batches", "most"), [(200, 3), (1_000, 5)])
def test_bytes_of_upkeep_are_a_few_times_those_of_the_batches_and_small_files_stay_few(batches: int, most: float) -> None:
    written, upkeep, table = kept(MaintenancePolicy(), batches, deleted=900)
    assert 0 < upkeep <= most * written
    assert sum(file.size < 8 * MB for file in table) < 8 + 3 * 4
    assert max(file.deleted_share for file in table) <= 0.3


SMALL = TableStats(delta_version=1, files=40, size_bytes=40, sizes=size_classes(files(*(1,) * 40)))


def test_a_plan_without_files_that_are_worth_it_has_no_optimize() -> None:
    policy, now = MaintenancePolicy(), datetime(2026, 1, 2, tzinfo=UTC)
    vacuum = changed(SMALL, vacuumed_at=datetime(2026, 1, 1, tzinfo=UTC), commits_since_vacuum=3)
    plan = plan_maintenance(policy, vacuum, now)
    assert plan.optimize
    found = choose_files(plan, policy, files(1, 1), PLAIN)
    assert (found.optimize, found.rewrites, found.reasons) == (False, (), ("3 commits since the last VACUUM",))


def test_a_plan_says_which_files_it_takes() -> None:
    found = choose_files(MaintenancePlan(optimize=True, reasons=("x",)), MaintenancePolicy(), files(*(1,) * 40, 90 * MB), PLAIN)
    assert (found.rewritten_bytes, found.reasons) == (40, ("40 files of 40 B, 40 of them small",))
    assert found.rewrites[0].deleted_above == 0.25 < NEVER


def test_what_a_run_writes_again_is_limited_by_the_time_that_the_last_one_took() -> None:
    last = Maintenance(
        at=datetime(2026, 1, 1, tzinfo=UTC), did="OPTIMIZE", files_before=2, files_after=1, bytes_before=1, bytes_after=1,
        rewritten_bytes=10 * MB, written_bytes=10 * MB, seconds=10,
    )  # fmt: skip
    policy = MaintenancePolicy(max_duration=timedelta(seconds=45), target_file_bytes=128 * MB)
    many = files(*(1 * MB,) * 40, *(1 * MB + 1,) * 40)
    due = MaintenancePlan(optimize=True, reasons=("x",))
    assert choose_files(due, policy, many, PLAIN).rewritten_bytes > 45 * MB
    assert choose_files(due, policy, many, PLAIN, last).rewritten_bytes == 40 * MB


def test_a_tiny_table_whose_rows_change_in_each_run_is_written_again_only_when_its_small_files_are_many() -> None:
    kept, optimized = [DataFile(size=6_000, rows=10)], 0
    policy = MaintenancePolicy()
    for _ in range(64):  # each run replaces half of the rows of each file
        kept = [replace(one, deleted=5, vector=True) for one in kept] + [DataFile(size=6_000, rows=10)]
        due = choose_files(MaintenancePlan(optimize=True, reasons=("x",)), policy, kept, PLAIN)
        if due.optimize:
            optimized += 1
            kept = [DataFile(size=6_000, rows=10)]
    assert optimized == 64 // (policy.min_small_files - 1)
    tiny = TableStats(delta_version=1, files=3, size_bytes=12_000, deleted_rows=10, rows=30)
    assert not plan_maintenance(policy, tiny, datetime(2026, 1, 1, tzinfo=UTC)).optimize, "its log is not even read"


def test_deleted_rows_of_many_small_partitions_are_counted_together() -> None:
    divided = Partitioning(partition_by=(("day", "date"),))
    days = [replace(worn(3 * MB, 50), partition=(f"2026-01-{day:02d}",)) for day in (1, 1, 2, 2)]
    assert len(plan_rewrites(days, LIMITS, divided)) == 2
    assert plan_rewrites(days[:2], LIMITS, divided) == ()
