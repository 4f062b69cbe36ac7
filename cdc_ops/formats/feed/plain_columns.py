"""The columns of a table for the compiled reader, whatever the format, and how values are spelled as servers print them. Spark-free.

What `formats.feed.values.from_text` reads by expressions, `text_encoding` names by an encoding, or not at all.
"""

import re
from typing import Final

from cdc_ops.core.schema.logical_types import LogicalType, fraction_digits, labels_of, logical_type_of, trims_fractions
from cdc_ops.core.schema.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.decode.json.encodings import Encoded, Encoding
from cdc_ops.decode.json.layout import is_plain_name
from cdc_ops.decode.program import Field, is_supported

LONGEST_PADDING: Final = 255
"""Bytes to which BINARY(n) is padded at most."""
_MOST_LABELS: Final = 100
_LONGEST_LABEL: Final = 1000
_OFFSET: Final = re.compile(r"([+-])(\d\d):(\d\d)")
_NUMBERS: Final = (LogicalType.INTEGER, LogicalType.YEAR, LogicalType.BIT, LogicalType.UNSIGNED_BIGINT, LogicalType.BOOLEAN)
_WITH_DIGITS: Final = {LogicalType.DECIMAL: Encoding.DECIMAL, LogicalType.FLOAT: Encoding.FLOATING}


def plain_fields(schema: TableSchema, keys: tuple[str, ...]) -> tuple[Field, ...] | None:
    """Returns the columns of a table for the compiled reader; None if it cannot read one of them, or find its name."""
    names = schema.names
    if not keys or len(set(names)) != len(names) or not all(map(is_plain_name, names)):
        return None
    if not all(is_supported(column.delta_type) for column in schema.columns):
        return None
    return tuple(Field.of(column.name, column.delta_type) for column in schema.columns)


def holds_bigint(column: Column) -> bool:
    """True for an integer type, and for a decimal without fraction that holds every BIGINT."""
    field = Field.of(column.name, column.delta_type)
    return not field.precision or (field.scale == 0 and field.precision > 18)


def text_encoding(column: Column, zone: str, *, with_digits: bool) -> Encoded | None:
    """Returns how the values of a column are spelled that are written as the server prints them; None for one that is left.

    Args:
        column: The column.
        zone: The zone in which the tool wrote local times of instants; empty = UTC.
        with_digits: True if the exact way reads numbers with a fraction by their digits, which have no sign of zero then; False if it reads
            some as binary numbers.
    """
    logical = logical_type_of(column)
    match logical:
        case _ if logical in _NUMBERS:
            return _number(column, logical)
        case _ if logical in _WITH_DIGITS:
            return Encoded(encoding=_WITH_DIGITS[logical], argument=int(with_digits))
        case LogicalType.DATE:
            return Encoded(encoding=Encoding.DATE)
        case LogicalType.WALL_CLOCK:
            return Encoded(encoding=Encoding.MOMENT)
        case LogicalType.INSTANT:
            ahead = _micros_ahead(zone or "UTC")
            return None if ahead is None else Encoded(encoding=Encoding.MOMENT, argument=ahead)
        case LogicalType.TIME:
            return None if trims_fractions(column) else Encoded(encoding=Encoding.CLOCK, argument=fraction_digits(column))
        case LogicalType.MOMENT_TEXT if DeclaredType.parse(column.source_type).base != "date":
            return None  # the exact way gives its text the column's digits
        case _:
            padded = int(logical is LogicalType.PADDED_TEXT)
            return Encoded(encoding=Encoding.TEXT, argument=padded) if column.delta_type == "string" else None


def _number(column: Column, logical: LogicalType) -> Encoded | None:
    if column.delta_type == "boolean":
        return Encoded(encoding=Encoding.BOOLEAN, argument=1)
    if logical is LogicalType.BOOLEAN or not holds_bigint(column):
        return None
    return Encoded(encoding=Encoding.UNSIGNED if logical is LogicalType.UNSIGNED_BIGINT else Encoding.INTEGER)


def _micros_ahead(zone: str) -> int | None:
    """Returns how many microseconds a zone is ahead of UTC; None for a region, where that depends on the day."""
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return 0 if zone == "UTC" else None
    minutes = int(found[2]) * 60 + int(found[3])
    return (minutes if found[1] == "+" else -minutes) * 60_000_000


def words_of(column: Column) -> bytes | None:
    """Returns the labels of an ENUM or SET as words of the compiled reader; None if they are too many, or too long."""
    labels = [label.encode() for label in labels_of(column)]
    if len(labels) > _MOST_LABELS or any(len(label) > _LONGEST_LABEL for label in labels):
        return None
    return len(labels).to_bytes(2, "little") + b"".join(len(label).to_bytes(2, "little") + label for label in labels)
