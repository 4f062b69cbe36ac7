"""How predicates are printed for Postgres. Pure."""

import re
from typing import Final

from cdc_ops.core.cursor.cursors import CursorColumn, CursorType, parse_datetime
from cdc_ops.core.schema.server_types.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column
from cdc_ops.errors import RequestError
from cdc_ops.sources.sql.dialect import Dialect

_BITS: Final = re.compile(r"^[01]+$")
_UUID: Final = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)
_TIME_OF_ZONE: Final = re.compile(r"^\d\d:\d\d:\d\d(\.\d{1,6})?[+-]\d\d(:\d\d){0,2}$")
"""Of `time with time zone`, as the server prints it: `12:00:00+05:30`."""
_BOOLEANS: Final = ("true", "false")


class PostgresDialect(Dialect):
    """SQL of Postgres; sessions have standard_conforming_strings on, so a backslash is only a backslash."""

    identifier_quote = '"'
    endless = "'infinity'"
    # Infinity and what lies outside of four-digit years is brought to the ends of what a cursor literal can say.
    moment_text = "to_char(LEAST(GREATEST({}, '0001-01-01'), '9999-12-31'), 'YYYY-MM-DD HH24:MI:SS.US')"

    def text(self, value: str) -> str:
        """Quotes a text literal."""
        if "\0" in value:
            raise RequestError("A key value contains a NUL character.", data="Nothing was read or written.")
        return "'" + value.replace("'", "''") + "'"

    def binary(self, digits: str) -> str:
        """Prints a literal of bytes, given as hexadecimal digits."""
        return f"'\\x{digits}'::bytea"

    def checksum(self, expressions: tuple[str, ...]) -> str:
        """Prints an aggregate over rows that depends on their values and not on their order: the sum of 60 bits of a hash of each."""
        parts = " || ".join(f"COALESCE(MD5(({expression})::text), '-')" for expression in expressions)
        return f"COALESCE(SUM(('x' || LEFT(MD5({parts}), 15))::bit(60)::bigint), 0)"

    def moment(self, value: str, kind: CursorType) -> str:
        """Prints a cursor value of a temporal column; instants are in UTC."""
        parse_datetime(value)
        text = value.replace("T", " ")
        return f"TIMESTAMPTZ'{text}+00'" if kind is CursorType.TIMESTAMP else f"TIMESTAMP'{text}'"

    def outside(self, column: CursorColumn) -> str:
        """Prints the condition that a value is infinite, "" for numbers."""
        return f"{self.operand(column)} IN ('infinity', '-infinity')" if column.type.is_temporal else ""

    def _lexicographic(self, names: tuple[str, ...], border: tuple[str, ...], *, strict: str, last: str) -> str:
        # Postgres finds the range of an index in a comparison of rows, and in nothing else.
        quoted = [self.name(name) for name in names[: len(border)]]
        if len(quoted) == 1:
            return f"{quoted[0]} {last} {border[0]}"
        return f"({', '.join(quoted)}) {last} ({', '.join(border)})"

    def key_value(self, column: Column, value: str) -> str | None:
        """Prints one key value as a literal of its column's type, or returns None if it is no such value."""
        kind = DeclaredType.parse(column.source_type)
        if column.source_type.endswith("]"):
            return self.text(value)
        match kind.base:
            case "bit":
                return f"B'{value}'" if _BITS.match(value) else None
            case "uuid":
                return self.text(value) if _UUID.match(value) else None
            case "time" if column.source_type.endswith("with time zone"):
                return self.text(value) if _TIME_OF_ZONE.match(value) else None
            case "boolean":
                return value.lower() if value.lower() in _BOOLEANS else None
            case _:
                return super().key_value(column, value)
