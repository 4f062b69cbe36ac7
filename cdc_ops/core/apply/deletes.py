"""Delete policies: a row that the source deleted is removed from the lake, marked as deleted, or kept. Pure."""

import enum
from collections.abc import Iterable
from typing import Final

from cdc_ops.core.apply.metadata_columns import MetadataColumns


class Deletes(enum.StrEnum):
    """How the lake treats a row that the source deleted."""

    HARD = "hard"
    """The row is deleted in the lake."""
    SOFT = "soft"
    """The row stays with its last values; its column `_deleted` is true until the source has the row again."""
    IGNORE = "ignore"
    """The row stays unchanged: the table ignores deletes."""


DELETE_MARK: Final = "__cdc_delete"
"""Column of a batch, never of a table: true for rows to delete."""


def source_columns(
    stored: Iterable[tuple[str, str]], deleted_column: str, metadata: Iterable[MetadataColumns]
) -> tuple[tuple[str, str], ...]:
    """Returns name and type of the columns of a Delta table that come from the source.

    Args:
        stored: All of them.
        deleted_column: The column that marks deleted rows, "" if there is none.
        metadata: What the others are called that cdc-ops adds, or were before.
    """
    names = tuple(metadata)
    from_source = (one for one in stored if one[0].lower() != deleted_column.lower())
    return tuple((name, kind) for name, kind in from_source if not any(one.is_own(name) for one in names))
