"""Records of tables that a pipeline file says nothing of: which tables it speaks of, and what was found of others. Pure."""

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.pipeline.archive_config import OnUnknownTable
from cdc_ops.errors import UnknownTablesError

SHOWN: Final = 10
"""Tables that are named; of more there is the number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTables:
    """The tables that a pipeline file speaks of, by its own entries: short, however many tables they match.

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
        """The entries that are no patterns."""
        return tuple(entry for entry in self.entries if not _is_pattern(entry))

    @property
    def expression(self) -> str:
        """A regular expression of Java's for what the patterns cover, "" if there is none."""
        found = [fnmatch.translate(entry).removesuffix("\\Z") for entry in self.entries if _is_pattern(entry)]
        return f"^(?:{'|'.join(found)})\\z" if found else ""

    def like(self, name: str) -> str:
        """Returns the entry that a table's name would fit if case did not count, "" if there is none."""
        return next((entry for entry in self.entries if fnmatch.fnmatchcase(name.lower(), entry.lower())), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownTable:
    """What was found of one table that is not known.

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
    """What was found of tables that are not known.

    Args:
        shown: Those with the most records.
        tables: How many there are.
        records: Of all of them.
    """

    shown: tuple[UnknownTable, ...] = ()
    tables: int = 0
    records: int = 0

    @classmethod
    def of(cls, found: Iterable[tuple[str, int]], known: KnownTables) -> "UnknownTables":
        """Returns what was found, by names and numbers of records."""
        every = sorted(found, key=lambda item: (-item[1], item[0]))
        shown = tuple(UnknownTable(name=name, records=records, like=known.like(name)) for name, records in every[:SHOWN])
        return cls(shown=shown, tables=len(every), records=sum(records for _, records in every))

    @classmethod
    def total(cls, parts: Iterable["UnknownTables"]) -> "UnknownTables":
        """Returns what several operations of a table found; a table that is not among those shown of each may count twice."""
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
    def told(self) -> str:
        """What was found, in words; "" for nothing."""
        if not self.tables:
            return ""
        named = [f"{item.records:,} of {item.name}{_exactly(item)}" for item in self.shown]
        rest = self.tables - len(self.shown)
        return ", ".join([*named, *([f"and others of {rest:,} more tables"] if rest else [])])

    @property
    def warning(self) -> str:
        """What a run says of them, "" if there is nothing to say."""
        if not self.tables:
            return ""
        return (
            f"records of tables that the pipeline file does not speak of: {self.told}; name a table under 'tables', with 'exclude: true' to"
            " hear no more of it"
        )


NONE_UNKNOWN: Final = UnknownTables()


def unknown_tables_error(table: str, url: str, found: UnknownTables) -> UnknownTablesError:
    """Returns the error of a table whose folder has records of tables that the pipeline file does not speak of."""
    return UnknownTablesError(
        f"The files of {table} hold records of tables that the pipeline file does not speak of: {found.told}.",
        why=f"'unknown_tables: fail' of 'archive' stops the tables of {url} then.",
        data="Nothing of this batch was written; the watermark stays.",
        next="Name these tables under 'tables', or with 'exclude: true' if they are not wanted, and run again: the same files are read."
        " 'unknown_tables: ignore' goes on and says how many there were; 'quarantine' sets them aside.",
    )


def _is_pattern(entry: str) -> bool:
    return any(sign in entry for sign in "*?[")


def _exactly(item: UnknownTable) -> str:
    return f" (names are compared exactly, and the file has {item.like!r})" if item.like else ""
