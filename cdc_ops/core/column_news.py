"""What the events of an archive tell of a table's columns: which of them rows came without, and statements that changed the table. Pure.

No event tells what an ALTER did to rows that it wrote no events for: the default of an added column, the values under a column's old name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SHOWN: Final = 3
"""Statements that a run shows."""
STATEMENT_LENGTH: Final = 300
"""Characters that are kept of a statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnNews:
    """What the events of one operation, or of several, tell of the columns.

    Args:
        lacking: Columns that the source has, and that events of new rows do not speak of; NULL stands in them.
        rows: Events of new rows that lack one of them.
        unmapped: Names in those events that the table does not have.
        statements: What changed the table itself, in the words of its source, cut; without the marks of a snapshot.
    """

    lacking: tuple[str, ...] = ()
    rows: int = 0
    unmapped: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()

    @classmethod
    def total(cls, parts: Iterable["ColumnNews"]) -> "ColumnNews":
        """Adds several operations up."""
        found = tuple(parts)
        return cls(
            lacking=tuple(dict.fromkeys(name for part in found for name in part.lacking)),
            rows=sum(part.rows for part in found),
            unmapped=tuple(sorted({name for part in found for name in part.unmapped})),
            statements=tuple(dict.fromkeys(text for part in found for text in part.statements)),
        )

    @property
    def warning(self) -> str:
        """What the run says of it, "" if there is nothing to say."""
        return "; ".join(filter(None, (self._of_rows(), self._of_statements())))

    def _of_rows(self) -> str:
        if not self.lacking:
            return ""
        named = ", ".join(map(repr, self.lacking))
        strange = ", ".join(map(repr, self.unmapped))
        others = f" They have {strange}, which the table does not have: 'renamed' says what was renamed" if strange else ""
        columns = ",".join(self.lacking)
        return (
            f"{self.rows:,} events of new rows do not speak of columns that the source has: NULL stands in {named} of them; they are older"
            f" than the column, or their tool does not write it: 'cdc-ops backfill --columns {columns}' reads it from the source.{others}"
        )

    def _of_statements(self) -> str:
        if not self.statements:
            return ""
        shown = "; ".join(f"«{text}»" for text in self.statements[:SHOWN])
        more = f" and {len(self.statements) - SHOWN:,} more" if len(self.statements) > SHOWN else ""
        return (
            f"the archive has statements that changed the table itself: {shown}{more}; what they did to rows without events of their own"
            " (defaults, renamed columns, rows of a table that was dropped) is in no event: 'cdc-ops verify' finds it"
        )


NO_NEWS: Final = ColumnNews()
