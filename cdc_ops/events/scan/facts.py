"""What a scan found in a file: facts on which steps decide. JSON between the tasks and the driver.

Places are numbers, most significant first (`events.places`). Moments are texts in UTC without a zone, "" for none.
"""

from dataclasses import dataclass

from cdc_ops.core.archive.binlogs.binlog_facts import BinlogFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A file that a scan wrote.

    Args:
        name: In its folder.
        size: Bytes.
        buckets: Which bucket each of its row groups is of; () for a file of the feed.
    """

    name: str
    size: int
    buckets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecord:
    """A bad record: its number and what is wrong with it."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FoundStatement:
    """A statement that may have changed the table.

    Args:
        text: The statement, cut.
        schema: The database that its record names, "" for none.
        place: Where it stands; a number that the archive does not have is None.
        at: When it was made.
    """

    text: str
    schema: str
    place: tuple[int | None, ...]
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Where the changes of a file stand.

    Args:
        lowest: The smallest place of a change.
        last: The latest time of one.
        place: The largest place among those that no snapshot read.
        at: The latest time among those.
        behind: How many of them are below the newest one before this batch.
        behind_at: The latest time among these.
    """

    lowest: tuple[int, ...] = ()
    last: str = ""
    place: tuple[int, ...] = ()
    at: str = ""
    behind: int = 0
    behind_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What the events of a file tell of the table's columns.

    Args:
        undeclared: Names that events have and the pipeline file does not declare.
        lacking: Whole rows that lack a column.
        named: The columns that such rows have; each set once.
        unmapped: The names that such rows have and the table has not.
        statements: What may have changed the table.
    """

    undeclared: tuple[str, ...] = ()
    lacking: int = 0
    named: tuple[tuple[str, ...], ...] = ()
    unmapped: tuple[str, ...] = ()
    statements: tuple[FoundStatement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What a file shows of one table.

    Args:
        events: Changes.
        partial: Updates that do not speak of all columns.
        truncates: The places of TRUNCATEs.
        order: Where the changes stand.
        drift: What they tell of columns.
        nulled: Columns with values that no stored type holds, and how many.
        bad: Records that cannot be read.
        shown: The first of them.
        unknown: Records of unknown tables by the table's name.
        changes, feed: The files with the rows.
    """

    events: int = 0
    partial: int = 0
    truncates: tuple[tuple[int, ...], ...] = ()
    order: Order = Order()
    drift: Drift = Drift()
    nulled: tuple[tuple[str, int], ...] = ()
    bad: int = 0
    shown: tuple[ShownRecord, ...] = ()
    unknown: tuple[tuple[str, int], ...] = ()
    changes: tuple[Part, ...] = ()
    feed: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What a file, or a part of it, holds for one table.

    Args:
        path: Relative to the archive.
        table: See `FileTask`.
        lines: Its records, without empty lines at its end.
        blank: The empty lines among them.
        found: What it shows of the table.
        binlog: Of a binlog what it says of itself.
        failure: Why it could not be read, as `CdcError.to_payload` has it; () if it was.
        too_large: Names a column that does not hold a value, and can be widened; "" for none.
    """

    path: str
    table: int = 0
    lines: int = 0
    blank: int = 0
    found: TableFacts = TableFacts()
    binlog: BinlogFacts | None = None
    failure: tuple[tuple[str, str], ...] = ()
    too_large: str = ""
