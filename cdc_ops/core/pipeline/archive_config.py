"""The configuration of an archive of change events. Pure."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

from cdc_ops.core.archive.file_names import AIVEN_TEMPLATE, Layout
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.pipeline.grouped import Grouped
from cdc_ops.core.schema.tables import TableName


class OnUnrecognizedFile(enum.StrEnum):
    """The policy for files whose names the layout does not know."""

    FAIL = "fail"
    IGNORE = "ignore"


class InitialLoad(enum.StrEnum):
    """The initial load of a table that follows an archive."""

    ARCHIVE = "archive"
    """The first events of the archive; they must be the tool's snapshot, or the table's whole history."""
    SNAPSHOT = "snapshot"
    """The source's rows, by JDBC; then the events from the position that the archive had before the first row was read."""


class OnGap(enum.StrEnum):
    """The policy for a gap in an archive."""

    FAIL = "fail"
    """The table stops until the files arrive, or someone accepts the gap."""
    RECONCILE = "reconcile"
    """cdc-ops compares the table with its source, and continues after the gap."""


class OnBadRecord(enum.StrEnum):
    """The policy for a record that cannot be read exactly."""

    FAIL = "fail"
    """The table stops; nothing of the batch is written."""
    QUARANTINE = "quarantine"
    """The record goes to the quarantine with its bytes and the reason; the others are merged, and the run reports the number."""


class OnUnknownTable(enum.StrEnum):
    """The policy for records of tables that the pipeline file does not name."""

    IGNORE = "ignore"
    """The records are skipped; each run reports their number per table."""
    FAIL = "fail"
    """The tables that read the same folder stop; nothing of the batch is written."""
    QUARANTINE = "quarantine"
    """One table of the folder puts the records into its quarantine; the others skip them."""


