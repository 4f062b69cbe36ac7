"""Maps the column names that events had when they were written to the table's current names; Spark expressions only."""

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
"""The fields of an envelope that are maps by column name."""


def with_names_of_now(envelopes: DataFrame, renamed: Iterable[tuple[str, str]], schema: TableSchema) -> DataFrame:
    """Renames the entries of a column's old name to its current name, in images.

    A pair of names applies if the table has the new name and not the old one, in images that have the old name and not the new one.

    Args:
        envelopes: What a format makes of records.
        renamed: Pairs of old and new names, from the pipeline file.
        schema: The table, as the source has it.
    """
    pairs = [(old, new) for old, new in renamed if schema.column(new) is not None and schema.column(old) is None]
    for old, new in pairs:
        column = schema.column(new)
        name = column.name if column is not None else new
        envelopes = envelopes.withColumns({image: _renamed(F.col(image), old, name) for image in _NAMED})
    return envelopes


def with_names_from_before(envelopes: DataFrame, renamings: Iterable[Renaming], spec: FormatSpec) -> DataFrame:
    """Renames entries in images that were written before a RENAME COLUMN statement, and that do not have the column's new name.

    Args:
        envelopes: What a format makes of records.
        renamings: The renames of statements among the records, each with the positions between which it applies.
        spec: The format's declaration.
    """
    place = place_of(envelopes, tuple(field.name for field in spec.order if field.of_delivery))
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
    """As `_renamed`, without regard to case, because statements may spell names in another case."""
    names = F.transform(F.map_keys(entries), F.lower)
    applies = F.array_contains(names, old) & ~F.array_contains(names, new.lower())
    return _moved(entries, applies, lambda name: F.when(F.lower(name) == old, new).otherwise(name))


def _moved(entries: Expr, applies: Expr, name_of: Callable[[Expr], Expr]) -> Expr:
    """Returns entries under new names where `applies` is true. An image with a column twice stays unchanged, and becomes bad later."""
    moved = F.transform_keys(entries, lambda name, _: name_of(name))
    return F.when(applies & ~is_doubled(entries), uncompiled(F.lit(True), moved)).otherwise(entries)
