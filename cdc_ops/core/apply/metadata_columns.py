"""The columns that cdc-ops adds to a Delta table, by the names that a pipeline file gives them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

START: Final = "__START_AT"
"""Column of a table of type 2: the sequence from which on the version holds; NULL = from before the first change that is known."""

END: Final = "__END_AT"
"""Column of a table of type 2: the sequence up to which the version holds, without that one; NULL = it is the current one."""

TOUCHED: Final = "_cdc_touched"
"""Column of a table of type 2: sequences of later changes that left all tracked columns of the version as they were, ascending.

Without them a change that comes late and falls between two of them could not be placed.
"""

SEQUENCE: Final = "_cdc_sequence"
"""Column of a table of type 1: the sequence of the row's last change, NULL if it was read at the source without one: older than any.

A batch has the sequence of its rows under this name, whatever the table calls it.
"""

DELETED_COLUMN: Final = "_deleted"
"""Column of a Delta table with soft deletes: true for deleted rows, false for living ones. NULL counts as living: a table that was hard
before has it in the rows that nobody has written since."""

OP_TYPE: Final = "string"
INSTANT_TYPE: Final = "timestamp"
NUMBER_TYPE: Final = "bigint"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataColumns:
    """Names of the columns that cdc-ops adds to a table; "" = the table does not have the column.

    Args:
        op: What the last commit that wrote the row did to it: `i` = inserted, `u` = updated, `d` = marked as deleted, `r` = written with
            the whole table (first load, full resync, replay).
        synced_at: Time by the source's clock (UTC) at which the operation that last wrote the row was planned.
        operation: Number of the operation that last wrote the row, as in `cdc-ops status` and in the Delta commit.
        deleted: True in deleted rows (`deletes: soft`).
        deleted_at: Time by the source's clock (UTC) at which the operation that marked the row as deleted was planned; NULL in living rows.
        sequence: Position of the row's last change in the order of changes, for tables that have one (type 1).
    """

    op: str = ""
    synced_at: str = ""
    operation: str = ""
    deleted: str = DELETED_COLUMN
    deleted_at: str = ""
    sequence: str = SEQUENCE

    @property
    def commit_columns(self) -> tuple[tuple[str, str], ...]:
        """Name and type of the columns that record the commit which last wrote a row; they change even if the row's values do not."""
        told = ((self.op, OP_TYPE), (self.synced_at, INSTANT_TYPE), (self.operation, NUMBER_TYPE))
        return tuple((name, kind) for name, kind in told if name)

    def typed_columns(self, *, marks_deleted: bool) -> tuple[tuple[str, str], ...]:
        """Returns name and type of the columns that record a commit; with `deleted_at` if the table marks deleted rows."""
        at = ((self.deleted_at, INSTANT_TYPE),) if marks_deleted and self.deleted_at else ()
        return (*at, *self.commit_columns)

    @property
    def names(self) -> tuple[str, ...]:
        """All that a table can have of ours but the mark of deleted rows."""
        return (START, END, TOUCHED, SEQUENCE, *(name for name in self._named if name != self.deleted))

    @property
    def _named(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.op, self.synced_at, self.operation, self.deleted, self.deleted_at, self.sequence)))

    def is_own(self, name: str) -> bool:
        """True for the name of a column that cdc-ops adds, the mark of deleted rows left aside."""
        return name.lower() in {own.lower() for own in self.names}

    def problems(self) -> Iterator[str]:
        """Yields the problems of the names."""
        if not self.deleted or not self.sequence:
            yield "'deleted' and 'sequence' of 'metadata_columns' need a name: a table that needs one of these columns cannot do without it"
        if wrong := next((name for name in self._named if not name.isidentifier()), ""):
            yield f"'metadata_columns' names a column {wrong!r}: a name has only letters, digits and _"
        given = [name.lower() for name in (START, END, TOUCHED, *self._named)]
        if twice := next((name for name in given if given.count(name) > 1), ""):
            yield f"'metadata_columns' names two columns {twice!r}"


DEFAULT_COLUMNS: Final = MetadataColumns()
"""What a table has of which nobody says otherwise."""
