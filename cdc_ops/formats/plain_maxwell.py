"""Maxwell's events for the compiled reader. Spark-free.

What `formats.maxwell` reads by expressions, this reads by kernels, or leaves; tests read the same records both ways.
"""

from typing import Any

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.logical_types import LogicalType, byte_length, logical_type_of
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.decode.json.encodings import Encoded, Encoding
from cdc_ops.formats.feed.plain_columns import LONGEST_PADDING, text_encoding
from cdc_ops.formats.feed.plain_images import NOTHING, OneImage


def plain_maxwell(schema: TableSchema, keys: tuple[str, ...], options: FormatOptions) -> Any:
    """Returns how the compiled reader reads Maxwell's events; None if they are left to the exact way. Needs what the kernels need."""
    from cdc_ops.decode.json import maxwell

    encoded = tuple(_of_maxwell(column, options.time_zone) or NOTHING for column in schema.columns)
    made = OneImage(schema, keys, encoded, maxwell.FIRST_COLUMN)

    def envelopes(data: Any, spans: Any, rows: int, events: Any, counts: Any) -> None:
        maxwell.read_maxwell(data, spans, rows, made.database, made.table, made.old_keys, events, counts)

    return made.form(layouts=(maxwell.layout(schema.names),), parts=maxwell.PARTS, envelopes=envelopes)


def _of_maxwell(column: Column, zone: str) -> Encoded | None:
    match logical_type_of(column):
        case LogicalType.BINARY:
            length = byte_length(column)
            return Encoded(encoding=Encoding.BYTES, argument=length) if length <= LONGEST_PADDING else None
        case LogicalType.SET:  # an array, as a rule
            return None
        case _:
            return text_encoding(column, zone, with_digits=True)
