"""What the native reader of Postgres copies: the values of the JDBC read, by expressions that cost the server less.

In a binary COPY a date is a number of days and a time one of microseconds, which the reader moves from the year 2000 to 1970; JDBC
drivers bend dates, so for them the server has to count. What travels on to Spark is the same. Pure: no connection is opened; the reading
itself is `cdc_ops.sources.postgres.native_reader.wire`.
"""

from typing import Final

from cdc_ops.core.schema.server_types.mysql_types import NOT_STORED
from cdc_ops.sources.base import NativeColumn, NativeRead
from cdc_ops.sources.postgres.session import PostgresAddress
from cdc_ops.sources.sql.selected import Selected, select_statements

_READER: Final = "cdc_ops.sources.postgres.native_reader.wire:read_batches"


def native_read(
    address: PostgresAddress, table: str, columns: tuple[Selected, ...], slices: tuple[str, ...], flags: tuple[str, ...]
) -> NativeRead:
    """Builds the read of some slices of a table.

    Args:
        address: Of the server.
        table: Its quoted name.
        columns: What is read.
        slices: Conditions, one per connection; () for the whole table.
        flags: What travels besides, to say which values are none: expressions with their alias, of type bigint.
    """
    marks = (NativeColumn(name=flag.rpartition(" ")[2], carried="bigint", stored="bigint", finish=NOT_STORED) for flag in flags)
    return NativeRead(
        reader=_READER,
        url=address.url,
        statements=select_statements(columns, table, slices, flags),
        columns=(*(one.native for one in columns), *marks),
    )
