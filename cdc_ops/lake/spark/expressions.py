"""Spark expressions that several steps of a batch share.

Conditions of the pipeline file; and rows of two DataFrames matched by key, where their columns have the same names: those of one side are
numbered.
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.schema.server_types.unsigned_bigints import LARGEST, is_narrow, too_large
from cdc_ops.core.schema.tables import Column as TableColumn
from cdc_ops.core.text import quoted

EXACT_JSON: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS[XXX]",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How `to_json` writes rows whole: by itself it leaves NULLs out, and cuts times to milliseconds."""


def numbered_keys(keys: Sequence[str]) -> list[Column]:
    """Returns the key columns under names of ours, which no column of a table has."""
    return [F.col(quoted(key)).alias(name) for key, name in zip(keys, key_names(keys), strict=True)]


def key_names(keys: Sequence[str]) -> tuple[str, ...]:
    """Returns those names."""
    return tuple(_name(index) for index in range(len(keys)))


def same_key(columns: Sequence[Column]) -> Column:
    """Returns the condition that columns of one side, in the order of the keys, equal the numbered ones of the other."""
    return reduce(and_, (column == F.col(_name(index)) for index, column in enumerate(columns)))


def _name(index: int) -> str:
    return f"__key_{index}"


def stored_value(column: TableColumn, value: Column) -> Column:
    """Returns a value in its column's stored type; one that is too large for a narrow column fails with a mark that names the column."""
    if not is_narrow(column):
        return value.cast(column.delta_type)
    fails = F.raise_error(F.lit(too_large(column.name))).cast(column.delta_type)
    return F.when(value > LARGEST, fails).otherwise(value.cast(column.delta_type))


def is_true(condition: str) -> Column:
    """Returns a condition as a column that is never NULL; a condition that is NULL is not true, and "" is true of no row."""
    return F.coalesce(F.expr(condition), F.lit(False)) if condition else F.lit(False)


def leave_out(events: DataFrame, condition: str) -> DataFrame:
    """Leaves out events whose `after` meets a condition, as of `apply_as_deletes`; columns that an event does not have are NULL in it."""
    whole = F.struct(*(F.col(name) for name in events.columns)).alias("__cdc_event")
    return events.select(whole, "after.*").where(~is_true(condition)).select("__cdc_event.*")
