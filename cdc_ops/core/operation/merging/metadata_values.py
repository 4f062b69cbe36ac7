"""What a statement writes into the columns that say which commit last wrote a row, and how (`metadata_columns`). Pure.

    MERGE              `i` where a row is inserted, `u` where one is there, `d` where it is marked as deleted
    append, overwrite  `r`, or `d` for rows that are marked

A commit's values are literals of its operation: tried again, it writes the same.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from typing import Final

from cdc_ops.core.apply.metadata_columns import INSTANT_TYPE, MetadataColumns
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.text import quoted


class RowOp(enum.StrEnum):
    """What a commit did to a row; the letters are those of `cdc-ops changes`."""

    INSERT = "i"
    UPDATE = "u"
    DELETE = "d"
    """It is marked as deleted, and stays."""
    READ = "r"
    """It was written with the whole table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataValues:
    """The values of one statement.

    Args:
        own: The columns; nothing is written into those without a name.
        at: Spark SQL literal of `synced_at` and `deleted_at`.
        operation: Number of the operation.
        marker: Column that marks deleted rows, "" if there is none.
    """

    own: MetadataColumns
    at: str
    operation: int
    marker: str = ""

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Name and type of the columns that are written."""
        return self.own.typed_columns(marks_deleted=bool(self.marker))

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(name for name, _ in self.columns)

    def values(self, op: RowOp, *, marked: str = "", marks: bool = True) -> Iterator[tuple[str, str]]:
        """Yields each column with the Spark SQL that it becomes, of its type.

        Args:
            op: What is done to the row, unless it is marked as deleted.
            marked: Whether it is, as Spark SQL; "" = it lives. Of a row that is marked already, target `t`, the time stays.
            marks: The statement says so; False leaves `op` and `deleted_at` as they are.
        """
        own = self.own
        if own.op and marks:
            yield own.op, f"IF({marked}, '{RowOp.DELETE}', '{op}')" if marked else f"'{op}'"
        if own.synced_at:
            yield own.synced_at, self.at
        if own.operation:
            yield own.operation, f"{self.operation}L"
        if self.marker and own.deleted_at and marks:
            there = op is RowOp.UPDATE
            at = f"IF(t.{quoted(self.marker)}, t.{quoted(own.deleted_at)}, {self.at})" if there else self.at
            yield own.deleted_at, f"IF({marked}, {at}, NULL)" if marked else f"CAST(NULL AS {INSTANT_TYPE})"


def metadata_values_of(operation: Operation) -> MetadataValues:
    """Returns what the statement of an operation writes."""
    at = f"TIMESTAMP '{operation.plan.planned_at.astimezone(UTC).strftime('%Y-%m-%d %H:%M:%S.%f')}Z'"
    return MetadataValues(own=operation.apply.stored_as.own, at=at, operation=operation.op_seq, marker=operation.apply.deleted_column)


NO_METADATA_VALUES: Final = MetadataValues(own=MetadataColumns(), at="NULL", operation=0)
