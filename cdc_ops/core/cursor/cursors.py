"""Cursors: ordered positions in a source table, kept as the source's own text.

A cursor value is never a float and never a Python datetime: it is the literal that the source printed, so no precision can be lost between
two runs. Order is defined by the declared type of each part, never by comparing the strings.
"""

import enum
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cdc_ops.errors import ConfigError

_DATETIME: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_COALESCE: Final = re.compile(r"\s*coalesce\s*\(([^()]+)\)\s*", re.IGNORECASE)
_INTEGER: Final = re.compile(r"-?\d+", re.ASCII)
_UNREAD: Final = "Nothing was read; the watermark stays."
_CHECK: Final = "Check that the cursor columns are the same as in earlier runs; if they changed, run 'cdc-ops resync --mode full'."


class CursorType(enum.StrEnum):
    """The type of a cursor column, which decides its order."""

    DATETIME = "datetime"
    """A wall-clock value without zone (MySQL DATETIME), text `YYYY-MM-DD HH:MM:SS[.ffffff]` in the zone that the application writes."""
    TIMESTAMP = "timestamp"
    """An instant (MySQL TIMESTAMP, timestamptz), the same text, always in UTC."""
    DATE = "date"
    """A day of the zone that the application writes, text `YYYY-MM-DD`."""
    INTEGER = "integer"
    """An integer of any size (auto-increment ids, version counters)."""

    @property
    def is_temporal(self) -> bool:
        """True for types whose safe bound comes from the source's clock."""
        return self is not CursorType.INTEGER


