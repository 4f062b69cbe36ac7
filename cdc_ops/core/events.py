"""Change events: what they may say, and what a format has to declare of itself before a table is fed from it.

A format that declares no total order is no format: see `FormatFacts.order`. What a tool can be told to leave out, or to bend, is named here
too, so that a plan can refuse it before the first record is read.
"""

import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from cdc_ops.core.event_values import ValueFamily, family_of, fraction_digits
from cdc_ops.core.tables import Column, TableSchema
from cdc_ops.core.typemap import DeclaredType
from cdc_ops.errors import ConfigError, SourceTableError


class Operation(enum.StrEnum):
    """What an event does to a row; the letters are Debezium's."""

    READ = "r"
    """The row as a snapshot saw it."""
    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"
    """All rows of the table are gone; the event names no key."""


MYSQL: Final = "mysql"
"""The dialect of statements of MySQL and MariaDB, as sqlglot calls it: the one whose statements are understood."""

WHOLE_ROW: Final = (Operation.READ, Operation.CREATE)
"""Events after which nothing of an older row is left."""


class RecordKind(enum.StrEnum):
    """What a raw record turned out to be. Every record yields at least one row of the feed, so that counts add up."""

    CHANGE = "change"
    DDL = "ddl"
    """A statement that changes the table, not its rows."""
    CONTROL = "control"
    """Says nothing of rows or columns: tombstones, heartbeats, borders of transactions."""
    BAD = "bad"
    """Could not be decoded; `reason` says why, `raw` is the record."""
    UNKNOWN = "unknown"
    """Is of a table that the pipeline file does not speak of; no format says so, the step that reads a folder does."""


class Container(enum.StrEnum):
    """What the files of a format hold records in."""

    LINES = "lines"
    """A JSON document a line."""
    CSV = "csv"
    """Comma-separated values, the names of the columns in the first record."""
    PARQUET = "parquet"
    AVRO = "avro"
    """Avro's object container files, each with its own schema."""


