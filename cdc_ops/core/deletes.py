"""What becomes in the lake of a row that is deleted at the source: removed, kept and marked, or left as it is. Pure."""

import enum
from collections.abc import Iterable
from typing import Final

from cdc_ops.core.stored_as import is_own


class Deletes(enum.StrEnum):
    """What becomes of a row in the lake that the source has deleted."""

    HARD = "hard"
    """It is deleted there too."""
    SOFT = "soft"
    """It stays with its last values, and its column `_deleted` is true until the source has the row again."""
    IGNORE = "ignore"
    """It stays as it is: the table is what it would be if nobody had ever deleted a row."""


DELETED_COLUMN: Final = "_deleted"
"""Column of a Delta table with soft deletes: true for deleted rows, false for living ones. NULL counts as living: a table that was hard
before has it in the rows that nobody has written since."""


DELETE_MARK: Final = "__cdc_delete"
"""Column of a batch, never of a table: true for rows that are deleted and not inserted."""


def source_columns(stored: Iterable[tuple[str, str]], deleted_column: str) -> tuple[tuple[str, str], ...]:
    """Returns those columns of a Delta table, each name and type, that came from the source.

    Args:
        stored: All of them.
        deleted_column: The column that marks deleted rows, "" if there is none.
    """
    return tuple((name, kind) for name, kind in stored if name.lower() != deleted_column.lower() and not is_own(name))
