"""What a table wants of its events, and what they come to."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from cdc_ops.core.events.format_spec import OrderField
from cdc_ops.core.schema.tables import TableSchema

WHOLE: Final = "__cdc_whole"
"""Column of states that are kept: an event brought all of the row, or deleted it; columns that are not known are NULL in it."""

DELIVERY: Final = "delivery"
"""Column of a feed, a struct of numbers: of events at one place the one with the largest numbers is the last, however they came."""
OLD_SIDE: Final = "old_side"
"""Column of a feed of which the rows of a changed key come twice: true where it stands for the key before, and false where for its own."""


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
        nulls_in_keys: True for rows that were stored before: NULL in a key is then a value like others. Events of archives have none.
        states: True for last states that are kept in place of events: rows have WHOLE, and PRESENT names what is known of each row that is
            there and lacks a column, not only of those that are not known as a whole.
    """

    schema: TableSchema
    keys: tuple[str, ...]
    order: tuple[OrderField, ...]
    deletes: bool = True
    versions: bool = False
    nulls_ignored: tuple[str, ...] = ()
    barrier: tuple[int, ...] | None = None
    nulls_in_keys: bool = False
    states: bool = False


class Tie(NamedTuple):
    """A key with two different events at one place, both as JSON text, as an error shows them."""

    key: str
    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What the events of some keys come to.

    Args:
        rows: The table's columns, DELETE_MARK, PRESENT and SEQUENCE; one row a key, or one a change for a table that keeps versions.
            WHOLE too, for states that are kept.
        partial: How many of them are not known as a whole: PRESENT names what is known.
        deletes: How many of them are gone.
        tied: The first ties, at most 5. With any, `rows` depend on the order in which the events came (`delivery`), and archives' are not
            to be landed.
        tied_count: How many pairs of a key and a place have different events.
    """

    rows: pa.Table
    partial: int
    deletes: int
    tied: tuple[Tie, ...] = ()
    tied_count: int = 0
