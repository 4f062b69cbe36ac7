"""Archived records of tables that a pipeline file does not name. Pure."""

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.pipeline.archive_config import OnUnknownTable
from cdc_ops.errors import UnknownTablesError

SHOWN: Final = 10
"""The number of tables that messages name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTables:
    """The tables that a pipeline file names, as its entries: short, however many tables match.

    A table is known if an entry names it or a pattern covers it, whatever the entry says: also one that is read by query, or left out by
    `exclude: true`. Names are compared exactly, as everywhere.

    Args:
        entries: Names and patterns of `schema.table`, those with `exclude: true` too.
        policy: What is done about records of other tables.
    """

    entries: tuple[str, ...]
    policy: OnUnknownTable = OnUnknownTable.IGNORE

    @property
    def names(self) -> tuple[str, ...]:
        """The entries that are not patterns."""
        return tuple(entry for entry in self.entries if not _is_pattern(entry))

    @property
    def expression(self) -> str:
        """A Java regular expression for the patterns, "" without patterns."""
        found = [fnmatch.translate(entry).removesuffix("\\Z") for entry in self.entries if _is_pattern(entry)]
        return f"^(?:{'|'.join(found)})\\z" if found else ""

    def knows(self, name: str) -> bool:
        """True for a table that an entry names or matches."""
        return any(fnmatch.fnmatchcase(name, entry) if _is_pattern(entry) else name == entry for entry in self.entries)

    def like(self, name: str) -> str:
        """Returns the entry that matches a table's name except for its case, "" if there is none."""
        return next((entry for entry in self.entries if fnmatch.fnmatchcase(name.lower(), entry.lower())), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownTable:
    """The number of records of one unknown table.

    Args:
        name: As the records spell it.
        records: How many.
        like: An entry of the pipeline file that it would fit if case did not count.
    """

    name: str
    records: int
    like: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownTables:
    """The numbers of records of unknown tables.

    Args:
        shown: Those with the most records.
        tables: How many there are.
        records: Of all of them.
    """

    shown: tuple[UnknownTable, ...] = ()
    tables: int = 0
    records: int = 0

    @classmethod
    def of(cls, counts: Iterable[tuple[str, int]], known: KnownTables) -> "UnknownTables":
        """Returns the unknown tables of pairs of a table's name and its number of records."""
        every = sorted(counts, key=lambda item: (-item[1], item[0]))
        shown = tuple(UnknownTable(name=name, records=records, like=known.like(name)) for name, records in every[:SHOWN])
        return cls(shown=shown, tables=len(every), records=sum(records for _, records in every))

    @classmethod
    def total(cls, parts: Iterable["UnknownTables"]) -> "UnknownTables":
        """Returns the sum of several operations; a table that is not shown by each of them may count twice."""
        found = [part for part in parts if part.tables]
        if len(found) < 2:
            return found[0] if found else NONE_UNKNOWN
        records: dict[str, UnknownTable] = {}
        for item in (item for part in found for item in part.shown):
            before = records.get(item.name)
            records[item.name] = UnknownTable(
                name=item.name, records=item.records + (before.records if before else 0), like=item.like or (before.like if before else "")
            )
        shown = tuple(sorted(records.values(), key=lambda item: (-item.records, item.name)))
        unseen = sum(part.tables - len(part.shown) for part in found)
        return cls(shown=shown[:SHOWN], tables=len(records) + unseen, records=sum(part.records for part in found))

    @property
    def summary(self) -> str:
        """Returns the numbers of records by table, as text; "" without records."""
        if not self.tables:
            return ""
        named = [f"{item.records:,} of {item.name}{_exactly(item)}" for item in self.shown]
        rest = self.tables - len(self.shown)
        return ", ".join([*named, *([f"and others of {rest:,} more tables"] if rest else [])])

    @property
    def warning(self) -> str:
        """The warning of a run, "" if there is none."""
        if not self.tables:
            return ""
        return (
            f"the archive has records of tables that the pipeline file does not name: {self.summary}; to end this warning, add the table to"
            " 'tables', with 'exclude: true' if it is not wanted"
        )


NONE_UNKNOWN: Final = UnknownTables()


def unknown_tables_error(table: str, url: str, unknown: UnknownTables) -> UnknownTablesError:
    """Returns the error of a table whose folder has records of tables that the pipeline file does not name."""
    return UnknownTablesError(
        f"The files of {table} hold records of tables that the pipeline file does not name: {unknown.summary}.",
        why=f"'unknown_tables: fail' of 'archive' stops all tables of {url} in this case.",
        data="Nothing of this batch was written; the watermark stays.",
        next="Add these tables to 'tables', with 'exclude: true' if they are not wanted, and run again: the run reads the same files."
        " 'unknown_tables: ignore' skips and counts such records; 'quarantine' puts them into the quarantine.",
    )


def _is_pattern(entry: str) -> bool:
    return any(sign in entry for sign in "*?[")


def _exactly(item: UnknownTable) -> str:
    return f" (the pipeline file has {item.like!r}; upper and lower case count)" if item.like else ""
