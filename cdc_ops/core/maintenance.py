"""Maintenance: decides without Spark when OPTIMIZE, PURGE and VACUUM are due, from the numbers that the last merge wrote to the ledger."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar, Final

from cdc_ops.core.layout.compaction import MOST_TIMES, Partitioning, Rewrite, RewriteLimits, joining, plan_rewrites
from cdc_ops.core.layout.data_files import OPEN_BYTES, DataFile, SizeClass
from cdc_ops.core.text import size_text, span_text

FILES_OF_A_TABLE: Final = 512
"""Data files that a table is meant to have before they become larger than the smallest target."""
SMALLEST_TARGET: Final = 32 << 20
LARGEST_TARGET: Final = 1 << 30
NEVER: Final = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """The limits at which maintenance of a table is due.

    Args:
        enabled: Whether cdc-ops runs OPTIMIZE and VACUUM. `false` = somebody else maintains the table.
        min_small_files: So many small files are put together, at least; of large tables up to 32 times as many. Files join in steps, so
            that a row is written again only when its file becomes four times as large.
        target_file_bytes: Size of the files that OPTIMIZE makes. Files below a quarter of it are small. 0 = by the size of the table: a
            512th of it, from 32 MiB to 1 GiB.
        max_deleted_share: OPTIMIZE writes files again of which more than this share of the rows is deleted, whatever their size, once
            these rows are 4 MiB of the table.
        max_bytes: Bytes that one run writes again of a table, at most; the newest partitions come first. 0 = no limit.
        max_duration: Time after which a run begins no further OPTIMIZE of a table. `0s` = no limit.
        optimize_every: Shortest time between two runs of OPTIMIZE.
        purge_every: How often deleted rows are removed from the files for good, whatever that costs (`REORG TABLE ... APPLY (PURGE)`); what
            they held is gone once VACUUM has removed the old files. `0s` = never.
        vacuum_every: Shortest time between two runs of VACUUM. VACUUM runs only if there were commits since.
        vacuum_full_every: How often VACUUM also lists the table's folder, to find files of killed writers. In between it goes by the
            table's log alone (LITE).
        retention: How long removed files stay for readers and time travel (`delta.deletedFileRetentionDuration`).
    """

    enabled: bool = True
    min_small_files: int = 8
    target_file_bytes: int = 0
    max_deleted_share: float = 0.25
    max_bytes: int = 50 << 30
    max_duration: timedelta = timedelta(minutes=30)
    optimize_every: timedelta = timedelta(hours=1)
    purge_every: timedelta = NEVER
    vacuum_every: timedelta = timedelta(days=1)
    vacuum_full_every: timedelta = timedelta(days=7)
    retention: timedelta = timedelta(days=7)

    def limits(self, table_bytes: int) -> RewriteLimits:
        """Returns when the files of a table of this size are worth to be written again."""
        by_size = min(max(table_bytes // FILES_OF_A_TABLE, SMALLEST_TARGET), LARGEST_TARGET)
        return RewriteLimits(
            min_small_files=self.min_small_files,
            target_bytes=self.target_file_bytes or by_size,
            max_deleted_share=self.max_deleted_share,
            max_bytes=self.max_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """What maintenance has done to a table.

    Args:
        at: When it ended, UTC.
        did: The statements, e.g. `OPTIMIZE, VACUUM LITE`.
        files_before, files_after: Data files of the table.
        bytes_before, bytes_after: Their size.
        rewritten_bytes: Of the files before, the bytes that were written again.
        written_bytes: Bytes that were written for them.
        seconds: How long it took.
    """

    at: datetime
    did: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rewritten_bytes: int
    written_bytes: int
    seconds: float

    @property
    def words(self) -> str:
        """What it did, e.g. `OPTIMIZE: 41 files became 8 (210 MiB, was 214 MiB), 5.1 MiB written, 2 s`."""
        size = f"{size_text(self.bytes_after)}, was {size_text(self.bytes_before)}"
        files = f"{self.files_before:,} files became {self.files_after:,} ({size})"
        return f"{self.did}: {files}, {size_text(self.written_bytes)} written, {span_text(self.seconds)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What maintenance has done to a table so far.

    Args:
        optimized_at: UTC time of the last OPTIMIZE, None if never.
        optimized_files: Number of files that it left.
        vacuumed_at: UTC time of the last VACUUM; before the first one, when the table was first seen.
        vacuumed_fully_at: UTC time of the last VACUUM FULL; before the first one, when the table was first seen.
        purged_at: UTC time of the last PURGE; before the first one, when the table was first seen.
        commits_since_vacuum: Data commits since the last VACUUM.
        last_upkeep: What the last maintenance did, None if there was none.
        upkeep_bytes: Bytes that all maintenance has written.
    """

    optimized_at: datetime | None = None
    optimized_files: int = 0
    vacuumed_at: datetime | None = None
    vacuumed_fully_at: datetime | None = None
    purged_at: datetime | None = None
    commits_since_vacuum: int = 0
    last_upkeep: Maintenance | None = None
    upkeep_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStats:
    """The size of the Delta table after a merge or maintenance.

    Args:
        delta_version: Version they describe.
        files: Number of data files.
        size_bytes: Their size together.
        upkeep: What maintenance has done so far.
        sizes: The files by size, small ones first; () if that is not known.
        rows: Rows that the files hold, deleted ones included, when that was last known; None if it never was.
        deleted_rows: Of them, those that deletion vectors leave out.
        catalog: Fingerprint of what Spark's catalog was told of the table, "" if it was told nothing.
        exact_bounds: Whether it is known that the log's bounds of decimals are right; an earlier version wrote wrong ones.
    """

    JSON_INLINE: ClassVar[tuple[str, ...]] = ("upkeep",)
    delta_version: int
    files: int
    size_bytes: int
    upkeep: Upkeep = Upkeep()
    sizes: tuple[SizeClass, ...] = ()
    rows: int | None = None
    deleted_rows: int = 0
    catalog: str = ""
    exact_bounds: bool = False


