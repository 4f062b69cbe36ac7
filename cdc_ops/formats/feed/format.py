"""What a format has to offer, and the registry of formats; inside Spark, expressions only.

A format reads records in two steps, so that a topic with many tables is parsed once: `envelopes` takes each record apart without knowing
any table, `reading` turns the text of one value into what a column stores. `formats.feed.canonical` puts the two together for one table.
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
"""What `envelopes` returns, with `position` beside it. The images hold each value as the record spells it; a column that is not in an image
is not there, one that is NULL is there. `types` says how a value is written, where records say so themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the text of one value becomes what its column stores.

    Args:
        value: The stored value; NULL for text that cannot be read.
        unstorable: True for values of the source that no stored type holds, such as the date 0000-00-00; None = there are none.
        untyped: Why text of a record without `types` cannot be read, and what to do about it, for people; empty = that does not matter.
    """

    value: Expr
    unstorable: Expr | None = None
    untyped: str = ""


class Format(Protocol):
    """A format of change records."""

    @property
    def facts(self) -> FormatSpec:
        """What the format declares of itself."""
        ...

    def envelopes(self, records: DataFrame, chosen: FormatOptions) -> DataFrame:
        """Takes records apart.

        Args:
            records: Columns as in `core.events.change_feed.RECORD_COLUMNS`.
            chosen: What the pipeline file says of the format.

        Returns:
            Columns as in `ENVELOPE`, and `position` of the type that the facts declare; at least one row per record.
        """
        ...

    def reading(self, column: Column, text: Expr, kind: Expr, chosen: FormatOptions) -> Reading:
        """Reads one value.

        Args:
            column: Whose value; the stored value is of its stored type.
            text: The value as the record spells it, NULL for NULL.
            kind: What the record says of how it is written: a struct of type, name and scale, NULL if it says nothing.
            chosen: What the pipeline file says of the format.
        """
        ...
