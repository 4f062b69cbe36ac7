"""What is asked of a scan of archived files, and what it says of each: JSON between the driver and the workers. Spark-free."""

from dataclasses import dataclass

from cdc_ops.core.archive.binlog_facts import BinlogFacts
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.pipeline.unknown_tables import KnownTables
from cdc_ops.core.schema.tables import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """One file to scan.

    Args:
        path: Relative to the archive.
        size: Bytes, as listed.
        start_offset: Kafka's offset of the first record, -1 if it is not known.
        first_line: Records before it are counted only: the table has them.
        newest: The place of the newest change of the file's stream before this batch; () if there is none.
        table: Whose events are wanted: the number of a `ScanTask`.
    """

    path: str
    size: int
    start_offset: int = -1
    first_line: int = 0
    newest: tuple[int, ...] = ()
    table: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTasks:
    """One file, once for each table that wants its events."""

    files: tuple[FileTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """What is wanted of a table, whatever the file.

    Args:
        url: The archive.
        options: Of its store.
        format: The format's options from the pipeline file.
        schema: The table.
        keys: The columns that identify a row.
        folder: Where the results go.
        buckets: Into how many parts the keys are split.
        early: Rows of a key that a later one in the same file replaces may be left out.
        known: Of tables that are not known all records are left to the exact way; None = they are nobody's business.
    """

    url: str
    options: tuple[tuple[str, str], ...]
    format: FormatOptions
    schema: TableSchema
    keys: tuple[str, ...]
    folder: str
    buckets: int
    early: bool
    known: KnownTables | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainPart:
    """A file of plain events: its name, its size in bytes, and which bucket each of its row groups is of."""

    name: str
    size: int
    buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedPart:
    """A file of lines that are not plain: its name, its size in bytes, how many lines it has."""

    name: str
    size: int
    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the plain events of a file show; places are numbers, most significant first, moments texts in UTC, "" for none.

    Args:
        events: How many they are.
        last: The latest time of the source.
        lowest: The smallest place.
        place: The largest place among changes that no snapshot read.
        at: The latest time among those.
        behind: Those below the newest one before this batch.
        behind_at: The latest time among these.
    """

    events: int = 0
    last: str = ""
    lowest: tuple[int, ...] = ()
    place: tuple[int, ...] = ()
    at: str = ""
    behind: int = 0
    behind_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScan:
    """What a file holds.

    Args:
        path: Relative to the archive.
        lines: Its records, without empty lines at its end.
        blank: The empty lines among them.
        seen: What its plain events show.
        plain: Where they are.
        marked: Where its other lines are.
        failure: Why it could not be scanned, "" if it was.
        table: See `FileTask`.
        binlog: Of a binlog what it says of itself.
    """

    path: str
    lines: int = 0
    blank: int = 0
    seen: Seen = Seen()
    plain: tuple[PlainPart, ...] = ()
    marked: tuple[MarkedPart, ...] = ()
    failure: str = ""
    table: int = 0
    binlog: BinlogFacts | None = None
