"""Rows of plain events, as the front ends of formats make them and the fold takes them: columns of Arrow by these names. Spark-free.

operation  line  hash | p0 p1 ... (the place) | c0 c1 ... (the row) | k0 ... (the key)
"""

from dataclasses import dataclass

from cdc_ops.decode.program import Field

OPERATION, MOMENT, LINE, HASH = "operation", "moment", "line", "hash"
"""Columns of plain rows: the letter of the operation (int8), microseconds since 1970 or NULL, the line's number, a hash of the key."""


def part_name(part: int) -> str:
    """Returns the name of the column with a part of the position (int64)."""
    return f"p{part}"


def column_name(index: int) -> str:
    """Returns the name of the column with the values of the table's column of that index; NULL in deletes."""
    return f"c{index}"


def key_name(index: int) -> str:
    """Returns the name of the column with the values of the key's column of that index."""
    return f"k{index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRows:
    """What the rows of one table have.

    Args:
        parts: Parts of a place but for the last one: of JSON events that is Kafka's offset, of binlogs the number of the row.
        columns: The table's columns.
        keys: Of them those of the key, by index.
    """

    parts: int
    columns: tuple[Field, ...]
    keys: tuple[int, ...]
