"""Checksums at the source: per bucket of keys, the number of rows and the sum of a 60-bit hash over each row's canonical text. Pure.

The text of a row is the same as the lake's, see `cdc_ops.core.reconcile.row_text`. Values are taken through the same expressions as they
are read with, and what travels in place of one that cannot be stored (an impossible date) is NULL here, as it is in the lake.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from cdc_ops.core.reconcile.key_buckets import BucketSelection, span_condition
from cdc_ops.core.reconcile.row_text import NULL_TEXT
from cdc_ops.core.schema.server_types.mysql_types import UNSTORABLE_DAY, UNSTORABLE_MICROS, DeclaredType
from cdc_ops.core.schema.server_types.postgres_types import NO_DAY
from cdc_ops.core.schema.server_types.unsigned_bigints import is_unsigned
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.sources.base import DigestQuery, JdbcRead
from cdc_ops.sources.chunks.ranges import both
from cdc_ops.sources.sql.dialect import Dialect

_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "decimal")
_SHOWN: Final = "bucket BIGINT, row_count BIGINT, total DECIMAL(38,0)"


class DigestSql:
    """The SQL of checksums for MySQL and MariaDB; subclasses have that of other servers.

    Args:
        dialect: How names are quoted.
    """

    division = "({0} DIV {1})"
    # MySQL 9.6 and later have no MD5 built in.
    row_hash = "SHA2(CONCAT_WS(',', {fields}), 256)"
    first_digits = "CAST(CONV(LEFT({hash}, 15), 16, 10) AS UNSIGNED)"
    last_digits = "CAST(CONV(RIGHT({hash}, 8), 16, 10) AS UNSIGNED)"

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def field(self, column: Column) -> str | None:
        """Returns SQL for a column's field in the canonical text, None if source and lake have no common text for its values."""
        kind, value = column.delta_type.lower(), column.expression
        base = DeclaredType.parse(column.source_type).base
        if kind == "string":
            text = f"CONVERT({value} USING utf8mb4)"
            # As bytes, because texts of several collations cannot be joined.
            return f"COALESCE(CONCAT(CHAR_LENGTH({text}), ':', CAST({text} AS BINARY)), '{NULL_TEXT}')"
        if kind == "binary":
            return f"COALESCE(HEX({value}), '{NULL_TEXT}')" if base.endswith(("binary", "blob")) else None
        number = self._number(column)
        return f"COALESCE(CAST({number} AS CHAR), '{NULL_TEXT}')" if number else None

    def number(self, query: DigestQuery, key: Column) -> str:
        """Returns SQL for the number of a row's bucket."""
        if query.buckets.by_range:
            return query.buckets.number_sql(self.whole_number(key), self.division)
        return f"({self.last_digits.format(hash=self._hash(self._columns(query, query.buckets.keys)))} % {query.buckets.count})"

    def whole_number(self, key: Column) -> str:
        """Returns SQL for a key as a number of at least 64 bits."""
        return self._dialect.name(key.name)

    def condition(self, schema: TableSchema, scope: BucketSelection) -> str:
        """Returns the condition that a row is in some buckets; "" for the whole table."""
        if scope.buckets is None:
            return ""
        keys = tuple(_column(schema, name) for name in scope.buckets.keys)
        if scope.buckets.by_range:
            return span_condition(self._dialect.name(keys[0].name), scope.spans())
        query = DigestQuery(schema=schema, columns=(), buckets=scope.buckets, slices=())
        return f"{self.number(query, keys[0])} IN ({', '.join(map(str, scope.members))})" if scope.members else "1 = 0"

    def undigestible(self, schema: TableSchema, columns: Iterable[str]) -> tuple[str, ...]:
        """Returns the columns without a common text of source and lake."""
        return tuple(name for name in columns if (column := schema.column(name)) is None or self.field(column) is None)

    def read(self, query: DigestQuery, read: JdbcRead) -> JdbcRead:
        """Converts the read of a whole table to the read of its checksums."""
        key = _column(query.schema, query.buckets.keys[0])
        hashed = self.first_digits.format(hash=self._hash(self._columns(query, query.columns)))
        within = self.condition(query.schema, query.within) if query.within else ""
        table = self._dialect.table(query.schema.table)

        def relation(where: str) -> str:
            condition = both(where, within)
            filtered = f" WHERE {condition}" if condition else ""
            rows = f"SELECT {self.number(query, key)} AS bucket, {hashed} AS hashed FROM {table}{filtered}"
            return f"(SELECT bucket, COUNT(*) AS row_count, SUM(hashed) AS total FROM ({rows}) AS hashes GROUP BY bucket) AS cdc_digest"

        return replace(
            read,
            relations=tuple(relation(where) for where in query.slices or ("",)),
            decoders=("bucket", "row_count", "total"),
            properties=read.properties | {"customSchema": _SHOWN},
            native=None,
        )

    def _number(self, column: Column) -> str | None:
        """The value as a number; what the decoders of `typemap` undo in Spark is undone here."""
        kind, value = column.delta_type.lower(), column.expression
        if kind == "date":
            return f"(NULLIF({value}, {UNSTORABLE_DAY}) - IF({value} < 60, 719529, 719528))"
        if kind == "timestamp_ntz":
            return f"(NULLIF({value}, -{UNSTORABLE_MICROS}) - IF({value} < -62162035200000000, 86400000000, 0))"
        if kind == "timestamp":
            return f"NULLIF({value}, 0)"
        if is_unsigned(column):  # both of its stored types have the same text
            return f"CAST({value} AS UNSIGNED)"
        # Adding nothing takes the zeros of ZEROFILL away.
        return f"({value} + 0)" if kind.startswith(_NUMBERS) else None

    def _columns(self, query: DigestQuery, names: Iterable[str]) -> tuple[str, ...]:
        fields = (self.field(_column(query.schema, name)) for name in names)
        return tuple(field for field in fields if field is not None)

    def _hash(self, fields: tuple[str, ...]) -> str:
        return self.row_hash.format(fields=", ".join(fields))


class PostgresDigestSql(DigestSql):
    """Checksums on Postgres."""

    division = "({0} / {1})"
    row_hash = "encode(sha256(convert_to(concat_ws(',', {fields}), 'UTF8')), 'hex')"
    first_digits = "CAST(CAST('x' || left({hash}, 15) AS bit(60)) AS bigint)"
    last_digits = "CAST(CAST('x' || right({hash}, 8) AS bit(32)) AS bigint)"

    def field(self, column: Column) -> str | None:
        """Returns SQL for a column's field in the canonical text, None if source and lake have no common text for its values."""
        kind, value = column.delta_type.lower(), column.expression
        if kind == "string":
            text = f"CAST({value} AS text)"
            return f"COALESCE(length({text}) || ':' || {text}, '{NULL_TEXT}')"
        if kind == "binary":
            return f"COALESCE(upper(encode({value}, 'hex')), '{NULL_TEXT}')"
        if kind.startswith(("date", "timestamp")):
            value = f"NULLIF({value}, -{NO_DAY if kind == 'date' else UNSTORABLE_MICROS})"
        known = (*_NUMBERS, "boolean", "date", "timestamp")
        return f"COALESCE(CAST({value} AS text), '{NULL_TEXT}')" if kind.startswith(known) else None

    def whole_number(self, key: Column) -> str:
        """Returns SQL for a key as a number of at least 64 bits."""
        return f"CAST({self._dialect.name(key.name)} AS bigint)"


def _column(schema: TableSchema, name: str) -> Column:
    column = schema.column(name)
    if column is None:
        raise ValueError(f"{schema.table} has no column {name!r}")
    return column
