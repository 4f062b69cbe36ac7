"""What a table wants of its events, and what they come to."""

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from cdc_ops.core.events.format_spec import OrderField
from cdc_ops.core.schema.tables import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldRules:
    """What a table wants of its events.

    Args:
        schema: The table, as its feed has it.
        keys: The columns that identify a row.
        order: The parts of a position, most significant first.
        deletes: False if the table ignores deletes and TRUNCATEs; an update that changes a key is then only an insert of the new key.
        versions: True for a table that keeps versions: each change is a row, and those before a TRUNCATE stay.
        nulls_ignored: Columns that an update does not speak of where they are NULL in it.
        barrier: Place of the last TRUNCATE, in the numbers of SEQUENCE (see `places.places_of`); None if there is none.
    """

    schema: TableSchema
    keys: tuple[str, ...]
    order: tuple[OrderField, ...]
    deletes: bool = True
    versions: bool = False
    nulls_ignored: tuple[str, ...] = ()
    barrier: tuple[int, ...] | None = None


class Tie(NamedTuple):
    """A key with two different events at one place, both as JSON text, as an error shows them."""

    key: str
    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What the events of some keys come to.

    Args:
        rows: The table's columns, DELETE_MARK, PRESENT and SEQUENCE; one row a key, or one a change for a table that keeps versions.
        partial: How many of them are not known as a whole: PRESENT names what is known.
        deletes: How many of them are gone.
        tied: The first ties, at most 5. With any, `rows` depend on the order in which the events came, and are not to be landed.
        tied_count: How many pairs of a key and a place have different events.
    """

    rows: pa.Table
    partial: int
    deletes: int
    tied: tuple[Tie, ...] = ()
    tied_count: int = 0
