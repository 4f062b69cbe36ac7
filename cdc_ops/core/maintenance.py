"""Maintenance: decides without Spark when OPTIMIZE and VACUUM are due, from the numbers that the last merge wrote to the ledger."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """The limits at which maintenance of a table is due.

    Args:
        enabled: Whether cdc-ops runs OPTIMIZE and VACUUM. `false` = somebody else maintains the table.
        min_small_files: OPTIMIZE runs when at least this many files were added since the last OPTIMIZE, and the files are small on average.
        target_file_bytes: Expected size of a data file, in bytes. Files count as small when their average size is below half of it.
        optimize_every: Shortest time between two runs of OPTIMIZE.
        vacuum_every: Shortest time between two runs of VACUUM. VACUUM runs only if there were commits since.
        retention: How long removed files stay for readers and time travel (`delta.deletedFileRetentionDuration`).
    """

    enabled: bool = True
    min_small_files: int = 32
    target_file_bytes: int = 128 * 1024 * 1024
    optimize_every: timedelta = timedelta(hours=1)
    vacuum_every: timedelta = timedelta(days=1)
    retention: timedelta = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStats:
    """The size of the Delta table after a merge or maintenance.

    Args:
        delta_version: Version they describe.
        files: Number of data files.
        size_bytes: Their size together.
        optimized_at: UTC time of the last OPTIMIZE, None if never.
        vacuumed_at: UTC time of the last VACUUM; before the first one, when the table was first seen.
        optimized_files: Number of files that the last OPTIMIZE left.
        commits_since_vacuum: Data commits since the last VACUUM.
    """

    delta_version: int
    files: int
    size_bytes: int
    optimized_at: datetime | None = None
    vacuumed_at: datetime | None = None
    optimized_files: int = 0
    commits_since_vacuum: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePlan:
    """The maintenance that is due for one table, and why."""

    optimize: bool = False
    vacuum: bool = False
    reasons: tuple[str, ...] = ()

    @property
    def due(self) -> bool:
        """True if any maintenance is due."""
        return self.optimize or self.vacuum


def plan_maintenance(policy: MaintenancePolicy, stats: TableStats | None, now: datetime) -> MaintenancePlan:
    """Returns the maintenance that is due.

    Args:
        policy: The table's policy.
        stats: The last known numbers, None for a table never merged.
        now: The ledger's clock, UTC.
    """
    if not policy.enabled or stats is None:
        return MaintenancePlan()
    reasons = []
    grown = stats.files - stats.optimized_files
    small = stats.files > 1 and stats.size_bytes < stats.files * policy.target_file_bytes // 2
    optimize = small and grown >= policy.min_small_files and _elapsed(stats.optimized_at, policy.optimize_every, now)
    if optimize:
        average = stats.size_bytes // max(stats.files, 1)
        reasons.append(f"{stats.files} files of {average} bytes on average, {grown} since the last OPTIMIZE")
    vacuum = stats.commits_since_vacuum > 0 and stats.vacuumed_at is not None and _elapsed(stats.vacuumed_at, policy.vacuum_every, now)
    if vacuum:
        reasons.append(f"{stats.commits_since_vacuum} commits since the last VACUUM")
    return MaintenancePlan(optimize=optimize, vacuum=vacuum, reasons=tuple(reasons))


def carry_over(previous: TableStats | None, seen: TableStats, now: datetime) -> TableStats:
    """Returns the statistics of a data commit, with the maintenance history of the statistics before it.

    Args:
        previous: The ledger's numbers, None for a new table.
        seen: Files and bytes after the commit.
        now: The ledger's clock, UTC.
    """
    if previous is None:
        return replace(seen, vacuumed_at=now, commits_since_vacuum=1)
    return replace(
        seen,
        optimized_at=previous.optimized_at,
        optimized_files=min(previous.optimized_files, seen.files),
        vacuumed_at=previous.vacuumed_at,
        commits_since_vacuum=previous.commits_since_vacuum + 1,
    )


def _elapsed(last: datetime | None, every: timedelta, now: datetime) -> bool:
    return last is None or now - last >= every
