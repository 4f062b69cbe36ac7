"""How predicates are printed as SQL: quoting, literals by column type, windows, key lists. Pure; each source has one dialect."""

import re
from datetime import date
from typing import Final

from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType, parse_datetime
from cdc_ops.core.cursor.windows import Comparison, Window, bounds_predicate
from cdc_ops.core.schema.server_types.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.errors import ConfigError, RequestError, SourceTableError

_INTEGER: Final = re.compile(r"^-?\d{1,40}$")
_DECIMAL: Final = re.compile(r"^-?\d+(\.\d+)?$")
_HEX: Final = re.compile(r"^(0x|\\x)?(([0-9a-f]{2})*)$", re.IGNORECASE)
_TIME: Final = re.compile(r"^-?\d{1,3}:\d\d:\d\d(\.\d{1,6})?$")

INTEGERS: Final = frozenset(("tinyint", "smallint", "mediumint", "int", "integer", "bigint", "year", "bit"))
"""Base names of the types whose values are whole numbers, in all dialects."""


class Dialect:
    """SQL of MySQL and MariaDB; what another server writes differently is overridden.

    Text literals rely on a session whose sql_mode is empty, which the sources set on every connection: a backslash escapes, double
    quotes do not name columns.
    """

    identifier_quote = "`"
    moment_text = "DATE_FORMAT({}, '%Y-%m-%d %H:%i:%s.%f')"
    """Prints a temporal value as a cursor literal; as text, because what drivers make of a zero date is None."""
    endless = ""
    """The literal above all moments, "" if the server has none."""

    def name(self, identifier: str) -> str:
        """Quotes one identifier."""
        quote = self.identifier_quote
        return f"{quote}{identifier.replace(quote, quote * 2)}{quote}"

    def table(self, table: TableName) -> str:
        """Quotes the full name of a table."""
        return f"{self.name(table.schema)}.{self.name(table.name)}"

    def text(self, value: str) -> str:
        """Quotes a text literal."""
        if "\0" in value:
            raise RequestError("A key value contains a NUL character.", data="Nothing was read or written.")
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"

    def binary(self, digits: str) -> str:
        """Prints a literal of bytes, given as hexadecimal digits."""
        return f"X'{digits}'"

    def moment(self, value: str, kind: CursorType) -> str:
        """Prints a cursor value of a temporal column; the session's zone is UTC."""
        parse_datetime(value)
        return f"TIMESTAMP'{value.replace('T', ' ')}'"

    def literal(self, column: CursorColumn, value: str) -> str:
        """Prints a cursor value, after checking that it is one.

        Raises:
            ConfigError: the text is no value of the column's type.
        """
        if column.type is CursorType.DATE:
            return f"DATE'{column.literal(column.moment(value))}'"
        if column.type.is_temporal:
            return self.moment(value, column.type)
        if not _INTEGER.match(value):
            raise ConfigError(f"{value!r} is not a value of the integer cursor column {column.name!r}.")
        return value

    def operand(self, column: CursorColumn) -> str:
        """Prints one part of a cursor."""
        names = [self.name(name) for name in column.columns]
        return f"COALESCE({', '.join(names)})" if column.coalesce else names[0]

    def outside(self, column: CursorColumn) -> str:
        """Prints the condition that a value is not NULL and yet in no window, "" if there are none such: MySQL's zero dates.

        They lie below all moments; a literal of theirs would be refused by sessions without them.
        """
        match column.type:
            case CursorType.TIMESTAMP:
                return f"{self.operand(column)} < TIMESTAMP'1970-01-01 00:00:01'"
            case CursorType.DATETIME:
                return f"{self.operand(column)} < TIMESTAMP'0001-01-01 00:00:00'"
            case CursorType.DATE:
                return f"{self.operand(column)} < DATE'0001-01-01'"
            case CursorType.INTEGER:
                return ""

    def expression_index(self, table: TableName, operand: str) -> str:
        """Prints the statement that creates an index on an expression."""
        return f"CREATE INDEX {self.name('cdc_cursor')} ON {self.table(table)} (({operand}))"

    def checksum(self, expressions: tuple[str, ...]) -> str:
        """Prints an aggregate over rows that depends on their values and not on their order: the sum of 60 bits of a hash of each."""
        # SHA2 and not MD5, which MySQL 9.6 and later have no longer built in.
        parts = ", ".join(f"COALESCE(SHA2({expression}, 256), '-')" for expression in expressions)
        return f"COALESCE(SUM(CAST(CONV(LEFT(SHA2(CONCAT({parts}), 256), 15), 16, 10) AS UNSIGNED)), 0)"

    def window(self, cursor: Cursor, window: Window) -> str:
        """Prints a window as a condition; "" for a window that is open at both ends."""
        columns = {column.name: column for column in cursor.columns}

        def comparison(one: Comparison) -> str:
            column = columns[one.column]
            return f"{self.operand(column)} {one.op} {self.literal(column, one.literal)}"

        def conjunction(parts: tuple[Comparison, ...]) -> str:
            text = " AND ".join(comparison(part) for part in parts)
            return f"({text})" if len(parts) > 1 else text

        def disjunction(branches: tuple[tuple[Comparison, ...], ...]) -> str:
            text = " OR ".join(conjunction(branch) for branch in branches)
            return f"({text})" if len(branches) > 1 else text

        return " AND ".join(disjunction(branches) for branches in bounds_predicate(cursor, window))

    def from_on(self, names: tuple[str, ...], border: tuple[str, ...]) -> str:
        """Prints that a row lies at a position or behind it, in lexicographic order; `border` has literals of this dialect."""
        return self._lexicographic(names, border, strict=">", last=">=")

    def below(self, names: tuple[str, ...], border: tuple[str, ...]) -> str:
        """Prints that a row lies before a position."""
        return self._lexicographic(names, border, strict="<", last="<")

    def behind(self, names: tuple[str, ...], border: tuple[str, ...]) -> str:
        """Prints that a row lies behind a position, not at it."""
        return self._lexicographic(names, border, strict=">", last=">")

    def _lexicographic(self, names: tuple[str, ...], border: tuple[str, ...], *, strict: str, last: str) -> str:
        # These servers find no range in (a, b) >= (1, 2); in a disjunction they do, and the conjunct in front is for those that do not.
        quoted = [self.name(name) for name in names[: len(border)]]
        branches = []
        for depth, (name, literal) in enumerate(zip(quoted, border, strict=True)):
            equal = [f"{quoted[place]} = {border[place]}" for place in range(depth)]
            branches.append(" AND ".join([*equal, f"{name} {last if depth == len(quoted) - 1 else strict} {literal}"]))
        if len(branches) == 1:
            return branches[0]
        return f"{quoted[0]} {strict}= {border[0]} AND ({' OR '.join(f'({branch})' for branch in branches)})"

    def window_lead(self, condition: str) -> str:
        """Returns the temporal column that a condition printed by `window` begins with, "" if it begins otherwise."""
        quote = re.escape(self.identifier_quote)
        found = re.match(rf"^{quote}((?:[^{quote}]|{quote}{quote})+){quote} (?:>=|<) TIMESTAMP(?:TZ)?'", condition)
        return found[1].replace(self.identifier_quote * 2, self.identifier_quote) if found else ""

    def moved_from(self, table: TableName, keys: tuple[str, ...], before: tuple[str, ...]) -> str:
        """Prints the condition that a row had another key before, and that no row of the table has that key now."""
        outer = [
            (f"{self.table(table)}.{self.name(old)}", f"{self.table(table)}.{self.name(key)}")
            for key, old in zip(keys, before, strict=True)
        ]
        moved = " OR ".join(f"{old} IS NOT NULL" for old, _ in outer)
        pairs = zip(keys, outer, strict=True)
        same = " AND ".join(f"cdc_other.{self.name(key)} = COALESCE({old}, {now})" for key, (old, now) in pairs)
        return f"({moved}) AND NOT EXISTS (SELECT 1 FROM {self.table(table)} AS cdc_other WHERE {same})"

    def keys(self, schema: TableSchema, keys: tuple[str, ...], values: tuple[tuple[str, ...], ...]) -> str:
        """Prints a list of keys as a condition.

        Raises:
            RequestError: a value is none of its column's type, or a key has too many or too few parts.
            SourceTableError: a key column does not exist or has a type that cannot be looked up by text.
        """
        columns = tuple(self._key_column(schema, key) for key in keys)
        rows = [self._key_row(columns, row) for row in dict.fromkeys(values)]
        if not rows:
            return "1 = 0"
        if len(columns) == 1:
            return f"{self.name(columns[0].name)} IN ({', '.join(row[0] for row in rows)})"
        names = tuple(self.name(column.name) for column in columns)
        return " OR ".join("(" + " AND ".join(f"{name} = {value}" for name, value in zip(names, row, strict=True)) + ")" for row in rows)

    def key_value(self, column: Column, value: str) -> str | None:
        """Prints one key value as a literal of its column's type, or returns None if it is no such value."""
        kind = DeclaredType.parse(column.source_type)
        if kind.base in INTEGERS:
            return value if _INTEGER.match(value) else None
        if kind.base in ("decimal", "numeric", "float", "double", "real"):
            return value if _DECIMAL.match(value) else None
        if column.delta_type == "binary":
            found = _HEX.match(value)
            return self.binary(found[2]) if found else None
        return self._temporal_key(kind, column, value)

    def _temporal_key(self, kind: DeclaredType, column: Column, value: str) -> str | None:
        match column.delta_type:
            case "date":
                return self._date(value)
            case "timestamp_ntz" | "timestamp":
                wanted = CursorType.TIMESTAMP if column.delta_type == "timestamp" else CursorType.DATETIME
                try:
                    return self.moment(value, wanted)
                except ConfigError:
                    return None
            case _ if kind.base == "time":
                return self.text(value) if _TIME.match(value) else None
            case _:
                return self.text(value)

    @staticmethod
    def _date(value: str) -> str | None:
        try:
            return f"DATE'{date.fromisoformat(value).isoformat()}'"
        except ValueError:
            return None

    def _key_column(self, schema: TableSchema, key: str) -> Column:
        column = schema.column(key)
        if column is None:
            raise SourceTableError(f"Table {schema.table} has no key column {key!r}.", data="Nothing was read or written.")
        return column

    def _key_row(self, columns: tuple[Column, ...], row: tuple[str, ...]) -> tuple[str, ...]:
        if len(row) != len(columns):
            raise RequestError(
                f"Key {', '.join(row)!r} has {len(row)} parts; {len(columns)} are needed: {', '.join(c.name for c in columns)}.",
                data="Nothing was read or written.",
                next="Give one value per key column, in that order.",
            )
        literals = []
        for column, value in zip(columns, row, strict=True):
            literal = self.key_value(column, value)
            if literal is None:
                raise RequestError(
                    f"{value!r} is not a value of key column {column.name!r} ({column.source_type}).",
                    data="Nothing was read or written.",
                    next="Correct the key; binary values are given as hexadecimal digits.",
                )
            literals.append(literal)
        return tuple(literals)
