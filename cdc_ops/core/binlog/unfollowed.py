"""Changes of a binlog that nobody can follow row by row: statements in place of rows, and XA transactions that another file decides. Pure.

They concern the tables that they touch, and no other one: see `events.statement_tables`. For such a table the place is a gap.
"""

from dataclasses import dataclass
from typing import Final

MOST: Final = 1000
"""Changes of one file that are told apart; of those behind them nothing is known but their place."""
LONGEST: Final = 4_000
"""Characters of a statement that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfollowedChange:
    """One change.

    Args:
        start: Where its transaction begins in its file.
        end: Behind the end of its transaction.
        database: The default database of its session.
        sql: The statement, or its begin if it is longer than `LONGEST`; "" = it is not known, or there is none.
        is_cut: Only its begin is there.
        tables: Database and name of each table that it changes; None = the statement tells.
    """

    start: int
    end: int
    database: str = ""
    sql: str = ""
    is_cut: bool = False
    tables: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, slots=True)
class Unfollowed:
    """The changes of a file that cannot be followed, in their order; more than `MOST` become one that concerns every table."""

    changes: list[UnfollowedChange]

    def add(self, start: int, end: int, statements: list[tuple[str, str]]) -> None:
        """Adds the statements of a transaction, each with its default database."""
        for database, sql in dict.fromkeys(statements):
            is_cut = len(sql) > LONGEST
            self._append(UnfollowedChange(start=start, end=end, database=database, sql=sql[:LONGEST], is_cut=is_cut))

    def _append(self, change: UnfollowedChange) -> None:
        if len(self.changes) < MOST:
            self.changes.append(change)
        else:
            first = self.changes.pop() if len(self.changes) > MOST else change
            self.changes.append(UnfollowedChange(start=first.start, end=change.end))
