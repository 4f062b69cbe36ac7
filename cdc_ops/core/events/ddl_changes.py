"""Changes of a table by DDL statements in an archive, and earlier names of its columns. Pure.

    text -> events.ddl -> DdlChange, ... -> renamings: under which name events from before a statement have a column of now
                                            -> told: what the run says of it

A statement that is not understood may have done anything: nothing is concluded across it.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final


class TableChangeKind(enum.StrEnum):
    """The kind of a DDL change."""

    ADDED = "added"
    DROPPED = "dropped"
    RENAMED = "renamed"
    RETYPED = "retyped"
    TABLE_CREATED = "table-created"
    TABLE_DROPPED = "table-dropped"
    TABLE_RENAMED = "table-renamed"
    """The table was renamed; a table that has the name later is another table."""
    TABLE_REPLACED = "table-replaced"
    """Another table was renamed to this table's name."""
    TRUNCATED = "truncated"


OTHER_TABLE: Final = (
    TableChangeKind.TABLE_CREATED,
    TableChangeKind.TABLE_DROPPED,
    TableChangeKind.TABLE_RENAMED,
    TableChangeKind.TABLE_REPLACED,
)
"""After them the rows are those of another table, and its columns have nothing to do with the earlier ones."""


WITHOUT_EVENTS: Final = (
    TableChangeKind.TABLE_DROPPED,
    TableChangeKind.TABLE_RENAMED,
    TableChangeKind.TABLE_REPLACED,
    TableChangeKind.TRUNCATED,
)
"""Changes that remove or replace rows without events."""

ONLY_TAKES_AWAY: Final = (TableChangeKind.TABLE_DROPPED, TableChangeKind.TRUNCATED)
"""Changes that add no rows: an empty table stays complete."""

_LEAVE_VALUES: Final = (TableChangeKind.ADDED, TableChangeKind.DROPPED, TableChangeKind.RENAMED)
"""After them rows without later events may have other values than the source, in columns that are named by them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DdlChange:
    """One change of a table by a DDL statement.

    Args:
        kind: What.
        column: The column, by the name that it has afterwards; of a dropped one, that it had; "" for the table itself.
        other: The name that it had before; for the table its new name, or the name of the table that took its place.
        detail: Of an added column what rows that were there got, as the statement says it, "" = NULL; of a retyped one the type.
        conditional: The statement says IF EXISTS or IF NOT EXISTS of it, so that it may have done nothing.
        place: Where the statement stands in the table's order, for people.
        unread: Columns of now that rows without later events have other values in, or none.
    """

    kind: TableChangeKind
    column: str = ""
    other: str = ""
    detail: str = ""
    conditional: bool = False
    place: str = ""
    unread: tuple[str, ...] = ()

    def __str__(self) -> str:
        at = f" ({self.place})" if self.place else ""
        names = "their present names" if self.unread else "the new name"
        again = "; the table now has another column of that name" if self.unread else ""
        return {
            TableChangeKind.ADDED: f"column {self.column!r} was added with {self.detail or 'NULL'}{at}",
            TableChangeKind.DROPPED: f"column {self.column!r} was dropped{at}{again}",
            TableChangeKind.RENAMED: f"column {self.other!r} was renamed to {self.column!r}{at}: older events were read under {names}",
            TableChangeKind.RETYPED: f"column {self.column!r} changed its type to {self.detail}{at}",
            TableChangeKind.TABLE_CREATED: f"the table was created{at}",
            TableChangeKind.TABLE_DROPPED: f"the table was dropped{at}",
            TableChangeKind.TABLE_RENAMED: f"the table was renamed to {self.other!r}{at}",
            TableChangeKind.TABLE_REPLACED: f"table {self.other!r} was renamed to the name of this table{at}",
            TableChangeKind.TRUNCATED: f"TRUNCATE emptied the table{at} without an event",
        }[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement among the events of a table.

    Args:
        text: As it came.
        place: Its position, as that of events; () = it is not known.
        changes: What it did to the table, in its order; None = it is not understood.
        at: Its time (UTC) by the source's clock, None if the record does not say it.
    """

    text: str
    place: tuple[int, ...]
    changes: tuple[DdlChange, ...] | None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Renaming:
    """Events of a stretch of a table's order have a column under another name.

    Args:
        old: The name in these events, in lower case.
        new: The column of now.
        since: Position from which on; () = from the beginning.
        until: Position before which.
    """

    old: str
    new: str
    since: tuple[int, ...]
    until: tuple[int, ...]


