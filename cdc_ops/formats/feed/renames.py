"""Images of events that name a column as it was called when they were written; Spark expressions only."""

from collections.abc import Callable, Iterable
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.events.ddl_changes import Renaming
from cdc_ops.core.events.format_spec import FormatSpec
from cdc_ops.core.operation.merge_plan import position_literal
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.formats.feed.envelopes import is_doubled
from cdc_ops.formats.feed.fold import place_of
from cdc_ops.formats.feed.values import uncompiled

_NAMED: Final = ("before", "after", "types")
"""What an envelope has by names of columns."""


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
        envelopes = envelopes.withColumns({image: _renamed(F.col(image), old, name) for image in _NAMED})
    return envelopes


def with_names_from_before(envelopes: DataFrame, renamings: Iterable[Renaming], facts: FormatSpec) -> DataFrame:
    """Gives values under the name that a column had before a statement to the column, in images that do not have its new name.

    Args:
        envelopes: What a format makes of records.
        renamings: What statements among them say.
        facts: Of the format.
    """
    place = place_of(envelopes, tuple(field.name for field in facts.order if field.of_delivery))
    for one in renamings:
        within = place < F.expr(position_literal(one.until))
        if one.since:
            within = within & (place >= F.expr(position_literal(one.since)))
        named = {image: F.when(within, _renamed_alike(F.col(image), one.old, one.new)).otherwise(F.col(image)) for image in _NAMED}
        envelopes = envelopes.withColumns(named)
    return envelopes


def _renamed(entries: Expr, old: str, new: str) -> Expr:
    applies = F.map_contains_key(entries, old) & ~F.map_contains_key(entries, new)
    return _moved(entries, applies, lambda name: F.when(name == old, new).otherwise(name))


def _renamed_alike(entries: Expr, old: str, new: str) -> Expr:
    """The same for names whose case may differ, as statements spell them."""
    names = F.transform(F.map_keys(entries), F.lower)
    applies = F.array_contains(names, old) & ~F.array_contains(names, new.lower())
    return _moved(entries, applies, lambda name: F.when(F.lower(name) == old, new).otherwise(name))


def _moved(entries: Expr, applies: Expr, name_of: Callable[[Expr], Expr]) -> Expr:
    """Returns entries under other names where that applies; what names a column twice stays as it is, and is bad later on."""
    moved = F.transform_keys(entries, lambda name, _: name_of(name))
    return F.when(applies & ~is_doubled(entries), uncompiled(F.lit(True), moved)).otherwise(entries)
