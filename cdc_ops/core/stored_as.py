"""How a Delta table stores what is applied to it, and by what order a change is older than another. Pure.

SCD type 1   one row a key, with the sequence of its last change      a change that is older than the row's is left out
SCD type 2   one row a version, from `__START_AT` to `__END_AT`       a change that is older goes between the versions

The names of types, settings and columns are those of AUTO CDC.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cdc_ops.core.tables import TableSchema

SEQUENCE: Final = "_cdc_sequence"
"""Column of a table of type 1: the sequence of the row's last change, NULL if it was read at the source without one: older than any."""

START: Final = "__START_AT"
"""Column of a table of type 2: the sequence from which on the version holds; NULL = from before the first change that is known."""

END: Final = "__END_AT"
"""Column of a table of type 2: the sequence up to which the version holds, without that one; NULL = it is the current one."""

TOUCHED: Final = "_cdc_touched"
"""Column of a table of type 2: sequences of later changes that left all tracked columns of the version as they were, ascending.

Without them a change that comes late and falls between two of them could not be placed.
"""

UNPLACED: Final = "CDC_OPS_UNPLACED:"
"""The message of a statement that meets a row whose sequence is NULL."""

OWN_COLUMNS: Final = (SEQUENCE, START, END, TOUCHED)

POSITION_TYPE: Final = "array<bigint>"
"""The sequence of an event: the numbers of its position, most significant first."""


class SequenceKind(enum.StrEnum):
    """Where the sequence of a change comes from."""

    POSITION = "position"
    """The event's place in the total order of its archive."""
    COLUMNS = "columns"
    """Columns of the row (`sequence_by`)."""
    OBSERVED = "observed"
    """The source's clock when the operation that read the row was planned, UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """The order of a table's changes.

    Args:
        kind: Where it comes from.
        type: Its type as Spark SQL DDL.
        columns: The columns of a row that it consists of, most significant first.
    """

    kind: SequenceKind
    type: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAs:
    """How a table stores what is applied to it.

    Args:
        scd_type: 1 or 2.
        sequence: The order of changes across batches; None for tables of type 1 that take every batch as the newest.
        tracked: Columns whose changes begin a new version; empty = all.
        tombstones: Delta table that remembers deleted keys, "" = they are not remembered.
        late_window: For how long they are: a change that comes later than that after a delete finds nothing of it.
        ignores_deletes: Rows that are deleted at the source stay as they are.
        nulls_ignored: Columns in which a NULL of an update leaves what is there.
    """

    scd_type: int = 1
    sequence: Sequence | None = None
    tracked: tuple[str, ...] = ()
    tombstones: str = ""
    late_window: timedelta = timedelta(days=7)
    ignores_deletes: bool = False
    nulls_ignored: tuple[str, ...] = ()

    @property
    def keeps_versions(self) -> bool:
        """True for type 2."""
        return self.scd_type == 2

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Name and type of the columns of the Delta table that the source has not."""
        if self.sequence is None:
            return ()
        kind = self.sequence.type
        return ((START, kind), (END, kind), (TOUCHED, f"array<{kind}>")) if self.keeps_versions else ((SEQUENCE, kind),)


LATEST: Final = StoredAs()
"""One row a key; every batch is newer than the one before."""


def sequence_type(schema: TableSchema, columns: Iterable[str]) -> str:
    """Returns the type of a sequence of columns: of one its own, of several a struct of them.

    Raises:
        KeyError: the table has no such column.
    """
    types = {column.name.lower(): column.delta_type for column in schema.columns}
    parts = [(name, types[name.lower()]) for name in columns]
    return parts[0][1] if len(parts) == 1 else "struct<" + ",".join(f"{name}:{kind}" for name, kind in parts) + ">"


def is_sortable(delta_type: str) -> bool:
    """True for types whose order is the same everywhere: numbers, dates and times; texts are ordered by collations."""
    return delta_type.lower().startswith(_SORTABLE)


def is_own(name: str) -> bool:
    """True for the name of a column that cdc-ops itself adds to a table."""
    return name.lower() in _LOWER


_SORTABLE: Final = ("tinyint", "smallint", "int", "bigint", "decimal", "date", "timestamp")
_LOWER: Final = frozenset(name.lower() for name in OWN_COLUMNS)
