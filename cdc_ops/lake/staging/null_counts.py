"""Counts values that became NULL because no stored type holds them, in the pass that reads or writes the rows.

Rows carry columns of bits, one bit for each column of their schema that can lose a value so (`core.schema.tables.Column.lossy`); NULL
where a row lost none. Landed files keep them; the table never gets them.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as F

from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.core.schema.value_policies import NulledValues, NullifiedValues
from cdc_ops.core.text import quoted

_PREFIX: Final = "__cdc_nulled_"
_BITS: Final = 62


def mark_columns(schema: TableSchema, conditions: Sequence[str]) -> list[Column]:
    """Returns the columns of bits.

    Args:
        schema: The table.
        conditions: Per column of it, Spark SQL that is true where its value is lost; "" = never.
    """
    lossy = [condition for column, condition in zip(schema.columns, conditions, strict=True) if column.lossy]
    parts = (lossy[start : start + _BITS] for start in range(0, len(lossy), _BITS))
    sums = (" + ".join(f"IF({condition or 'false'}, {1 << bit}L, 0L)" for bit, condition in enumerate(part)) for part in parts)
    return [F.expr(f"NULLIF({bits}, 0L)").alias(f"{_PREFIX}{index}") for index, bits in enumerate(sums)]


def mark_names(rows: DataFrame) -> list[str]:
    """Returns the names of the columns of bits that rows carry."""
    return [name for name in rows.columns if is_mark(name)]


def is_mark(name: str) -> bool:
    """True for the name of a column of bits."""
    return name.startswith(_PREFIX)


def count_marks(rows: DataFrame, schema: TableSchema) -> NullifiedValues:
    """Counts the lost values of rows that carry marks, by reading them."""
    return _nulled(schema, rows.agg(*_sums(schema)).collect()[0])


def observe_marks(rows: DataFrame, schema: TableSchema) -> tuple[DataFrame, Callable[[], NullifiedValues]]:
    """Counts the lost values of rows while they are written.

    Returns:
        The rows without their marks, to be written once, and what gives the counts after that; asked before, or if nothing was written
        after all, it never answers.
    """
    marks = mark_names(rows)
    if not marks:
        return rows, NullifiedValues
    observation = Observation()
    observed = rows.observe(observation, *_sums(schema)).drop(*marks)
    return observed, lambda: _nulled(schema, observation.get)


def _sums(schema: TableSchema) -> list[Column]:
    lossy = sum(column.lossy for column in schema.columns)
    places = ((quoted(f"{_PREFIX}{number // _BITS}"), 1 << number % _BITS) for number in range(lossy))
    return [F.count_if(F.expr(f"({mark} & {bit}L) <> 0")).alias(f"n{number}") for number, (mark, bit) in enumerate(places)]


def _nulled(schema: TableSchema, counts: Row | dict[str, Any]) -> NullifiedValues:
    lossy = [column for column in schema.columns if column.lossy]
    values = ((column, int(counts[f"n{number}"] or 0)) for number, column in enumerate(lossy))
    return NullifiedValues(columns=tuple(NulledValues(column=c.name, source_type=c.source_type, values=n) for c, n in values if n))