class CopyCompression(enum.StrEnum):
    """How copies of binlogs are compressed."""

    NONE = "none"
    """Byte for byte what the server has."""
    GZIP = "gzip"
    ZSTD = "zstd"

    @property
    def suffix(self) -> str:
        """What follows the server's name of a file."""
        return {CopyCompression.NONE: "", CopyCompression.GZIP: ".gz", CopyCompression.ZSTD: ".zst"}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySettings:
    """The binlogs that cdc-ops itself copies into the archive, from a MySQL or MariaDB server (docs/archives.md#the-archiver).

    Args:
        connection: Connection id of the server: the source, or a replica that writes a binlog of all it applies. "" = nothing is copied.
        server: Name of the server's folder below `url`. "" = the `server_uuid` of MySQL, and `server-<server_id>` of MariaDB.
        flush: Close the server's newest binlog before each copy if it has changes, so that the archive has these too. Otherwise changes
            reach the archive when the server begins its next binlog.
        compress: How copies are compressed. `none` = each copy is byte for byte the server's file.
        first_file: Binlogs before this one are neither copied nor missed, e.g. after a gap that will not close. "" = all that the server
            has.
    """

    connection: str = ""
    server: str = ""
    flush: bool = False
    compress: CopyCompression = CopyCompression.NONE
    first_file: str = ""

    @property
    def is_set(self) -> bool:
        """Whether binlogs are copied at all."""
        return bool(self.connection)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSettings:
    """How the events of an archive are written.

    Args:
        format: Format of the events, e.g. `debezium-mysql`; see docs/formats.md.
        settings: Settings of the tool that wrote the events, under the tool's own names, where they differ from its defaults.
        accept_losses: Losses of the tool or its settings that you accept, each as `setting=value`; `cdc-ops formats show` lists them.
        time_zone: Time zone in which the tool wrote local times, e.g. `UTC` or `+08:00`; some formats need it.
    """

    format: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    accept_losses: tuple[str, ...] = ()
    time_zone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """Which files of an archive are read, and when.

    Args:
        layout: Which tool named the files: `kafka-connect`, `aiven`, `aws-dms`, `plain`, or `binlog` for those of the format
            `mysql-binlog`.
        template: `file.name.template` of Aiven's sink connectors.
        min_file_age: How long a file must be unchanged, by the store's clock, before it is read. `0s` is right for stores that show only
            whole files, as S3 does.
        full_listing_interval: How often the whole archive is listed, to find files that arrived late; `0s` = in every run.
        lookback: In archives with folders by time: how far back from the newest folder each listing looks.
        max_offset_gap: Largest number of consecutive Kafka offsets that may be missing without being a gap: compacted topics, transaction
            markers, and tombstones that the sink drops leave such holes. A lost file of at most so many records goes unnoticed.
        unrecognized_files: What to do about files whose names the layout does not know: `fail` stops the table, `ignore` skips the file.
        check_file_footers: Read the last bytes of each new file and wait for files that are incomplete; for archives whose files are
            written in place.
        files_per_run: Largest number of files that one run of a table reads; the next run continues.
    """

    layout: Layout = Layout.KAFKA_CONNECT
    template: str = AIVEN_TEMPLATE
    min_file_age: timedelta = timedelta(minutes=1)
    full_listing_interval: timedelta = timedelta(days=1)
    lookback: timedelta = timedelta(days=1)
    max_offset_gap: int = 0
    unrecognized_files: OnUnrecognizedFile = OnUnrecognizedFile.FAIL
    check_file_footers: bool = False
    files_per_run: int = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveConfig(Grouped):
    """The archive of change events of tables with `method: log`.

    A pipeline file writes the fields of all groups beside each other.

    Args:
        url: Folder or `s3://bucket/prefix`. `{schema}` and `{table}` stand for a table's names, so that each table reads its own folder. ""
            = there is no archive.
        events: How the events of an archive are written.
        initial_load: Where the first rows of a table come from. `archive`: from its first events, which have to contain the tool's own
            snapshot. `snapshot`: from the source by JDBC; the events follow, from the end that the archive had before.
        files: Which files of an archive are read, and when.
        copy: The binlogs that cdc-ops itself copies into the archive, with `layout: binlog`.
        options: Options of the object store's client, e.g. `endpoint_url`; the texts `true` and `false` become booleans. Never credentials:
            the client finds those by its own rules (environment, profile, instance role).
        on_gap: What to do about a gap. `fail` stops the table until the files come back or `cdc-ops gap accept` accepts the loss.
            `reconcile` compares the table with its source, copies what differs, and continues behind the gap; not for tables of SCD type 2.
        bad_records: What to do with records that cannot be read exactly. `fail` stops the table. `quarantine` sets them aside with their
            bytes and the reason, and merges the rest; `cdc-ops quarantine list` shows them.
        unknown_tables: What to do with records of tables that no entry of `tables` names or matches. `ignore` skips them and reports their
            number. `fail` stops the tables of the folder. `quarantine` sets them aside. An entry with `exclude: true` makes a table known.
    """

    JSON_INLINE: ClassVar[tuple[str, ...]] = ("events", "files")

    url: str = ""
    events: EventSettings = field(default_factory=EventSettings)
    initial_load: InitialLoad = InitialLoad.ARCHIVE
    files: FileSettings = field(default_factory=FileSettings)
    copy: CopySettings = field(default_factory=CopySettings)
    options: tuple[tuple[str, str], ...] = ()
    on_gap: OnGap = OnGap.FAIL
    bad_records: OnBadRecord = OnBadRecord.FAIL
    unknown_tables: OnUnknownTable = OnUnknownTable.IGNORE

    @property
    def format_options(self) -> FormatOptions:
        """The options of the format in the pipeline file."""
        given = self.events
        return FormatOptions(name=given.format, settings=dict(given.settings), accept_losses=given.accept_losses, time_zone=given.time_zone)

    def location(self, table: TableName) -> str:
        """Returns the folder of a table's files."""
        return self.url.replace("{schema}", table.schema).replace("{table}", table.name).rstrip("/")


def store_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a store's options as its package takes them: the texts `true` and `false`, in any case, would both mean yes there."""
    booleans = {"true": True, "false": False}
    return {name: booleans.get(str(value).lower(), value) for name, value in options.items()}