class Images(enum.StrEnum):
    """How much of a row an update carries."""

    FULL = "full"
    """All columns that the table had at that moment."""
    PARTIAL = "partial"
    """It may leave columns out that did not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderField:
    """One part of the total order, most significant first.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LossySetting:
    """A setting of the tool that writes events, under which something is lost.

    Args:
        name: As the tool spells it.
        safe: The values that lose nothing.
        unsafe: The values that lose; where there are any, all others are safe. For settings that are names or marks of the user's choice.
        needs: What a list has to name, separated by commas, to lose nothing; `source.` before a name may be left out.
        default: What holds if the pipeline file says nothing of it; the tool's own default.
        loses: What is lost, in words.
        remedy: What to set instead.
        families: Concerns only tables with columns of these families; empty = every table.
        only_fractions: Of these, only columns that keep fractions of seconds.
        declared: Of these, only columns of these declared types; empty = all.
        seen: True if records show it, and one that was written so is found out even if nothing was declared.
    """

    name: str
    default: str
    loses: str
    remedy: str
    safe: tuple[str, ...] = ()
    unsafe: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    families: tuple[ValueFamily, ...] = ()
    only_fractions: bool = False
    declared: tuple[str, ...] = ()
    seen: bool = False

    def touches(self, column: Column) -> bool:
        """True if values of that column may be lost."""
        if self.declared and DeclaredType.parse(column.source_type).base not in self.declared:
            return False
        return family_of(column) in self.families and (not self.only_fractions or fraction_digits(column) > 0)

    def loses_at(self, value: str) -> bool:
        """True if that value of the setting loses something."""
        if self.unsafe:
            return value in self.unsafe
        if self.needs:
            return not set(self.needs) <= {name.strip().removeprefix("source.") for name in value.split(",")}
        return value not in self.safe

    def accepted_by(self, value: str) -> str:
        """What a pipeline file has to list to go on all the same."""
        return f"{self.name}={value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatFacts:
    """What a format declares of itself.

    Args:
        name: Its name in pipeline files.
        tool: What writes it.
        order: The total order of a table's events.
        images: How much of a row an update carries.
        snapshot: How a row of a snapshot is marked.
        delete: How a deleted row shows.
        key_change: How an update of a key column shows.
        truncate: How TRUNCATE shows.
        ddl: How a changed column shows.
        lossy: Settings that lose data.
        settings: Further settings that decide how values are read, with their defaults.
        unreadable: Families of columns that cannot be read exactly, with the reason.
        local_instants: True if instants are written as local time, so that the zone has to be declared.
        one_order: False if events of different partitions of a topic have no order among them; those of a key are in one.
        names_table: False if records do not say of which table they are: then all of a folder are of one.
        container: What the files hold records in.
        column_names: What names of columns have to be, as a regular expression; empty = any.
        statements: The SQL dialect of its statements: `MYSQL`, which is understood; empty = another one, or none is ever written.
        sparse: True if rows need not have all columns: what a whole row does not name is NULL, and not older than its column.
    """

    name: str
    tool: str
    order: tuple[OrderField, ...]
    images: Images
    snapshot: str
    delete: str
    key_change: str
    truncate: str
    ddl: str
    lossy: tuple[LossySetting, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    unreadable: dict[ValueFamily, str] = field(default_factory=dict)
    local_instants: bool = False
    one_order: bool = True
    names_table: bool = True
    container: Container = Container.LINES
    column_names: str = ""
    statements: str = ""
    sparse: bool = False

    @property
    def writes_tombstones(self) -> bool:
        """True if a record without a value may follow a delete."""
        return "tombstone" in self.delete

    @property
    def position_type(self) -> str:
        """The type of the feed's `position` as Spark SQL DDL; structs of numbers compare field by field."""
        return "struct<" + ", ".join(f"{part.name}: {part.type}" for part in self.order) + ">"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFormat:
    """What a pipeline file says of the events that it is fed from.

    Args:
        name: The format, see `cdc-ops` docs/formats.md.
        settings: Settings of the tool that wrote them, as far as they are not its defaults, under the tool's own names.
        accept: Losses that are known and wanted, each as `setting=value`.
        time_zone: Zone in which the tool wrote local times of instants: `UTC`, `+08:00`, or a region.
    """

    name: str
    settings: dict[str, str] = field(default_factory=dict)
    accept: tuple[str, ...] = ()
    time_zone: str = ""


_FIXED_ZONE: Final = re.compile(r"^(UTC|Z|[+-]\d\d:\d\d)$")
_AMBIGUOUS: Final = "ambiguous-local-time"


def setting(facts: FormatFacts, chosen: EventFormat, name: str) -> str:
    """Returns the value of a tool's setting: what the pipeline file says, else the tool's default."""
    defaults = {item.name: item.default for item in facts.lossy} | facts.settings
    return chosen.settings.get(name, defaults[name])


def check_format(facts: FormatFacts, chosen: EventFormat, schema: TableSchema, keys: Iterable[str]) -> None:
    """Refuses what would lose data, by name, before anything is read.

    Args:
        facts: What the format says of itself.
        chosen: What the pipeline file says of it.
        schema: The table.
        keys: The columns that identify its rows.

    Raises:
        ConfigError: a setting is unknown or loses data and is not accepted, a zone is missing.
        SourceTableError: the table has no key, or columns that the format cannot carry.
    """
    unknown = sorted(set(chosen.settings) - {item.name for item in facts.lossy} - set(facts.settings))
    if unknown:
        known = sorted({item.name for item in facts.lossy} | set(facts.settings))
        raise ConfigError(
            f"Format {facts.name!r} knows no setting {', '.join(unknown)}.",
            why=f"It knows {', '.join(known) or 'none'}.",
            data="Nothing was read or written.",
            next="Correct 'settings' of the format.",
        )
    if not tuple(keys):
        raise SourceTableError(
            f"{schema.table} cannot be fed from change events: it has no key.",
            why="An event changes the row whose key it names.",
            data="Nothing was read or written.",
            next="Name its 'keys', or use the query method with 'cursor: []'.",
        )
    for problem in _problems(facts, chosen, schema):
        raise problem


def _problems(facts: FormatFacts, chosen: EventFormat, schema: TableSchema) -> Iterator[ConfigError | SourceTableError]:
    families = {column.name: family_of(column) for column in schema.columns}
    for item in facts.lossy:
        value = setting(facts, chosen, item.name)
        if not item.loses_at(value) or item.accepted_by(value) in chosen.accept:
            continue
        touched = [column.name for column in schema.columns if item.touches(column)]
        if item.families and not touched:
            continue
        yield ConfigError(
            f"{facts.tool} with {item.name}={value} loses data of {schema.table}" + (f" ({', '.join(touched)})." if touched else "."),
            why=item.loses,
            data="Nothing was read or written.",
            next=f"{item.remedy} If it is set so already, say so in 'settings' of the format; to go on without what is lost,"
            f" add {item.accepted_by(value)!r} to 'accept'.",
        )
    for name, family in families.items():
        if family in facts.unreadable:
            yield SourceTableError(
                f"Format {facts.name!r} cannot carry column {name!r} of {schema.table} exactly.",
                why=facts.unreadable[family],
                data="Nothing was read or written.",
                next="Leave the column out ('except_column_list'), or use the query method for this table.",
            )
    strange = [name for name in families if facts.column_names and not re.fullmatch(facts.column_names, name)]
    if strange:
        yield SourceTableError(
            f"Format {facts.name!r} cannot carry columns of such names of {schema.table}: {', '.join(map(repr, strange))}.",
            why=f"Its files name them by letters, digits and underscores only, so that {facts.tool} has to give them other names.",
            data="Nothing was read or written.",
            next="Leave the columns out ('except_column_list'), or archive this table as JSON.",
        )
    if facts.local_instants and ValueFamily.INSTANT in families.values():
        yield from _zone_problems(facts, chosen, schema)


def _zone_problems(facts: FormatFacts, chosen: EventFormat, schema: TableSchema) -> Iterator[ConfigError]:
    if not chosen.time_zone:
        yield ConfigError(
            f"Format {facts.name!r} needs 'time_zone' for the instants of {schema.table}.",
            why=f"{facts.tool} writes them as local time, and no record says of which zone.",
            data="Nothing was read or written.",
            next="Set 'time_zone' to the zone of the process that wrote the events; best run it in UTC.",
        )
    elif not _FIXED_ZONE.match(chosen.time_zone) and _AMBIGUOUS not in chosen.accept:
        yield ConfigError(
            f"Instants of {schema.table} written in {chosen.time_zone} are ambiguous when clocks are set back.",
            why="Two instants have the same local time then, and records do not say which one is meant.",
            data="Nothing was read or written.",
            next=f"Run the writing process in UTC or at a fixed offset such as '+08:00'; or add {_AMBIGUOUS!r} to 'accept'.",
        )