class Vacuum(enum.StrEnum):
    """How VACUUM looks for files that no version needs any more."""

    NONE = ""
    """It does not run."""
    LITE = "lite"
    """By the table's log: those that were once in the table."""
    FULL = "full"
    """By the table's folder: those that never were, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePlan:
    """The maintenance that is due for one table, and why.

    Args:
        optimize: Whether files are written again.
        vacuum: How files are removed.
        purge: Whether deleted rows are removed from all files.
        reasons: Why, one sentence each.
        rewrites: The statements of `optimize`.
        max_duration: Time after which no further statement begins; 0 = no limit.
        bounds: Whether bounds of decimals are looked at, and corrected (`with_bounds`).
    """

    optimize: bool = False
    vacuum: Vacuum = Vacuum.NONE
    purge: bool = False
    reasons: tuple[str, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    max_duration: timedelta = NEVER
    bounds: bool = False

    @property
    def due(self) -> bool:
        """True if any maintenance is due."""
        return self.optimize or self.purge or bool(self.vacuum) or self.bounds

    @property
    def rewritten_bytes(self) -> int:
        """Bytes of the files that OPTIMIZE will write again."""
        return sum(rewrite.bytes for rewrite in self.rewrites)


def plan_maintenance(policy: MaintenancePolicy, stats: TableStats | None, now: datetime) -> MaintenancePlan:
    """Returns the maintenance that is due, as far as the ledger's numbers tell; `choose_files` says which files OPTIMIZE takes.

    Args:
        policy: The table's policy.
        stats: The last known numbers, None for a table never merged.
        now: The ledger's clock, UTC.
    """
    if not policy.enabled or stats is None:
        return MaintenancePlan()
    reasons, upkeep = [], stats.upkeep
    why = _worth(policy, stats) if _elapsed(upkeep.optimized_at, policy.optimize_every, now) else ""
    if why:
        reasons.append(why)
    vacuum = Vacuum.NONE
    if upkeep.commits_since_vacuum > 0 and upkeep.vacuumed_at is not None and _elapsed(upkeep.vacuumed_at, policy.vacuum_every, now):
        # A ledger of an earlier version does not know: every VACUUM was a full one then.
        full = _elapsed(upkeep.vacuumed_fully_at or upkeep.vacuumed_at, policy.vacuum_full_every, now)
        vacuum = Vacuum.FULL if full else Vacuum.LITE
        reasons.append(f"{upkeep.commits_since_vacuum} commits since the last VACUUM")
    since = upkeep.purged_at or upkeep.vacuumed_at
    purge = policy.purge_every > NEVER and stats.deleted_rows > 0 and since is not None and _elapsed(since, policy.purge_every, now)
    if purge:
        reasons.append(f"{stats.deleted_rows:,} deleted rows are still in the files")
    return MaintenancePlan(optimize=bool(why), vacuum=vacuum, purge=purge, reasons=tuple(reasons), max_duration=policy.max_duration)


def with_bounds(plan: MaintenancePlan) -> MaintenancePlan:
    """Returns a plan that also looks at the table's bounds of decimals, at once: until then they may hide rows from readers."""
    return replace(plan, bounds=True, reasons=(*plan.reasons, "an earlier version may have written wrong bounds of decimals"))


