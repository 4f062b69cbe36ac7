"""What becomes in the lake of a row that is deleted at the source: removed, kept and marked, or left as it is. Pure."""

import enum
from collections.abc import Iterable
from typing import Final

from cdc_ops.core.apply.metadata_columns import MetadataColumns


class Deletes(enum.StrEnum):
    """What becomes of a row in the lake that the source has deleted."""

    HARD = "hard"
    """It is deleted there too."""
    SOFT = "soft"
    """It stays with its last values, and its column `_deleted` is true until the source has the row again."""
    IGNORE = "ignore"
    """It stays as it is: the table is what it would be if nobody had ever deleted a row."""


DELETE_MARK: Final = "__cdc_delete"
"""Column of a batch, never of a table: true for rows that are deleted and not inserted."""


def source_columns(stored: Iterable[tuple[str, str]], deleted_column: str, own: Iterable[MetadataColumns]) -> tuple[tuple[str, str], ...]:
    """Returns those columns of a Delta table, each name and type, that came from the source.

    Args:
        stored: All of them.
        deleted_column: The column that marks deleted rows, "" if there is none.
        own: What the others are called that cdc-ops adds, or were before.
    """
    names = tuple(own)
    from_source = (one for one in stored if one[0].lower() != deleted_column.lower())
    return tuple((name, kind) for name, kind in from_source if not any(one.is_own(name) for one in names))
