"""What is asked of a scan of archived files: JSON between the driver and its tasks."""

from dataclasses import dataclass

from cdc_ops.core.events.ddl_changes import Renaming
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.pipeline.tables.unknown_tables import KnownTables
from cdc_ops.core.schema.tables import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownWatch:
    """What a table does about records of tables that the pipeline file does not name.

    Args:
        known: The tables that it names.
        url: The archive, as the pipeline file spells it: a table whose folder is another one is unknown here.
        keeps_raw: The records are set aside.
    """

    known: KnownTables
    url: str
    keeps_raw: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedArchive:
    """Where the files are, and what they hold.

    Args:
        url: The archive.
        options: Of its store.
        format: The format's options from the pipeline file.
    """

    url: str
    options: tuple[tuple[str, str], ...]
    format: FormatOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTask:
    """What is wanted of a table, whatever the file.

    Args:
        archive: Where the files are.
        schema: The table, as the source has it.
        keys: The columns that identify a row, in the order of the key.
        changes: Folder of the changes, by buckets of their keys.
        feed: Folder of the feed: of all rows, or of those that are to be set aside.
        buckets: Into how many parts the keys are split.
        keeps_all: All rows go to the feed, with their before images: for an event history, or what was set aside is read again.
        moves_leave: An update that changes a key deletes the row of the old key.
        renamed: Old and new names of columns from the pipeline file.
        renamings: The same from statements among the events.
        declared: Columns that the pipeline file declares; () where a source tells them, or a column has all of a document.
        watch: None = records of unknown tables are another table's business.
        again: What is read was set aside before; records of other tables are let go.
    """

    archive: ScannedArchive
    schema: TableSchema
    keys: tuple[str, ...]
    changes: str
    feed: str
    buckets: int = 1
    keeps_all: bool = False
    moves_leave: bool = True
    renamed: tuple[tuple[str, str], ...] = ()
    renamings: tuple[Renaming, ...] = ()
    declared: tuple[str, ...] = ()
    watch: UnknownWatch | None = None
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """One file, for one table.

    Args:
        path: Relative to the archive.
        size: Bytes, as listed.
        table: Whose events are wanted: the number of a `TableTask`.
        partition, start_offset: Kafka's partition and offset of the first record, None where its name does not tell them.
        first_line: Records before it are counted only: the table has them.
        newest: The place of the newest change of the file's stream before this batch; () if there is none.
    """

    path: str
    size: int
    table: int = 0
    partition: int | None = None
    start_offset: int | None = None
    first_line: int = 0
    newest: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTasks:
    """One file, once for each table that wants its events; or a part of a large one.

    Args:
        files: The file.
        start, stop: Bytes of the part; stop 0 = all of the file.
        first_line: Number of the part's first line.
    """

    files: tuple[FileTask, ...]
    start: int = 0
    stop: int = 0
    first_line: int = 0

    @property
    def path(self) -> str:
        """Where the file is, relative to the archive."""
        return self.files[0].path

    @property
    def size(self) -> int:
        """Its bytes, as listed."""
        return self.files[0].size
