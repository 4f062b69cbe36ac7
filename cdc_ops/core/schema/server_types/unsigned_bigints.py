"""BIGINT UNSIGNED of MySQL and MariaDB: stored as BIGINT, and as DECIMAL(20,0) from the first value on that a BIGINT does not hold. Pure.

    0 ... 9223372036854775807               BIGINT, which engines compare and join as a machine word
    9223372036854775808 ... 2^64 - 1        DECIMAL(20,0); Delta's type widening changes the column without rewriting its files

Nothing is cast in the hope that it fits. Whoever reads a value into a narrow column fails at the first one that is too large, with a mark
in the failure's text that names the column; the operation then gets the wide type and reads again (`steps.table.columns.wide_columns`).
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from cdc_ops.core.schema.server_types.mysql_types import COLUMN, UNSIGNED_BIGINT_WIDE, TypeMapping, is_unsigned_bigint
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.core.schema.type_widening import canonical_type, holds

NARROW: Final = "bigint"
WIDE: Final = UNSIGNED_BIGINT_WIDE.delta_type
LARGEST: Final = 2**63 - 1
"""The largest value of a narrow column."""

_MARK: Final = "CDC_OPS_TOO_LARGE:"
_FOUND: Final = re.compile(r"(?:\]|Exception:)\s*" + re.escape(_MARK) + r"([0-9a-f]+)")
"""As a failure has it. The text of another failure may show the expression, which has the mark too."""


def is_unsigned(column: Column) -> bool:
    """True for a column that the source declares as BIGINT UNSIGNED."""
    return is_unsigned_bigint(column.source_type)


def is_narrow(column: Column) -> bool:
    """True for such a column that is stored as BIGINT."""
    return is_unsigned(column) and canonical_type(column.delta_type) == NARROW


def is_wide(column: Column) -> bool:
    """True for such a column whose stored type holds all of its values."""
    return is_unsigned(column) and holds(column.delta_type, WIDE)


def widened(columns: Iterable[Column], names: Iterable[str] | None = None) -> tuple[Column, ...]:
    """Returns columns of which the narrow ones among `names` are wide; None = all of them."""
    wanted = None if names is None else {name.lower() for name in names}
    return tuple(
        replace(column, delta_type=WIDE) if is_narrow(column) and (wanted is None or column.name.lower() in wanted) else column
        for column in columns
    )


def widened_schema(schema: TableSchema, names: Iterable[str] | None = None) -> TableSchema:
    """Returns a schema of whose columns the narrow ones among `names` are wide; None = all of them."""
    columns = widened(schema.columns, names)
    return schema if columns == schema.columns else replace(schema, columns=columns)


def as_stored(columns: Iterable[Column], stored: Iterable[tuple[str, str]]) -> tuple[Column, ...]:
    """Returns columns of which the narrow ones have the type of a Delta table that stores them wider.

    A table that once had a larger value, and one that an older version made, keeps its type until a full resync.

    Args:
        columns: Columns of the source.
        stored: Name and type of the table's columns.
    """
    lake = {name.lower(): canonical_type(kind) for name, kind in stored}

    def type_of(column: Column) -> str:
        kind = lake.get(column.name.lower(), "")
        return kind if kind and is_narrow(column) and holds(kind, WIDE) else column.delta_type

    return tuple(column if (kind := type_of(column)) == column.delta_type else replace(column, delta_type=kind) for column in columns)


def schema_as_stored(schema: TableSchema, stored: Iterable[tuple[str, str]]) -> TableSchema:
    """Returns a schema with the columns of `as_stored`."""
    columns = as_stored(schema.columns, stored)
    return schema if columns == schema.columns else replace(schema, columns=columns)


def too_large(name: str) -> str:
    """Returns the text of the failure at a value that the narrow column of that name does not hold."""
    return _MARK + name.encode().hex()


def too_large_column(failure: str) -> str | None:
    """Returns the name of the column if the text of a failure has such a mark, else None.

    >>> too_large_column(f"[USER_RAISED_EXCEPTION] {too_large('größe')} SQLSTATE: P0001")
    'größe'
    """
    found = _FOUND.search(failure)
    return None if found is None else bytes.fromhex(found[1]).decode()


def jdbc_mapping(column: Column) -> TypeMapping:
    """Returns how an unsigned column travels over JDBC and is decoded into its stored type: its 64 bits, as a signed number."""
    if not is_narrow(column):
        return UNSIGNED_BIGINT_WIDE
    decoder = f"IF({COLUMN} < 0, raise_error('{too_large(column.name)}'), {COLUMN})"
    return replace(UNSIGNED_BIGINT_WIDE, delta_type=NARROW, decoder=decoder)
