"""The columns of a result against those that a native reader was planned for: their number, and the types that the server sends them in."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from cdc_ops.errors import SchemaChangedError
from cdc_ops.sources.base import NativeColumn
from cdc_ops.sources.sql.session import NOTHING

Sent = TypeVar("Sent")
"""How a server tells the type of a column of a result."""


def check_result(place: str, columns: Sequence[NativeColumn], sent: Sequence[Sent], is_read: Callable[[NativeColumn, Sent], bool]) -> None:
    """Refuses a result that is not the planned one: bytes of another type can be a value of the planned type too, and another one.

    Args:
        place: Where the server is.
        columns: What was planned.
        sent: What the server describes, before it sends rows.
        is_read: Whether values of a column that is sent so are read as they are meant.

    Raises:
        SchemaChangedError: the table was altered after the plan.
    """
    if len(sent) != len(columns):
        raise _altered(place, f"The result has {len(sent)} columns in place of {len(columns)}.")
    for column, found in zip(columns, sent, strict=True):
        if not is_read(column, found):
            raise _altered(place, f"Column {column.name!r} of the result, which is read as {column.carried}, comes as type {found}.")


def _altered(place: str, why: str) -> SchemaChangedError:
    return SchemaChangedError(
        f"The database server at {place} answers with other columns than were planned.",
        why=why,
        data=NOTHING,
        next="Nothing to do: the next run reads with the columns that the table has then.",
    )
