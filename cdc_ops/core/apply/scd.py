"""How a Delta table stores changes (SCD type 1 or 2), and the sequence that orders them. Pure.

SCD type 1   one row a key, with the sequence of its last change      a change that is older than the row's is left out
SCD type 2   one row a version, from `__START_AT` to `__END_AT`       a change that is older goes between the versions

The names of types, settings and columns are those of AUTO CDC.
"""

import enum
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cdc_ops.core.apply.metadata_columns import DEFAULT_COLUMNS, END, START, TOUCHED, MetadataColumns
from cdc_ops.core.apply.sequence_by import SequencePart, type_of
from cdc_ops.core.text import quoted

UNPLACED: Final = "CDC_OPS_UNPLACED:"
"""The message of a statement that meets a row whose sequence is NULL."""

POSITION_TYPE: Final = "array<bigint>"
"""The sequence of an event: the numbers of its position, most significant first."""


class SequenceKind(enum.StrEnum):
    """The origin of a change's sequence."""

    POSITION = "position"
    """The event's position in the total order of its archive."""
    COLUMNS = "columns"
    """Columns of the row, or expressions of them (`sequence_by`)."""
    OBSERVED = "observed"
    """The source's clock, in UTC, when the operation was planned that read the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """The order of a table's changes.

    Args:
        kind: Where it comes from.
        type: Its type as Spark SQL DDL.
        columns: What it consists of, most significant first: columns of a row, or expressions of them as the pipeline file has them.
        sql: The same as Spark SQL, where one is an expression; else empty.
        types: Their types as Spark SQL DDL; empty for other kinds.
        reads: The columns that the expressions name; else empty.
    """

    kind: SequenceKind
    type: str
    columns: tuple[str, ...] = ()
    sql: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    @classmethod
    def of(cls, parts: tuple[SequencePart, ...]) -> "Sequence":
        """The sequence of `sequence_by`."""
        plain = all(part.reads == (part.text,) for part in parts)
        return cls(
            kind=SequenceKind.COLUMNS,
            type=type_of(parts),
            columns=tuple(part.text for part in parts),
            sql=() if plain else tuple(part.sql for part in parts),
            types=tuple(part.type for part in parts),
            reads=() if plain else tuple(dict.fromkeys(name for part in parts for name in part.reads)),
        )

    @property
    def parts(self) -> tuple[str, ...]:
        """Spark SQL of what it consists of."""
        return self.sql or tuple(map(quoted, self.columns))

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The columns of a row that it is made from."""
        return self.reads or self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStorage:
    """How a table stores changes.

    Args:
        scd_type: 1 or 2.
        sequence: The order of changes across batches; None for tables of type 1 that take every batch as the newest.
        tracked: Columns whose changes begin a new version; empty = all.
        tombstones: Delta table that remembers deleted keys, "" = they are not remembered.
        tombstone_retention: For how long they are: a change that comes later than that after a delete finds nothing of it.
        ignores_deletes: Rows that are deleted at the source stay as they are.
        nulls_ignored: Columns in which a NULL of an update leaves what is there.
        own: What the columns are called that the source has not.
    """

    scd_type: int = 1
    sequence: Sequence | None = None
    tracked: tuple[str, ...] = ()
    tombstones: str = ""
    tombstone_retention: timedelta = timedelta(days=7)
    ignores_deletes: bool = False
    nulls_ignored: tuple[str, ...] = ()
    own: MetadataColumns = DEFAULT_COLUMNS

    @property
    def keeps_versions(self) -> bool:
        """True for type 2."""
        return self.scd_type == 2

    @property
    def order_columns(self) -> tuple[tuple[str, str], ...]:
        """Name and type of the columns that keep the order of changes."""
        if self.sequence is None:
            return ()
        kind = self.sequence.type
        return ((START, kind), (END, kind), (TOUCHED, f"array<{kind}>")) if self.keeps_versions else ((self.own.sequence, kind),)

    def columns(self, deleted_column: str) -> tuple[tuple[str, str], ...]:
        """Returns name and type of the columns of the Delta table that the source has not, but for `deleted_column` itself."""
        return (*self.order_columns, *self.own.typed_columns(marks_deleted=bool(deleted_column)))


LATEST: Final = TableStorage()
"""One row a key; every batch is newer than the one before."""
