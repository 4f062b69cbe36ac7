"""What extract and merge report of an operation: the manifest of what was landed, counts of rows, and the outcome. Pure."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from cdc_ops.core.cursor.late_rows import NONE_LATE, LateRows
from cdc_ops.core.events.column_drift import NO_DRIFT, ColumnDrift
from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.log_batch import LogBatchResult
from cdc_ops.core.phases import Phases
from cdc_ops.core.pipeline.grouped import Grouped
from cdc_ops.core.pipeline.tables.unknown_tables import NONE_UNKNOWN, UnknownTables
from cdc_ops.core.reconcile.key_buckets import BucketSelection
from cdc_ops.core.schema.value_policies import NOTHING_NULLIFIED, NullifiedValues


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Smallest and largest value of a key column in a batch, as Spark SQL literals, for file pruning."""

    column: str
    low: str
    high: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedFiles:
    """How much was landed.

    Args:
        rows, bytes, files: The rows.
        feed_files, feed_bytes: The feed of events, if the merge reads that too; 0 if it does not.
    """

    rows: int
    bytes: int
    files: int = 0
    feed_files: int = 0
    feed_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Grouped):
    """The last file of a landed window: it is written only when everything else is there.

    Args:
        operation_id: Whose rows.
        attempt: Folder name of the attempt that finished.
        landed: How much was landed.
        schema_fingerprint: Of the schema that was read.
        key_ranges: Per key column that can be pruned by.
        null_keys: Rows with NULL in a key column.
        nulled: Values that became NULL because nothing stored can hold them.
        scope: The part of the table that was found to differ and was read, for operations that compare.
        log: What reading an archive showed, for operations that do.
        quarantined: Rows that are to be set aside (`Operation.quarantine`).
        reread: Why the window was read again although it had been landed before, "" if it had not.
        wide: Columns of BIGINT UNSIGNED that were landed as DECIMAL(20,0), whatever the plan says of them.
    """

    JSON_INLINE = ("landed",)
    operation_id: str
    attempt: str
    landed: LandedFiles
    schema_fingerprint: str
    key_ranges: tuple[KeyRange, ...] = ()
    null_keys: int = 0
    nulled: NullifiedValues = NOTHING_NULLIFIED
    scope: BucketSelection | None = None
    log: LogBatchResult | None = None
    quarantined: int = 0
    reread: str = ""
    wide: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repairs:
    """What was done once more, or put right, because the first way did not hold.

    Args:
        reread: Why a window was read again although it had been landed, for each such window.
        widened: Columns whose BIGINT did not hold a value.
        not_by_tasks: Why Spark read rows once more to write them, because its tasks could not.
        corrected_bounds: Files whose entries in the table's log an earlier version had written wrong.
    """

    reread: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()
    not_by_tasks: tuple[str, ...] = ()
    corrected_bounds: int = 0

    @classmethod
    def total(cls, parts: Iterable["Repairs"]) -> "Repairs":
        """Returns what was put right in all parts together; each reason and column once."""
        found = tuple(parts)
        return cls(
            reread=tuple(dict.fromkeys(why for one in found for why in one.reread)),
            widened=tuple(dict.fromkeys(name for one in found for name in one.widened)),
            not_by_tasks=tuple(dict.fromkeys(why for one in found for why in one.not_by_tasks)),
            corrected_bounds=sum(one.corrected_bounds for one in found),
        )

    @property
    def warning(self) -> str:
        """What the run says of it, "" if there was nothing."""
        reread = "; ".join(f"the landed rows were damaged ({why}), so the same window was read again" for why in self.reread)
        spark = "; ".join(f"Spark read the rows once more and wrote them, because tasks could not ({why})" for why in self.not_by_tasks)
        wide = f"widened from BIGINT to DECIMAL(20,0), for values above 2^63 - 1: {', '.join(self.widened)}" if self.widened else ""
        return "; ".join(filter(None, (reread, spark, bounds_text(self.corrected_bounds), wide)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Rows of one operation: read, what they did to the table, which values became NULL, what was set aside, came late or lacks columns.

    In its JSON the fields of `repairs` stand beside the others.
    """

    JSON_INLINE: ClassVar[tuple[str, ...]] = ("repairs",)
    read: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    bytes: int = 0
    nulled: NullifiedValues = NOTHING_NULLIFIED
    quarantined: int = 0
    behind: int = 0
    columns: ColumnDrift = NO_DRIFT
    unknown: UnknownTables = NONE_UNKNOWN
    blank: int = 0
    repairs: Repairs = Repairs()

    def with_landed(self, manifest: Manifest) -> "Counts":
        """Returns the counts of a commit with what landing its rows has shown; of events, what was read is the events."""
        again = (manifest.reread,) if manifest.reread else ()
        counts = replace(self, nulled=manifest.nulled, quarantined=manifest.quarantined, repairs=replace(self.repairs, reread=again))
        if manifest.log is None:
            return counts
        events, log = manifest.log.counts, manifest.log
        counts = replace(counts, read=events.events, quarantined=events.quarantined, behind=events.behind, blank=events.blank)
        return replace(counts, unknown=log.unknown, columns=log.columns)

    @property
    def warning(self) -> str:
        """What the run says of values and records that are not in the table as they came, "" if there is nothing to say."""
        records = "record is" if self.quarantined == 1 else "records are"
        aside = f"{self.quarantined:,} {records} in quarantine: 'cdc-ops quarantine list' says why" if self.quarantined else ""
        behind = f"{self.behind:,} events are older than the newest that the table had, and changed nothing newer" if self.behind else ""
        lines = "line of the files is" if self.blank == 1 else "lines of the files are"
        blank = f"{self.blank:,} {lines} empty, where the tool writes none: they count as records and change nothing" if self.blank else ""
        texts = (self.repairs.warning, self.nulled.warning, aside, behind, blank, self.unknown.warning, self.columns.warning)
        return "; ".join(filter(None, texts))


def bounds_text(files: int) -> str:
    """Returns what a run says of files whose bounds of decimals it has corrected in the table's log, "" if there were none.

    >>> bounds_text(1)
    "the Delta log's bounds of decimals were wrong for 1 data file, by an earlier version, and are corrected: see docs/recover.md"
    """
    which = f"{files:,} data file{'' if files == 1 else 's'}"
    said = f"the Delta log's bounds of decimals were wrong for {which}, by an earlier version, and are corrected: see docs/recover.md"
    return said if files else ""


class Outcome(enum.StrEnum):
    """How an operation ended in the lake."""

    LANDED = "landed"
    """Extracted to staging; nothing committed yet."""
    APPLIED = "applied"
    """This try committed it."""
    ALREADY_APPLIED = "already-applied"
    """An earlier try had committed it; the table was left alone."""
    UNCHANGED = "unchanged"
    """Source and lake were compared and are the same: there is no commit, and the number is burnt."""
    NUMBER_TAKEN = "number-taken"
    """Another operation had committed under the same number: this one is discarded, and the state is rebuilt from the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """What Spark did with one operation."""

    op_seq: int
    operation_id: str
    outcome: Outcome
    delta_version: int | None = None
    counts: Counts = Counts()
    stats: TableStats | None = None
    seconds: float = 0.0
    late: LateRows = NONE_LATE
    phases: Phases = ()
    """What the seconds were spent on."""
