"""Change events: operations and record kinds, and the properties that every format declares. Pure.

A format that declares no total order is no format: see `FormatSpec.order`. What a tool can be told to leave out, or to bend, is named here
too, so that a plan can refuse it before the first record is read.
"""

import enum
from dataclasses import dataclass, field
from typing import Final

from cdc_ops.core.schema.declared_tables import TypeDialect
from cdc_ops.core.schema.logical_types import LogicalType, fraction_digits, logical_type_of
from cdc_ops.core.schema.server_types.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column


class EventOperation(enum.StrEnum):
    """The operation of an event, by Debezium's letters."""

    READ = "r"
    """A row of a snapshot."""
    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"
    """TRUNCATE: the event has no key."""


MYSQL: Final = "mysql"
"""The dialect of statements of MySQL and MariaDB, as sqlglot calls it: the one whose statements are understood."""

WHOLE_ROW: Final = (EventOperation.READ, EventOperation.CREATE)
"""Events after which nothing of an older row is left."""


class RecordKind(enum.StrEnum):
    """The kind of a raw record. Every record yields at least one row of the feed, so that counts add up."""

    CHANGE = "change"
    DDL = "ddl"
    """A statement that changes the table, not its rows."""
    CONTROL = "control"
    """Without row or column changes: tombstones, heartbeats, transaction boundaries."""
    BAD = "bad"
    """Could not be decoded; `reason` says why, `raw` is the record."""
    UNKNOWN = "unknown"
    """Belongs to a table that the pipeline file does not name; the step that reads a folder sets it, not a format."""


class Container(enum.StrEnum):
    """The file type of a format."""

    LINES = "lines"
    """A JSON document a line."""
    CSV = "csv"
    """Comma-separated values, the names of the columns in the first record."""
    PARQUET = "parquet"
    AVRO = "avro"
    """Avro's object container files, each with its own schema."""
    BINLOG = "binlog"
    """Binlogs of MySQL and MariaDB; their changes become JSON documents."""


class RowImage(enum.StrEnum):
    """The columns that an update carries (MySQL: binlog_row_image)."""

    FULL = "full"
    """All columns of the table at the time of the event."""
    PARTIAL = "partial"
    """Unchanged columns may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderField:
    """One part of an event's position, most significant first.

    Args:
        name: Field of the feed's `position`.
        type: Its type as Spark SQL DDL: always a number.
        meaning: What it counts.
        of_delivery: It is another one when the same event is delivered again, and the fields before it tell events apart without it.
    """

    name: str
    type: str
    meaning: str
    of_delivery: bool = False


class Where(enum.StrEnum):
    """The component in which a setting is made."""

    CONNECTOR = "source connector"
    TRANSFORMATION = "transformation of the source connector"
    CONVERTER = "converter of the source connector"
    SINK = "sink connector"
    SERVER = "database server"
    TOOL = "tool"
    NOWHERE = "nowhere: that is how the tool is"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFilter:
    """Which columns a loss concerns, of those whose family it concerns.

    Args:
        declared: Only columns of these declared types; empty = all.
        only_fractions: Only columns that keep fractions of seconds.
    """

    declared: tuple[str, ...] = ()
    only_fractions: bool = False

    def takes(self, column: Column) -> bool:
        """True if a column is one of them."""
        if self.declared and DeclaredType.parse(column.source_type).base not in self.declared:
            return False
        return not self.only_fractions or fraction_digits(column) > 0


ALL_OF_FAMILY: Final = ColumnFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class LossySetting:
    """A setting of the tool that writes events, with values that lose data.

    Args:
        name: As the tool spells it; one that ends with a dot stands for all settings whose names begin so.
        safe: The values that lose nothing.
        unsafe: The values that lose; where there are any, all others are safe. For settings that are names or marks of the user's choice.
        needs: What a list has to name, separated by commas, to lose nothing; `source.` before a name may be left out.
        default: What holds if the pipeline file says nothing of it; the tool's own default.
        loses: What is lost, in words.
        remedy: What to set instead.
        families: Concerns only tables with columns of these families; empty = every table.
        only: Of these, only such columns.
        seen: True if records show it, and one that was written so is found out even if nothing was declared.
        where: Where it is set.
        written: How it is spelled there; empty = as `name`.
        stated_without: Has to be stated, default or not, where the setting of this name is not `true`: records do not show it then.
        advised: A value that loses nothing, of those where `safe` cannot say it.
    """

    name: str
    default: str
    loses: str
    remedy: str
    safe: tuple[str, ...] = ()
    unsafe: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    families: tuple[LogicalType, ...] = ()
    only: ColumnFilter = ALL_OF_FAMILY
    seen: bool = False
    where: Where = Where.TOOL
    written: str = ""
    stated_without: str = ""
    advised: str = ""

    def touches(self, column: Column) -> bool:
        """True if the setting may lose values of that column."""
        return logical_type_of(column) in self.families and self.only.takes(column)

    def loses_at(self, value: str) -> bool:
        """True if that value of the setting loses data."""
        if self.unsafe:
            return value in self.unsafe
        if self.needs:
            return not set(self.needs) <= {name.strip().removeprefix("source.") for name in value.split(",")}
        return value not in self.safe

    def accepted_by(self, value: str, name: str = "") -> str:
        """The entry of `accept` for this loss; `name` is the setting's name, where `self.name` stands for several."""
        return f"{name or self.name}={value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMarks:
    """How events show what happened, in words.

    Args:
        snapshot: How a row of a snapshot is marked.
        delete: How a deleted row shows.
        key_change: How an update of a key column shows.
        truncate: How TRUNCATE shows.
        ddl: How a changed column shows.
        statements: The SQL dialect of statements: `MYSQL`, which is understood; empty = another one, or none is ever written.
        hidden_keys: Why an update does not show that a column has changed which is not of the primary key; empty = it shows it.
    """

    snapshot: str
    delete: str
    key_change: str
    truncate: str
    ddl: str
    statements: str = ""
    hidden_keys: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvSettings:
    """The settings that say how a tool writes CSV, each by its name among the format's settings; empty = there is none.

    Args:
        delimiter: Its value is the character between values; without the setting a comma.
        null: Its value is the text for NULL, without quotes; without the setting `NULL`.
        missing: Its value is the text for a value that the tool does not have; empty = there is no such text.
        columns: Their values are names of columns that every file has.
        no_column: Values of those settings that name no column.
    """

    delimiter: str = ""
    null: str = ""
    missing: str = ""
    columns: tuple[str, ...] = ()
    no_column: tuple[str, ...] = ("",)


