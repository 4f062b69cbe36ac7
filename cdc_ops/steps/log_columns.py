"""What landed events tell of a table's columns: aggregates of the feed, and what they come to; Spark expressions only."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, Row
from pyspark.sql import functions as F

from cdc_ops.core.column_news import STATEMENT_LENGTH, ColumnNews
from cdc_ops.core.events import WHOLE_ROW, RecordKind
from cdc_ops.core.tables import TableName, TableSchema

STATEMENT: Final = "statement"
"""Column of a landed feed: a statement that changed this table."""


def statement_of(table: TableName) -> Column:
    """Returns the statement of a feed's row that changed the table, cut; what a snapshot writes of a table changed nothing.

    Of a statement whose record names no table, e.g. one that renames several, it is enough that it has the table's name in it.
    """
    name = F.col("table")
    known = F.coalesce(name["name"], F.lit("")) != ""
    of_it = F.when(known, (name["schema"] == table.schema) & (name["name"] == table.name))
    of_it = of_it.otherwise(F.col("ddl").rlike(rf"(?is)(^|\W)\Q{table.name}\E(\W|$)"))
    mine = of_it & ~F.coalesce(F.col("snapshot"), F.lit(False))
    found = F.when((F.col("kind") == RecordKind.DDL) & F.coalesce(mine, F.lit(False)), F.col("ddl"))
    return F.substring(F.trim(found), 1, STATEMENT_LENGTH).alias(STATEMENT)


def news_columns(schema: TableSchema) -> tuple[Column, ...]:
    """Returns what `news_of` needs of each file: nearly always there is nothing to collect."""
    every = F.array(*(F.lit(column.name) for column in schema.columns))
    lacks = (F.col("kind") == RecordKind.CHANGE) & F.col("op").isin(*WHOLE_ROW) & (F.col("present") != every)
    return (
        F.count_if(lacks).alias("lacking"),
        F.collect_set(F.when(lacks, F.col("present"))).alias("told"),
        F.flatten(F.collect_set(F.when(lacks, F.col("unmapped")))).alias("unmapped"),
        F.collect_set(STATEMENT).alias("statements"),
    )


def news_of(rows: Sequence[Row], schema: TableSchema) -> ColumnNews:
    """Adds up what was found in each file."""
    told = [set(names) for row in rows for names in row["told"]]
    return ColumnNews(
        lacking=tuple(column.name for column in schema.columns if any(column.name not in names for names in told)),
        rows=sum(row["lacking"] for row in rows),
        unmapped=tuple(sorted({name for row in rows for name in row["unmapped"]})),
        statements=tuple(sorted({text for row in rows for text in row["statements"]})),
    )
