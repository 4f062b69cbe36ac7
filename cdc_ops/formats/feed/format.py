"""The protocol of formats, and the registry's types; inside Spark, expressions only.

A format reads records in two steps, so that a topic with many tables is parsed once: `envelopes` parses each record without knowing
any table, `reading` converts the text of one value into the stored value of a column. `formats.feed.canonical` does both for one table.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame

from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec
from cdc_ops.core.schema.tables import Column

ENVELOPE: Final = (
    ("kind", "string"),
    ("op", "string"),
    ("snapshot", "boolean"),
    ("table", "struct<schema: string, name: string>"),
    ("before", "map<string, string>"),
    ("after", "map<string, string>"),
    ("types", "map<string, struct<type: string, name: string, scale: int>>"),
    ("transaction", "string"),
    ("source_time", "timestamp"),
    ("ddl", "string"),
    ("reason", "string"),
    ("raw", "string"),
    ("file", "string"),
    ("line", "bigint"),
)
"""The columns that `envelopes` returns, besides `position`. Images map columns to the text in the record; a column that the record lacks
has no entry, a NULL has one. `types` has the encoding of each value, for records that carry it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the text of one value becomes the stored value of its column.

    Args:
        value: The stored value; NULL for text that cannot be read.
        unstorable: True for values that are valid in the source but that the stored type cannot hold, such as the date 0000-00-00; None =
            the type has no such values.
        untyped: The reason and advice shown where a record lacks the `types` without which the text cannot be read; empty = not needed.
    """

    value: Expr
    unstorable: Expr | None = None
    untyped: str = ""


class Format(Protocol):
    """A format of change records. Third parties implement this protocol; `cdc_ops.testing.format_suite` checks them."""

    @property
    def spec(self) -> FormatSpec:
        """What the format declares of itself."""
        ...

    def envelopes(self, records: DataFrame, options: FormatOptions) -> DataFrame:
        """Parses records into envelopes.

        Args:
            records: Columns as in `core.events.change_feed.RECORD_COLUMNS`.
            options: The format's options from the pipeline file.

        Returns:
            The columns of `ENVELOPE`, and `position` of the type that `spec` declares; at least one row per record.
        """
        ...

    def reading(self, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
        """Returns the stored value of one text.

        Args:
            column: The value's column; the result has its stored type.
            text: The value as the record spells it, NULL for NULL.
            kind: The value's encoding as the record declares it: a struct of type, name and scale, NULL if the record does not.
            options: The format's options from the pipeline file.
        """
        ...
