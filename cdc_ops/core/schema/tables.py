"""Tables: names, columns and keys of a source table as the plan saw them, and a fingerprint that freezes them."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from cdc_ops.core import json_codec
from cdc_ops.core.schema.server_types.mysql_types import UNSIGNED_BIGINT_WIDE, is_unsigned_bigint
from cdc_ops.core.schema.value_policies import DEFAULT_TYPES, OnUnstorable, TypePolicies

_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f/\\:*?\[\]{}]|^\.{1,2}$")
"""Names that a folder cannot have, and signs that Hadoop reads as a glob pattern or refuses."""
_LONGEST_FOLDER: Final = 200
"""Bytes; most file systems allow 255."""


def folder_name(name: str) -> str:
    """Returns the folder name of a schema or a table; signs that stores or Spark do not accept are escaped, e.g. as `%5B`."""
    told = _UNFIT.sub(lambda found: "".join(f"%{ord(sign):02X}" for sign in found[0]), name)
    if len(told.encode()) <= _LONGEST_FOLDER:
        return told
    return told.encode()[: _LONGEST_FOLDER // 2].decode(errors="ignore") + "~" + hashlib.sha256(name.encode()).hexdigest()[:16]


def name_of_folder(folder: str) -> str:
    """Returns the name of the schema or table of a folder; the inverse of `folder_name`."""
    return re.sub(r"%([0-9A-F]{2})", lambda found: sign if _UNFIT.fullmatch(sign := chr(int(found[1], 16))) else found[0], folder)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TableName:
    """`schema.name` of a source table; for MySQL the schema is the database."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def folder(self) -> str:
        """The folder of the table below a root: `schema/table`."""
        return f"{folder_name(self.schema)}/{folder_name(self.name)}"

    @classmethod
    def parse(cls, text: str) -> "TableName":
        """Splits `schema.name` at the first dot.

        Raises:
            ValueError: there is no dot, or a part is empty.
        """
        schema, dot, name = text.partition(".")
        if not (schema and dot and name):
            raise ValueError(f"{text!r} does not have the form schema.table")
        return cls(schema=schema, name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its declared type, its expression at the source, and its stored type.

    Args:
        name: As the source spells it.
        source_type: The declared type, e.g. `decimal(10,2) unsigned`.
        delta_type: The stored type as Spark SQL DDL, e.g. `decimal(10,2)`.
        nullable: As declared at the source; stored columns are always nullable.
        expression: SQL of the source's dialect that yields the value exactly, e.g. `` CAST(`t` AS CHAR) ``; without alias.
        lossy: True if a value that the stored type cannot hold becomes NULL; each one is counted.
        loose: Why the source holds two values for equal whose stored forms differ, e.g. the name of a collation; "" = it never does.
        normal: SQL of the source's dialect for a text that is the same for values which the source holds for equal, and for no others; "" =
            there is none.
        normalises: The column for which this one stands in the lake, because the source compares it loosely (`core.schema.collated_keys`);
            "" for the source's own columns.
    """

    name: str
    source_type: str
    delta_type: str
    nullable: bool
    expression: str
    lossy: bool = False
    loose: str = ""
    normal: str = ""
    normalises: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """The schema of a source table.

    Args:
        table: Its name.
        columns: In the order of the source, excluded columns left out.
        primary_key: Column names in key order; empty if there is none.
        indexes: Column names per index, in index order (the primary key included).
        approximate_rows: The source's own estimate, 0 if it has none.
        row_bytes: Bytes that the source stores for a row on average, indexes left out; 0 if it does not know.
        types: What becomes of values that no stored type holds.
    """

    table: TableName
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...] = ()
    approximate_rows: int = 0
    row_bytes: int = 0
    types: TypePolicies = DEFAULT_TYPES

    def relaxed(self, types: TypePolicies) -> "TableSchema":
        """Returns the schema with the policy `null` where it has `fail` and `types` has `null`; reading and storing stay the same."""

        def changed(before: OnUnstorable, now: OnUnstorable) -> bool:
            return before is OnUnstorable.FAIL and now is OnUnstorable.NULL

        dates, numbers = changed(self.types.zero_dates, types.zero_dates), changed(self.types.nan_values, types.nan_values)
        kinds = (*(("date", "timestamp") if dates else ()), *(("decimal",) if numbers else ()))
        if not kinds:
            return self
        eased = replace(
            self.types,
            zero_dates=OnUnstorable.NULL if dates else self.types.zero_dates,
            nan_values=OnUnstorable.NULL if numbers else self.types.nan_values,
        )
        columns = (
            replace(column, lossy=True) if column.delta_type.startswith(kinds) and column.name.lower() not in self.types.keys else column
            for column in self.columns
        )
        return replace(self, columns=tuple(columns), types=eased)

    def keyed(self, keys: Iterable[str]) -> "TableSchema":
        """Returns the schema in which no value of a key column becomes NULL: a row with one that no stored type holds is refused."""
        names = tuple(sorted(key.lower() for key in keys))
        columns = (replace(column, lossy=column.lossy and column.name.lower() not in names) for column in self.columns)
        return replace(self, columns=tuple(columns), types=replace(self.types, keys=names))

    def extended(self, columns: tuple[Column, ...]) -> "TableSchema":
        """Returns the schema with more columns after its own."""
        return replace(self, columns=self.columns + columns) if columns else self

    def column(self, name: str) -> Column | None:
        """Returns the column of that name, compared without regard to case, or None."""
        return next((column for column in self.columns if column.name.lower() == name.lower()), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)

    @property
    def fingerprint(self) -> str:
        """A short hash of columns and keys; it changes only when the source does, or how its columns are stored.

        A BIGINT UNSIGNED has the same in both of its stored types: which one it is, the values of the column decide.
        """

        def stored(column: Column) -> str:
            narrow = column.delta_type == "bigint" and is_unsigned_bigint(column.source_type)
            return UNSIGNED_BIGINT_WIDE.delta_type if narrow else column.delta_type

        facts = [[c.name, c.source_type, stored(c), c.expression] for c in self.columns]
        text = json_codec.dumps(facts) + json_codec.dumps(self.primary_key)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
