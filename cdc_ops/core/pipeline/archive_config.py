"""How an archive of change events is read: what a pipeline file says of it. Pure."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from cdc_ops.core.archive.file_names import AIVEN_TEMPLATE, Layout
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.tables import TableName


class OnStranger(enum.StrEnum):
    """What to do about a file whose name the layout does not know."""

    FAIL = "fail"
    IGNORE = "ignore"


class Start(enum.StrEnum):
    """What a table that is fed from an archive begins with."""

    ARCHIVE = "archive"
    """The first events that the archive has; they have to be the tool's own snapshot, or the table's whole history."""
    SNAPSHOT = "snapshot"
    """The source's rows, by JDBC; then the events from the place that the archive had reached before the first row was read."""


class Heal(enum.StrEnum):
    """What to do about a gap in an archive."""

    STOP = "stop"
    """The table stops until the files come, or somebody gives the gap up."""
    QUERY = "query"
    """The table is compared with its source, and goes on behind the gap."""


class OnBadRecord(enum.StrEnum):
    """What to do about a record that cannot be read exactly."""

    FAIL = "fail"
    """The table stops, and nothing of the batch is written."""
    QUARANTINE = "quarantine"
    """It is set aside with its bytes and the reason; the rest is merged, and each run that sets one aside says so."""


class OnUnknownTable(enum.StrEnum):
    """What to do about records of tables that the pipeline file does not speak of."""

    IGNORE = "ignore"
    """They are left out; each run that meets some says how many, of which tables."""
    FAIL = "fail"
    """The tables that read the same folder stop, and nothing of the batch is written."""
    QUARANTINE = "quarantine"
    """One table of the folder sets them aside, with their bytes; the others leave them out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveConfig:
    """The archive of change events that tables with `method: log` are fed from.

    Args:
        url: A folder or `s3://bucket/prefix`; `{schema}` and `{table}` stand for a table's names, so that each reads its own folder. ""
            = there is no archive.
        format: What wrote the events, e.g. `debezium-mysql`; see docs/formats.md.
        start: What a table begins with: `archive`, its first events, which the tool's own snapshot has to be among; or `snapshot`, the
            source's rows by JDBC, and then the events from where the archive was before.
        layout: Who named the files: `kafka-connect`, `aiven`, `aws-dms` or `plain`; `binlog` is refused, because no format reads such
            files.
        settings: Settings of the tool that wrote the events, where they are not its defaults, under the tool's own names.
        accept: Losses that are known and wanted, each as `setting=value`.
        time_zone: Zone in which the tool wrote local times, for formats that need it.
        options: For the store, e.g. `endpoint_url`; `true` and `false` are yes and no. Never credentials, which come from the store's own
            chain.
        template: `file.name.template` of Aiven's sinks.
        settle: How long a file must not have changed before it is read, by the store's clock.
        relist: How often everything is listed, for files that came late.
        lookback: With folders by time: how far back from the newest one each listing looks.
        max_hole: Largest hole in offsets that is natural: compacted topics, transaction markers, tombstones that the sink leaves out.
        heal: What to do about a gap: `stop` its table until the files come back or `cdc-ops gap accept` gives it up; or `query`: compare
            the table with its source, bring over what differs, and go on behind the gap. Not for tables that keep versions.
        strangers: What to do about files whose names the layout does not know.
        bad_records: What to do about records that cannot be read exactly: `fail` stops the table; `quarantine` sets them aside, with
            their bytes and the reason, and merges the rest: `cdc-ops quarantine list` shows them.
        unknown_tables: What to do about records of tables that no entry of `tables` names or covers: `ignore` leaves them out, and says how
            many there were; `fail` stops the tables of the folder; `quarantine` sets them aside. An entry with `exclude: true` makes a
            table known.
        check_endings: Look at the last bytes of each new file, for archives that files are written into in place.
        files_per_run: Files that one run of a table reads at most; the next run goes on.
    """

    url: str = ""
    format: str = ""
    start: Start = Start.ARCHIVE
    layout: Layout = Layout.KAFKA_CONNECT
    settings: tuple[tuple[str, str], ...] = ()
    accept: tuple[str, ...] = ()
    time_zone: str = ""
    options: tuple[tuple[str, str], ...] = ()
    template: str = AIVEN_TEMPLATE
    settle: timedelta = timedelta(minutes=1)
    relist: timedelta = timedelta(days=1)
    lookback: timedelta = timedelta(days=1)
    max_hole: int = 0
    heal: Heal = Heal.STOP
    strangers: OnStranger = OnStranger.FAIL
    bad_records: OnBadRecord = OnBadRecord.FAIL
    unknown_tables: OnUnknownTable = OnUnknownTable.IGNORE
    check_endings: bool = False
    files_per_run: int = 5000

    @property
    def events(self) -> FormatOptions:
        """What the pipeline file says of the format."""
        return FormatOptions(name=self.format, settings=dict(self.settings), accept=self.accept, time_zone=self.time_zone)

    def location(self, table: TableName) -> str:
        """Returns where the files of a table are."""
        return self.url.replace("{schema}", table.schema).replace("{table}", table.name).rstrip("/")


def store_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a store's options as its package takes them: the texts `true` and `false`, in any case, would both mean yes there."""
    booleans = {"true": True, "false": False}
    return {name: booleans.get(str(value).lower(), value) for name, value in options.items()}
