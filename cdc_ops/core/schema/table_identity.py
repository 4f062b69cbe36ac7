"""Whether a table at the source is the one that was copied, on the server that it was copied from, as far as the server can tell. Pure.

A name is not a table: `RENAME TABLE t TO away; CREATE TABLE t ...` puts another table under it, whose rows below the watermark no increment
reads. An address is not a server: after a failover another one answers there, whose clock or counters may be behind the watermark, and that
may lack the last commits of the old one. What is known of both travels in the table's commits, and each plan compares it with what the
server says now.
"""

import enum
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIdentity:
    """What the catalog of a server tells tables of one name apart by.

    Args:
        made: Postgres: the table's oid. MySQL, MariaDB: when it was made or rebuilt, UTC. "" = not known.
        server: The only server on which `made` can be compared; "" = wherever the table is.
        exact: Another `made` is another table. If not, it may also be the same table, altered.
        number: InnoDB's number of the table on that server, which stays through what alters it in place; "" = not known.
        origin: The server, or the cluster, by whose clocks and counters rows are stamped; "" = not known.
    """

    made: str = ""
    server: str = ""
    exact: bool = False
    number: str = ""
    origin: str = ""


OF_A_NUMBER: Final = "server_id "
"""What the origin of a MariaDB begins with: servers that replicate from each other have different numbers, others may have the same."""

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


def has_moved(recorded: TableIdentity, present: TableIdentity) -> bool:
    """True if rows are stamped by another server than the one that the watermark comes from; false where there is nothing to compare.

    A MariaDB whose host and whose table's time both differ is another one under the same number. One of them alone is not enough: a server
    in a container gets another host's name with each container, and a table is altered.
    """
    if not recorded.origin or not present.origin:
        return False
    if recorded.origin != present.origin:
        return True
    elsewhere = recorded.server != present.server and recorded.made != present.made and bool(recorded.made and present.made)
    return elsewhere and _is_only_a_number(recorded) and _is_only_a_number(present)


def _is_only_a_number(one: TableIdentity) -> bool:
    """True for the table of a MariaDB that stamps its rows itself; replicas have the number of the server that they follow."""
    return one.origin.startswith(OF_A_NUMBER) and one.server.endswith(f"/{one.origin.removeprefix(OF_A_NUMBER)}")


def identity_after(recorded: TableIdentity, present: TableIdentity, *, whole: bool, accepted: bool = False) -> TableIdentity:
    """Returns the table that the lake stands for after an operation: what is suspected stays so until all rows were read or compared.

    Args:
        recorded: The one before it.
        present: The one that it reads.
        whole: It reads all rows, or compares all of their values.
        accepted: Somebody has said that the server that answers now goes on where the other one ended.
    """
    if has_moved(recorded, present) and not (whole or accepted):
        return recorded
    origin = present.origin or recorded.origin
    suspected = compare_identity(recorded, present) in (Sameness.OTHER, Sameness.UNSURE)
    return replace(recorded if suspected and not whole else present, origin=origin)