NO_CSV_SETTINGS: Final = CsvSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """What the files of a format can hold.

    Args:
        container: What they hold records in.
        column_names: What names of columns have to be, as a regular expression; empty = any.
        csv: Of CSV files, the settings that say how they are written.
    """

    container: Container = Container.LINES
    column_names: str = ""
    csv: CsvSettings = NO_CSV_SETTINGS


ANY_LINES: Final = FileKind()
"""Lines of text, with columns of any name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSpec:
    """The declared properties of a format.

    Args:
        name: Its name in pipeline files.
        tool: What writes it.
        order: The total order of a table's events.
        images: The columns that an update carries (MySQL: binlog_row_image).
        marks: How events show what happened.
        lossy: Settings that lose data.
        settings: Further settings that decide how values are read, with their defaults.
        unreadable: Families of columns that cannot be read exactly, with the reason.
        local_instants: True if instants are written as local time, so that the zone has to be declared.
        one_order: False if events of different partitions of a topic have no order among them; those of a key are in one.
        names_table: False if records do not say of which table they are: then all of a folder are of one.
        files: What the files can hold.
        dialect: The database by whose types values are read; None = every one fits.
        sparse: True if rows need not have all columns: what a whole row does not name is NULL, and not older than its column.
    """

    name: str
    tool: str
    order: tuple[OrderField, ...]
    images: RowImage
    marks: EventMarks
    lossy: tuple[LossySetting, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    unreadable: dict[LogicalType, str] = field(default_factory=dict)
    local_instants: bool = False
    one_order: bool = True
    names_table: bool = True
    files: FileKind = ANY_LINES
    dialect: TypeDialect | None = None
    sparse: bool = False

    @property
    def writes_tombstones(self) -> bool:
        """True if a record without a value may follow a delete."""
        return "tombstone" in self.marks.delete

    @property
    def is_binlog(self) -> bool:
        """True if its files are binlogs: whole transactions of all tables, with one order within their server."""
        return self.files.container is Container.BINLOG

    @property
    def position_type(self) -> str:
        """The type of the feed's `position` as Spark SQL DDL; structs of numbers compare field by field."""
        return "struct<" + ", ".join(f"{part.name}: {part.type}" for part in self.order) + ">"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """The options of a format in a pipeline file.

    Args:
        name: The format, see `cdc-ops` docs/formats.md.
        settings: Settings of the tool that wrote them, as far as they are not its defaults, under the tool's own names.
        accept_losses: Losses that are known and wanted, each as `setting=value`.
        time_zone: Zone in which the tool wrote local times of instants: `UTC`, `+08:00`, or a region.
    """

    name: str
    settings: dict[str, str] = field(default_factory=dict)
    accept_losses: tuple[str, ...] = ()
    time_zone: str = ""


def setting(spec: FormatSpec, options: FormatOptions, name: str) -> str:
    """Returns the value of a tool's setting from the pipeline file, else the tool's default."""
    defaults = {item.name: item.default for item in spec.lossy} | spec.settings
    return options.settings.get(name, defaults[name])
