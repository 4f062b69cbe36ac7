"""Operations of the log method: which archived files one reads, and what reading them showed. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.apply.scd import POSITION_TYPE
from cdc_ops.core.archive.file_names import FileName, IgnoredFile, UnrecognizedFile, parse_name
from cdc_ops.core.archive.files import ListedFile
from cdc_ops.core.archive.watermarks import AcceptedGap, ArchiveWatermark, Gap, OffsetRange
from cdc_ops.core.events.column_drift import NO_DRIFT, ColumnDrift
from cdc_ops.core.events.event_history import EventHistory
from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.pipeline.grouped import Grouped
from cdc_ops.core.pipeline.tables.unknown_tables import NONE_UNKNOWN, UnknownTables
from cdc_ops.core.schema.tables import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBatch:
    """What an operation reads of an archive; every try of it reads these files and no others.

    Args:
        archive: How.
        url: The folder of the table.
        files: The files, as they were when they were frozen, sorted by path.
        before: Up to where the table had everything when it was planned.
        decisions: Gaps that somebody has accepted.
        quarantine: Delta table for records that cannot be read, "" = they stop the operation.
        history: Where its events are kept; None = nowhere.
        unknown: Delta table for records of tables that the pipeline file does not speak of, if they are set aside; "" = another table that
            reads the same folder looks after them.
        again: No files are read: the records that were set aside in `quarantine` are, once more.
        renamed: Old and new names of columns, for events from before they were renamed.
        declared: All columns of the table by the pipeline file, where that is all that is known of it; what events have besides is told.
        stored: Columns that the lake has and the table has not (any more); events may speak of them, and they are not missing anywhere.
    """

    archive: ArchiveConfig
    url: str
    files: tuple[ListedFile, ...]
    before: ArchiveWatermark
    decisions: tuple[AcceptedGap, ...] = ()
    quarantine: str = ""
    history: EventHistory | None = None
    again: bool = False
    renamed: tuple[tuple[str, str], ...] = ()
    unknown: str = ""
    declared: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()

    def names(self) -> dict[str, FileName]:
        """Returns what the names of the files say, by path."""
        parsed = {file.path: parse_name(self.archive.files.layout, file.path, self.archive.files.template) for file in self.files}
        return {path: name for path, name in parsed.items() if not isinstance(name, IgnoredFile | UnrecognizedFile)}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCounts:
    """How many events and rows reading the files of an operation showed.

    Args:
        events: Changes among their records.
        partial: Rows of which not every column is known, because no event spoke of it.
        deletes: Rows that are gone.
        behind: Events below the newest one that the table had: delivered again, or late.
        quarantined: Records that are set aside, because they cannot be read or are of unknown tables.
        blank: Empty lines between records, of tools that write no records without a value.
    """

    events: int = 0
    partial: int = 0
    deletes: int = 0
    behind: int = 0
    quarantined: int = 0
    blank: int = 0


NO_EVENTS: Final = EventCounts()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBatchResult(Grouped):
    """What reading the files of an operation showed; it travels in the manifest.

    Args:
        watermark: Up to where the table has everything once the rows are merged.
        covers: What each file holds. Files behind a gap were counted, and not read.
        merged: Paths of the files whose events are in the rows.
        counts: How many events and rows.
        truncates: Positions at which the table was emptied, ascending: what the lake has from before them goes.
        ordered: The order of events holds across all that the archive has; False where it holds within a partition only, so that an event
            cannot be told to be older than a row.
        last_change: When the source made the newest of the changes, UTC; None if there was none.
        lowest: The smallest position among them; () if there was none.
        columns: What the events tell of the columns.
        unknown: What was found of tables that the pipeline file does not speak of; nothing where another table looks after them.
        gaps: What is missing behind the files that were merged, as far as their contents show it.
    """

    JSON_INLINE = ("counts",)
    watermark: ArchiveWatermark
    covers: tuple[OffsetRange, ...] = ()
    merged: tuple[str, ...] = ()
    counts: EventCounts = NO_EVENTS
    truncates: tuple[tuple[int, ...], ...] = ()
    ordered: bool = True
    last_change: datetime | None = None
    lowest: tuple[int, ...] = ()
    columns: ColumnDrift = NO_DRIFT
    unknown: UnknownTables = NONE_UNKNOWN
    gaps: tuple[Gap, ...] = ()


PRESENT: Final = "__cdc_present"
"""Column of a batch, never of a table: names of the columns that events spoke of; NULL where all of the row is known."""

REST_IS_NULL: Final = ""
"""Among the names in `PRESENT`: where the row is new, the columns that are not named are NULL; without it nobody knows them."""

LOG_COLUMNS: Final = tuple(
    Column(name=name, source_type="", delta_type=kind, nullable=True, expression="")
    for name, kind in ((DELETE_MARK, "boolean"), (PRESENT, "array<string>"), (SEQUENCE, POSITION_TYPE))
)
"""What is landed of events besides the values of a row."""
