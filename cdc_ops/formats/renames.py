"""Images of events that name a column as it was called when they were written; Spark expressions only."""

from collections.abc import Iterable

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.tables import TableSchema
from cdc_ops.formats.values import rarely


def with_names_of_now(envelopes: DataFrame, renamed: Iterable[tuple[str, str]], schema: TableSchema) -> DataFrame:
    """Gives values under a column's old name to the column that it is now.

    A pair counts where the table has the new name and not the old one, in images that have the old name and not the new one.

    Args:
        envelopes: What a format makes of records.
        renamed: Old and new names, as the pipeline file says.
        schema: The table, as the source has it.
    """
    pairs = [(old, new) for old, new in renamed if schema.column(new) is not None and schema.column(old) is None]
    for old, new in pairs:
        column = schema.column(new)
        name = column.name if column is not None else new
        envelopes = envelopes.withColumns({image: _renamed(F.col(image), old, name) for image in ("before", "after", "types")})
    return envelopes


def _renamed(entries: Expr, old: str, new: str) -> Expr:
    applies = F.map_contains_key(entries, old) & ~F.map_contains_key(entries, new)
    moved = F.transform_keys(entries, lambda name, _: F.when(name == old, new).otherwise(name))
    return F.when(applies, rarely(F.lit(True), moved)).otherwise(entries)
