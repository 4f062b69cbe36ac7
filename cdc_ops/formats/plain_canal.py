"""Messages of Canal and TiCDC for the compiled reader. Spark-free.

What `formats.canal` reads by expressions, this reads by kernels, or leaves; tests read the same records both ways.
"""

from typing import Any

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.logical_types import LogicalType, byte_length, logical_type_of
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.decode.json.encodings import Encoded, Encoding
from cdc_ops.formats.feed.plain_columns import LONGEST_PADDING, text_encoding, words_of
from cdc_ops.formats.feed.plain_images import NOTHING, OneImage


def plain_canal(schema: TableSchema, keys: tuple[str, ...], options: FormatOptions) -> Any:
    """Returns how the compiled reader reads messages of Canal and TiCDC; None if they are left. Needs what the kernels need."""
    from cdc_ops.decode.json import canal

    of_tidb, words, encoded = options.name == "ticdc-canal", bytearray(), []
    for column in schema.columns:
        logical = logical_type_of(column)
        if logical in (LogicalType.ENUM, LogicalType.SET):
            labels = words_of(column)
            encoding = Encoding.LABELS if logical is LogicalType.ENUM else Encoding.LABEL_SET
            encoded.append(NOTHING if labels is None else Encoded(encoding=encoding, argument=len(words)))
            words += labels or b""
        elif logical is LogicalType.BINARY:
            length = byte_length(column)
            encoded.append(Encoded(encoding=Encoding.LATIN, argument=length) if length <= LONGEST_PADDING else NOTHING)
        else:
            encoded.append(text_encoding(column, options.time_zone, with_digits=False) or NOTHING)
    made = OneImage(schema, keys, tuple(encoded), canal.FIRST_COLUMN)

    def envelopes(data: Any, spans: Any, rows: int, events: Any, counts: Any) -> None:
        canal.read_canal(data, spans, rows, made.database, made.table, made.old_keys, of_tidb, events, counts)

    parts = 2 if of_tidb else 1
    return made.form(layouts=(canal.layout(schema.names),), parts=parts, envelopes=envelopes, offset_part=parts - 1, words=bytes(words))
