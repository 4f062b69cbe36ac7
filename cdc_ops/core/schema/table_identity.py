"""Whether a table at the source is the one that was copied, as far as the server's catalog can tell. Pure.

A name is not a table: `RENAME TABLE t TO away; CREATE TABLE t ...` puts another table under it, whose rows below the watermark no increment
reads. What is known of a table when it is read as a whole travels in its commits, and each plan compares it with what the catalog says now.
"""

import enum
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIdentity:
    """What the catalog of a server tells tables of one name apart by.

    Args:
        made: Postgres: the table's oid. MySQL, MariaDB: when it was made or rebuilt, UTC. "" = not known.
        server: The only server on which `made` can be compared; "" = wherever the table is.
        exact: Another `made` is another table. If not, it may also be the same table, altered.
        number: InnoDB's number of the table on that server, which stays through what alters it in place; "" = not known.
    """

    made: str = ""
    server: str = ""
    exact: bool = False
    number: str = ""


NO_IDENTITY: Final = TableIdentity()
"""Of a table of which nothing is known, and of one whose rows no cursor follows."""


class Sameness(enum.Enum):
    """How the table that was copied and the one at the source stand to each other."""

    SAME = "same"
    OTHER = "other"
    UNSURE = "unsure"
    """Another table, or the same one rebuilt: the catalog cannot tell."""
    UNKNOWN = "unknown"
    """There is nothing to compare: nothing was recorded, or it was on another server."""


def compare_identity(recorded: TableIdentity, present: TableIdentity) -> Sameness:
    """Compares the table that was copied with the one that is at the source now."""
    if not recorded.made or not present.made or recorded.exact != present.exact:
        return Sameness.UNKNOWN
    if recorded.made == present.made:
        return Sameness.SAME
    if present.exact:
        return Sameness.OTHER
    if recorded.server != present.server:
        return Sameness.UNKNOWN
    return Sameness.SAME if recorded.number and recorded.number == present.number else Sameness.UNSURE


def identity_after(recorded: TableIdentity, present: TableIdentity, *, whole: bool) -> TableIdentity:
    """Returns the table that the lake stands for after an operation: what is suspected stays so until all rows were read or compared.

    Args:
        recorded: The one before it.
        present: The one that it reads.
        whole: It reads all rows, or compares all of their values.
    """
    suspected = compare_identity(recorded, present) in (Sameness.OTHER, Sameness.UNSURE)
    return recorded if suspected and not whole else present