def choose_files(
    plan: MaintenancePlan, policy: MaintenancePolicy, files: Sequence[DataFile], divided: Partitioning, last: Maintenance | None = None
) -> MaintenancePlan:
    """Returns a plan with the statements of its OPTIMIZE, without OPTIMIZE if no file is worth it.

    Args:
        plan: What is due by the ledger's numbers.
        policy: The table's policy.
        files: All data files of the table.
        divided: How the table is divided.
        last: What maintenance did last: how fast it was limits what fits into `max_duration`.
    """
    limits = policy.limits(sum(file.size for file in files))
    if policy.max_duration and last is not None and last.rewritten_bytes and last.seconds:
        fits = int(last.rewritten_bytes / last.seconds * policy.max_duration.total_seconds())
        limits = replace(limits, max_bytes=min(fits, limits.max_bytes or fits))
    rewrites = plan_rewrites(files, limits, divided)
    if not rewrites:
        return replace(plan, optimize=False, reasons=plan.reasons[1:])
    return replace(plan, rewrites=rewrites, reasons=(*(rewrite.words for rewrite in rewrites), *plan.reasons[1:]))


def carry_over(previous: TableStats | None, seen: TableStats, now: datetime) -> TableStats:
    """Returns the statistics of a data commit, with the maintenance history of the statistics before it.

    Args:
        previous: The ledger's numbers, None for a new table.
        seen: Files and bytes after the commit.
        now: The ledger's clock, UTC.
    """
    if previous is None:
        return replace(seen, upkeep=Upkeep(vacuumed_at=now, vacuumed_fully_at=now, purged_at=now, commits_since_vacuum=1))
    upkeep = previous.upkeep
    return replace(
        seen,
        rows=previous.rows if seen.rows is None else seen.rows,
        upkeep=replace(
            upkeep,
            optimized_files=min(upkeep.optimized_files, seen.files),
            commits_since_vacuum=upkeep.commits_since_vacuum + 1,
        ),
        catalog=previous.catalog,
    )


def _worth(policy: MaintenancePolicy, stats: TableStats) -> str:
    """Returns why OPTIMIZE may be worth it, "" if it cannot be."""
    limits = policy.limits(stats.size_bytes)
    # Numbers of an earlier version tell the average only.
    sizes = stats.sizes or (SizeClass(files=stats.files, bytes=stats.size_bytes),)
    count = joining((one.mean for one in sizes for _ in range(one.files)), limits)
    small = sum(one.files for one in sizes if one.mean < limits.small_bytes)
    if count or small >= limits.min_small_files * MOST_TIMES:
        size = sum(one.bytes for one in sizes if one.mean < limits.small_bytes)
        return f"{small} small files with {size_text(size)} together"
    # The rows may be spread evenly, or have been those of a few files: those tell.
    many = stats.rows is None or stats.deleted_rows >= stats.rows * policy.max_deleted_share / 2
    if stats.deleted_rows and many and stats.size_bytes >= OPEN_BYTES:
        return f"{stats.deleted_rows:,} deleted rows"
    return ""


def _elapsed(last: datetime | None, every: timedelta, now: datetime) -> bool:
    return last is None or now - last >= every
