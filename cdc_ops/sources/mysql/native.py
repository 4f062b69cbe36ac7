"""What the native reader of MySQL and MariaDB selects: the values of the JDBC read, by expressions that cost the server less.

Over the text protocol a date is sent as it is stored, and the reader counts its days; JDBC drivers bend dates, so for them the server has
to count. What travels on to Spark is the same. Pure: no connection is opened; the reading itself is `cdc_ops.sources.mysql.wire`.
"""

from typing import Final

from cdc_ops.sources.base import NativeRead
from cdc_ops.sources.mysql.session import Address
from cdc_ops.sources.sql.selected import Selected, select_statements

_READER: Final = "cdc_ops.sources.mysql.wire:read_batches"
_BENT_AS_TEXT: Final = frozenset(("float", "double"))


def native_read(address: Address, table: str, columns: tuple[Selected, ...], slices: tuple[str, ...]) -> NativeRead:
    """Builds the read of some slices of a table.

    Args:
        address: Of the server.
        table: Its quoted name.
        columns: What is read; `why_not_native` has nothing against them.
        slices: Conditions, one per connection; () for the whole table.
    """
    return NativeRead(
        reader=_READER,
        url=address.url,
        statements=select_statements(columns, table, slices),
        columns=tuple(one.native for one in columns),
    )


def why_not_native(columns: tuple[Selected, ...]) -> str:
    """Returns why columns are exact only over JDBC, "" if they are also natively: servers round computed FLOAT and DOUBLE as text."""
    bent = [one.column.name for one in columns if one.is_computed and one.mapping.carried_as in _BENT_AS_TEXT]
    return f"the server sends the computed FLOAT or DOUBLE column {bent[0]!r} exactly only over JDBC" if bent else ""