def renamings(statements: Iterable[Statement], columns: Iterable[str]) -> tuple[Renaming, ...]:
    """Returns the column names in events from before the statements.

    Told backwards from the columns of now, stretch by stretch. Nothing is said where one of the two names stood for another column, then or
    now, nor of anything before a statement that is not understood, that begins another table, or whose place is not its own.

    Args:
        statements: All that the batch has of this table.
        columns: The table's columns now.
    """
    now: dict[str, str | None] = {name.lower(): name for name in columns}
    ordered, names, found = sorted((one for one in statements if one.changes != ()), key=lambda one: one.place), now, list[Renaming]()
    if any(not one.place for one in ordered):
        return ()
    for index in range(len(ordered) - 1, -1, -1):
        one, since = ordered[index], ordered[index - 1].place if index else ()
        if one.changes is None or one.place == since or any(change.kind in OTHER_TABLE for change in one.changes):
            break
        names = _before(names, one.changes)
        pairs = ((old, new) for old, new in names.items() if new is not None and old not in now and new.lower() not in names)
        found += [Renaming(old=old, new=new, since=since, until=one.place) for old, new in pairs]
    return tuple(found)


def reportable_changes(
    statements: Iterable[Statement],
    columns: Iterable[str],
    understood: Iterable[tuple[str, tuple[int, ...]]],
    emptied: tuple[int, ...] = (),
) -> tuple[tuple[Statement, DdlChange], ...]:
    """Returns the changes that a run reports: those that leave wrong rows or unread columns.

    Args:
        statements: All that the batch has of this table.
        columns: The table's columns now.
        understood: Old names of columns, in lower case, that were read as what they are called now, each with the place before which.
        emptied: Position of the last TRUNCATE among the events; () = there is none.
    """
    now, read = {name.lower(): name for name in columns}, set(understood)
    found: list[tuple[Statement, DdlChange]] = []
    for one in sorted(statements, key=lambda one: one.place):
        for change in one.changes or ():
            named = tuple(now[name.lower()] for name in (change.column, change.other) if name.lower() in now)
            as_now = change.kind is TableChangeKind.RENAMED and (change.other.lower(), one.place) in read
            has_event = change.kind is TableChangeKind.TRUNCATED and bool(emptied) and emptied >= one.place
            if as_now or (_matters(change, named) and not has_event):
                unread = named if change.kind in _LEAVE_VALUES and not as_now else ()
                found.append((one, replace(change, unread=unread)))
    return tuple(found)


def _matters(change: DdlChange, named: tuple[str, ...]) -> bool:
    """True for a change that a run reports; a change of a column counts only if the table still has the column."""
    match change.kind:
        case TableChangeKind.ADDED:
            return bool(named and change.detail)
        case TableChangeKind.RENAMED | TableChangeKind.RETYPED:
            return bool(named)
        case kind:
            return kind is not TableChangeKind.TABLE_CREATED


def _before(names: Mapping[str, str | None], changes: tuple[DdlChange, ...]) -> dict[str, str | None]:
    """Returns which column of now each name stood for before a statement, all of whose parts speak of the names from before it."""
    before = dict(names)
    of = {kind: [change for change in changes if change.kind is kind] for kind in TableChangeKind}
    for change in (*of[TableChangeKind.ADDED], *of[TableChangeKind.RENAMED]):
        if not change.conditional:
            before.pop(change.column.lower(), None)
    before |= {change.column.lower(): None for change in of[TableChangeKind.DROPPED]}
    return before | {change.other.lower(): names.get(change.column.lower()) for change in of[TableChangeKind.RENAMED]}
