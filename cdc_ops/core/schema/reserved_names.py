"""Names that a column of a Delta table cannot have: Delta or cdc-ops has columns of these names beside it, or cannot write them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

OF_THE_FEED: Final = ("_change_type", "_commit_version", "_commit_timestamp")
"""What Delta's change data feed adds to the columns of a table; Delta refuses a table that has one of its own."""
OURS: Final = "__cdc_"
"""How columns begin that cdc-ops adds to the rows of a batch on their way into the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedName:
    """A column whose name cannot be, and why, as a sentence."""

    column: str
    why: str


def reserved_name(names: Iterable[str], *, change_feed: bool) -> ReservedName | None:
    """Returns the first of some columns whose name cannot be, None if none is; names are compared without regard to case, as by Delta.

    Args:
        names: The columns.
        change_feed: Delta records the changes of the table.

    >>> reserved_name(("id", "_Change_Type"), change_feed=True).column, reserved_name(("id", "_change_type"), change_feed=False)
    ('_Change_Type', None)
    """
    for name in names:
        if name.lower() in OF_THE_FEED and change_feed:
            return ReservedName(column=name, why="Delta's change data feed ('change_feed', 'event_history') has a column of this name.")
        if "`" in name and change_feed:
            why = "Delta's MERGE fails on a name with a backtick while it records changes ('change_feed', 'event_history')."
            return ReservedName(column=name, why=why)
        if name.lower().startswith(OURS):
            return ReservedName(column=name, why=f"cdc-ops needs names that begin with {OURS} for the rows of a batch.")
    return None
