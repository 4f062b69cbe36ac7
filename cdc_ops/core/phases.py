"""What a run spends its time on: the phases of a table's work, each with its seconds. Pure; `steps.reporting.stopwatch` measures.

Phases of a table do not overlap: what is measured within another phase is taken off it, so that they add up to the time that was worked.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass


class RunPhase(enum.StrEnum):
    """What was done, in the order in which a run does it."""

    IMPORTS = "imports"
    """Python starts and reads its modules, those of Spark included; once for all tables of a process."""
    PLAN = "plan"
    """The source or the lake is asked what there is to do, and operations are frozen in the ledger. No Spark."""
    LISTING = "listing"
    """The archive is listed."""
    SPARK_START = "start of Spark"
    """Spark starts; one start serves all tables of an application, and the report of each of them shows it."""
    WAITING = "waiting"
    """Other tables have the source's connections, or the source is too busy (`max_connections`, `max_threads_running`)."""
    COMPARING = "comparing"
    """Checksums of source and lake, and the search for the rows that differ."""
    SHARED_READING = "shared reading"
    """Files that several tables share are read once; each of these tables waits for it."""
    COUNTING = "counting"
    """Archived files are read: their records are counted and decoded."""
    READING = "source read"
    """Rows are read at the source and written as Parquet, in one Spark job."""
    LANDING = "landing"
    """What surrounds that job: the table's columns before and after it, the files' footers. Of an archive, what surrounds
    counting and fold."""
    FOLD = "fold"
    """Decoded events become one row per key (one row per change where versions are kept), written as Parquet."""
    COPY = "copy"
    """Rows go from the source straight into the Delta table, in one statement."""
    MERGE_SOURCE = "merge source"
    """Delta computes the changes and keeps them. Spark folds rows read by query and finds deletes within this job."""
    MERGE_SCAN = "merge scan"
    """Delta looks for the rows that the changes meet."""
    MERGE_REWRITE = "merge rewrite"
    """Delta writes the changes: new rows, and the deletion vectors or files of those that they replace."""
    MERGE = "merge"
    """The rest of the statement by which landed rows enter the Delta table: preparing and planning it, and its one commit."""
    STATISTICS = "statistics"
    """What the commit did, and the table's files and size, are read from the table's log."""
    CATALOG = "catalog"
    """Spark's catalog is told of a new table, or of its new columns."""
    COMMIT = "commit"
    """The ledger is brought up to the lake. No Spark."""


PLANNING = (RunPhase.PLAN, RunPhase.LISTING)
"""Phases that end before Spark is asked for anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSeconds:
    """The seconds of one phase, by a clock that only grows.

    Args:
        phase: What was done.
        seconds: How long.
    """

    phase: RunPhase
    seconds: float


NOT_WORK = (RunPhase.IMPORTS, RunPhase.SPARK_START, RunPhase.WAITING)
"""Phases that are no work on a table: all tables of an application share the start of Spark, and others hold up the rest."""


Phases = tuple[PhaseSeconds, ...]


def added(*parts: Iterable[PhaseSeconds]) -> Phases:
    """Returns the sums per phase, in the order in which a run goes through them.

    >>> one, two = PhaseSeconds(phase=RunPhase.MERGE, seconds=2), PhaseSeconds(phase=RunPhase.LANDING, seconds=1)
    >>> [(item.phase.value, item.seconds) for item in added((one,), (two, one))]
    [('landing', 1), ('merge', 4)]
    """
    found = [item for part in parts for item in part]
    sums = {phase: round(sum(item.seconds for item in found if item.phase is phase), 3) for phase in RunPhase}
    seen = {item.phase for item in found}
    return tuple(PhaseSeconds(phase=phase, seconds=seconds) for phase, seconds in sums.items() if phase in seen)


def total_seconds(phases: Iterable[PhaseSeconds]) -> float:
    """Returns the seconds of all phases."""
    return sum(item.seconds for item in phases)


def worked_seconds(phases: Iterable[PhaseSeconds]) -> float:
    """Returns the seconds of the work on a table itself.

    >>> worked_seconds([PhaseSeconds(phase=RunPhase.SPARK_START, seconds=9), PhaseSeconds(phase=RunPhase.MERGE, seconds=4)])
    4
    """
    return total_seconds(item for item in phases if item.phase not in NOT_WORK)


def phases_text(phases: Iterable[PhaseSeconds]) -> str:
    """Returns phases in words; "" for none.

    >>> phases_text([PhaseSeconds(phase=RunPhase.LANDING, seconds=1.24), PhaseSeconds(phase=RunPhase.MERGE, seconds=75)])
    'landing 1.2 s, merge 75.0 s'
    """
    return ", ".join(f"{item.phase} {item.seconds:,.1f} s" for item in phases)