def coalesced_columns(text: str) -> tuple[str, ...]:
    """Returns the columns of a cursor entry `COALESCE(a, b)`, () if it is anything else.

    >>> coalesced_columns("COALESCE(updated_at, `created_at`)"), coalesced_columns("updated_at")
    (('updated_at', 'created_at'), ())
    """
    found = _COALESCE.fullmatch(text)
    return tuple(part.strip().strip('`"') for part in found[1].split(",")) if found else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorColumn:
    """A column of a cursor.

    Args:
        name: Column name as the source spells it.
        type: How values are ordered.
        precision: Fractional second digits that the column keeps, 0 to 6; 0 for integers.
        coalesce: Columns of one kind of which the first that is not NULL is the value; empty for a plain column.
    """

    name: str
    type: CursorType
    precision: int = 0
    coalesce: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the value is computed from."""
        return self.coalesce or (self.name,)

    @property
    def is_coarse(self) -> bool:
        """True for whole seconds and days: a row can change more than once within one value, for longer than a run may wait.

        The unit that is not over is read all the same, and again by the next run.
        """
        return self.type is CursorType.DATE or (self.type.is_temporal and self.precision == 0)

    def floor(self, moment: datetime) -> datetime:
        """Rounds a moment down to the precision of the column.

        >>> CursorColumn(name="at", type=CursorType.DATETIME, precision=3).floor(datetime(2026, 1, 31, 12, 0, 0, 123_456))
        datetime.datetime(2026, 1, 31, 12, 0, 0, 123000)
        """
        if self.type is CursorType.DATE:
            return moment.replace(hour=0, minute=0, second=0, microsecond=0)
        unit: int = 10 ** (6 - self.precision)
        return moment.replace(microsecond=moment.microsecond // unit * unit)

    def ceil(self, moment: datetime) -> datetime:
        """Rounds a moment up to the precision of the column; a column value compares with it as with the moment itself.

        >>> CursorColumn(name="day", type=CursorType.DATE).ceil(datetime(2026, 1, 31, 12))
        datetime.datetime(2026, 2, 1, 0, 0)
        """
        floor = self.floor(moment)
        return floor if floor == moment else floor + self.unit

    @property
    def unit(self) -> timedelta:
        """The smallest distance between two values of a temporal column."""
        return timedelta(days=1) if self.type is CursorType.DATE else timedelta(microseconds=10 ** (6 - self.precision))

    def literal(self, moment: datetime) -> str:
        """Returns the cursor literal of a naive moment in the precision of the column."""
        return moment.date().isoformat() if self.type is CursorType.DATE else format_datetime(moment)

    def moment(self, text: str) -> datetime:
        """Parses a literal of a temporal column.

        Raises:
            ConfigError: it is none.
        """
        if self.type is not CursorType.DATE:
            return parse_datetime(text)
        if not _DATE.fullmatch(text):
            raise ConfigError(f"{text!r} is not a cursor value.", why="Expected 'YYYY-MM-DD'.", data=_UNREAD, next=_CHECK)
        return parse_datetime(f"{text} 00:00:00")


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorValue:
    """A value of a cursor: one literal for each leading cursor column.

    A value may have fewer parts than the cursor has columns. It then stands *before* every row that equals it in those parts, so
    `(ts,)` as an upper bound of `(ts, id)` excludes all rows of that `ts`, and as a lower bound includes them all.

    >>> cursor = Cursor(columns=(CursorColumn(name="day", type=CursorType.DATE), CursorColumn(name="id", type=CursorType.INTEGER)))
    >>> day, row = CursorValue(parts=("2026-01-31",)), CursorValue(parts=("2026-01-31", "7"))
    >>> cursor.order(day) < cursor.order(row)
    True
    """

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The ordered columns by which a table is read in increments: one column, or `(updated_at, id)`."""

    columns: tuple[CursorColumn, ...]

    @property
    def lead(self) -> CursorColumn:
        """The first column, whose safe bound limits every window."""
        return self.columns[0]

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns of the table that its values are computed from."""
        return tuple(dict.fromkeys(name for column in self.columns for name in column.columns))

    def order(self, value: CursorValue) -> tuple[int, ...]:
        """Returns a tuple of integers that sorts like the values at the source (microseconds since year 1, or the integer itself).

        Raises:
            ConfigError: a literal does not fit its declared type.

        As numbers, 9 comes before 10; as texts it would come after it:

        >>> cursor = Cursor(columns=(CursorColumn(name="id", type=CursorType.INTEGER),))
        >>> cursor.order(CursorValue(parts=("9",))) < cursor.order(CursorValue(parts=("10",)))
        True
        """
        if not 1 <= len(value.parts) <= len(self.columns):
            raise ConfigError(
                f"Cursor value ({value}) has {len(value.parts)} parts.",
                why=f"The cursor has {len(self.columns)} columns: {', '.join(column.name for column in self.columns)}.",
                data=_UNREAD,
                next=_CHECK,
            )
        return tuple(_ordinal(column, text) for column, text in zip(self.columns, value.parts, strict=False))

    def shifted(self, value: CursorValue, by: timedelta) -> CursorValue:
        """Returns the lead part of a temporal value moved by `by`, rounded down to the column's precision, without the other parts.

        An integer cursor is returned as it is.

        >>> cursor = Cursor(columns=(CursorColumn(name="at", type=CursorType.DATETIME), CursorColumn(name="id", type=CursorType.INTEGER)))
        >>> str(cursor.shifted(CursorValue(parts=("2026-01-31 12:00:00.5", "7")), timedelta(minutes=-5)))
        '2026-01-31 11:55:00.000000'
        """
        if not self.lead.type.is_temporal or not by:
            return value
        return CursorValue(parts=(self.lead.literal(self.lead.floor(self.lead.moment(value.parts[0]) + by)),))


def parse_datetime(text: str) -> datetime:
    """Parses a cursor literal into a naive datetime with microseconds, for arithmetic and order only.

    Raises:
        ConfigError: the text is not `YYYY-MM-DD HH:MM:SS[.ffffff]`.
    """
    found = _DATETIME.fullmatch(text)
    if not found:
        why = "Expected 'YYYY-MM-DD HH:MM:SS[.ffffff]'."
        raise ConfigError(f"{text!r} is not a cursor value.", why=why, data=_UNREAD, next=_CHECK)
    *whole, fraction = found.groups()
    year, month, day, hour, minute, second = (int(part) for part in whole)
    try:
        return datetime(year, month, day, hour, minute, second, int((fraction or "0").ljust(6, "0")))
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a date and time.", why=str(error), data=_UNREAD, next=_CHECK) from error


def format_datetime(value: datetime) -> str:
    """Returns the cursor literal of a naive datetime, always with six fractional digits.

    >>> format_datetime(datetime(2026, 1, 31, 12))
    '2026-01-31 12:00:00.000000'
    """
    return value.isoformat(sep=" ", timespec="microseconds")


def _ordinal(column: CursorColumn, text: str) -> int:
    if column.type is CursorType.INTEGER:
        if not _INTEGER.fullmatch(text):
            why = f"Cursor column {column.name!r} is an integer."
            raise ConfigError(f"{text!r} is not a cursor value.", why=why, data=_UNREAD, next=_CHECK)
        return int(text)
    return (column.moment(text) - datetime.min) // timedelta(microseconds=1)
