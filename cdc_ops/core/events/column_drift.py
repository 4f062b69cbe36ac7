"""Schema drift in the events of an archive: columns that events lack, unknown columns, and statements that changed the table. Pure.

No event tells what an ALTER did to rows that it wrote no events for: the default of an added column, the values under a column's old name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.events.ddl_changes import WITHOUT_EVENTS, DdlChange, TableChangeKind
from cdc_ops.core.schema.declared_tables import START_NEW_PIPELINE
from cdc_ops.core.schema.schema_evolution import COPY_ANEW

SHOWN: Final = 3
"""Statements that a run shows."""
CHANGES_SHOWN: Final = 8
"""Changes of columns that a run shows, those first that left something unread."""
NAMES_SHOWN: Final = 20
"""Columns that nobody has declared that a run shows."""
STATEMENT_LENGTH: Final = 300
"""Characters that are kept of a statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDrift:
    """The schema drift in the events of one or more operations.

    Args:
        lacking: Columns that the source has, and that events of new rows do not speak of; NULL stands in them.
        rows: Events of new rows that lack one of them.
        unmapped: Names in those events that the table does not have.
        statements: What changed the table itself and is not understood, in the words of its source, cut; without the marks of a snapshot.
        changes: What statements that are understood did.
        undeclared: Of a table whose columns the pipeline file declares: what events have besides.
        declared: True if it does, so that there is no source to read anything from.
        keeps_versions: True for SCD type 2: cdc-ops cannot read rows of the table again.
    """

    lacking: tuple[str, ...] = ()
    rows: int = 0
    unmapped: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    changes: tuple[DdlChange, ...] = ()
    undeclared: tuple[str, ...] = ()
    declared: bool = False
    keeps_versions: bool = False

    @classmethod
    def total(cls, parts: Iterable["ColumnDrift"]) -> "ColumnDrift":
        """Returns the sum of several operations."""
        found = tuple(parts)
        return cls(
            lacking=tuple(dict.fromkeys(name for part in found for name in part.lacking)),
            rows=sum(part.rows for part in found),
            unmapped=tuple(sorted({name for part in found for name in part.unmapped})),
            statements=tuple(dict.fromkeys(text for part in found for text in part.statements)),
            changes=tuple(dict.fromkeys(change for part in found for change in part.changes)),
            undeclared=tuple(sorted({name for part in found for name in part.undeclared})),
            declared=any(part.declared for part in found),
            keeps_versions=any(part.keeps_versions for part in found),
        )

    @property
    def warning(self) -> str:
        """The warning of the run, "" if there is none; `alert` is separate."""
        told = (self._of_rows(), self._of_undeclared(), self._of_changes(), self._remedy(), self._of_statements())
        return "; ".join(filter(None, told))

    @property
    def alert(self) -> str:
        """The alert for statements that removed or replaced rows without events, "" if there are none."""
        found = [change for change in self.changes if change.kind in WITHOUT_EVENTS]
        if not found:
            return ""
        remedy = (
            "'cdc-ops reconcile' compares the table with its source and deletes rows that the source lacks, 'cdc-ops resync --mode full'"
            " reads the whole table again"
        )
        if self.keeps_versions:
            remedy = f"to start the history again, {COPY_ANEW}"
        return (
            f"statements in the archive removed rows without events: {_first(map(str, found))}; the lake keeps the rows from before:"
            f" {START_NEW_PIPELINE if self.declared else remedy}"
        )

    def _of_rows(self) -> str:
        if not self.lacking:
            return ""
        named = ", ".join(map(repr, self.lacking))
        unknown = ", ".join(map(repr, self.unmapped))
        has = "the pipeline file declares" if self.declared else "the source has"
        others = f". They have {unknown}, which the table lacks: if a column was renamed, set 'renamed'" if unknown else ""
        return (
            f"{self.rows:,} events of new rows lack columns that {has}: {named} is NULL in these rows; the events are older"
            f" than the column, or the tool does not write it{others}"
        )

    def _of_undeclared(self) -> str:
        if not self.undeclared:
            return ""
        shown = _first(map(repr, self.undeclared), NAMES_SHOWN, ", ")
        return (
            f"events have columns that the pipeline file does not declare: {shown}; declare them in 'tables' of the source, and later"
            " events fill them; to exclude a column, also list it in 'except_column_list'"
        )

    def _of_changes(self) -> str:
        found = [change for change in self.changes if change.kind not in WITHOUT_EVENTS]
        if not found:
            return ""
        cast = any(change.kind is TableChangeKind.RETYPED for change in found)
        verify = "; such a statement may cast values without events: 'cdc-ops verify' finds them" if cast and not self.declared else ""
        shown = _first(map(str, sorted(found, key=lambda change: not change.unread)), CHANGES_SHOWN)
        return f"statements in the archive changed the table: {shown}{verify}"

    def _remedy(self) -> str:
        columns = dict.fromkeys((*self.lacking, *(name for change in self.changes for name in change.unread)))
        if not columns or self.declared:
            return ""
        if self.keeps_versions:
            kept = f"older rows keep their values in {', '.join(columns)} until they change"
            return f"{kept}: no command reads rows again for a table with versions (SCD type 2); to start its history again, {COPY_ANEW}"
        return f"'cdc-ops backfill --columns {','.join(columns)}' reads these columns of older rows from the source"

    def _of_statements(self) -> str:
        if not self.statements:
            return ""
        shown = _first(f"«{text}»" for text in self.statements)
        return (
            f"cdc-ops cannot parse some statements of the archive: {shown}; their effects on rows without events"
            " (defaults, renamed columns, rows of a dropped table) are unknown"
            + (": declare the current columns" if self.declared else ": 'cdc-ops verify' finds it")
        )


def _first(texts: Iterable[str], shown: int = SHOWN, between: str = "; ") -> str:
    """Returns the first of many texts, and the number of further ones."""
    found = tuple(texts)
    more = f" and {len(found) - shown:,} more" if len(found) > shown else ""
    return between.join(found[:shown]) + more


NO_DRIFT: Final = ColumnDrift()
