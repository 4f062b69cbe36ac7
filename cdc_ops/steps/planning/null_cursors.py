"""Rows that are in no window, because their cursor is NULL or a zero or infinite date.

They are compared as a whole, by the source's checksum, and read when it changed.
"""

from cdc_ops.core.pipeline.table_settings import NullCursor
from cdc_ops.sources.base import Source
from cdc_ops.steps.table.source_table import SourceTable


def null_cursor_checksum(source: Source, source_table: SourceTable) -> str:
    """Returns `rows:checksum` over all columns of the rows that are in no window, "" without `null_cursor: checksum` or such rows.

    Called after the bound was taken and before the operation reads, like `late_rows.next_range_checksum`.
    """
    lead = source_table.cursor.lead
    parts = (source_table.schema.column(name) for name in lead.columns)
    never_null = any(part is not None and not part.nullable for part in parts)
    if source_table.config.settings.load.null_cursor is not NullCursor.CHECKSUM or (never_null and not lead.type.is_temporal):
        return ""
    expressions = tuple(column.expression for column in source_table.schema.extended(source_table.hidden).columns)
    rows, checksum = source.checksum(source_table.config.table, expressions, source.null_predicate(source_table.cursor))
    return f"{rows}:{checksum}"


def rows_in_checksum(nulls: str) -> int:
    """Returns the number of rows in a checksum of `null_cursor_checksum`.

    >>> rows_in_checksum("12:8f14e45f"), rows_in_checksum("")
    (12, 0)
    """
    return int(nulls.partition(":")[0] or 0)
