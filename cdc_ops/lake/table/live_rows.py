"""The rows of a Delta table that its source still has. Runs in Spark, reads only."""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.metadata_columns import END
from cdc_ops.core.text import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRows:
    """The rows of a Delta table that stand for rows of the source.

    Args:
        path: The table.
        deleted_column: The column that marks the others, "" if there are none; a table may still lack it.
        keeps_versions: The table holds older versions of rows too (SCD type 2).
    """

    path: str
    deleted_column: str = ""
    keeps_versions: bool = False

    def read(self, spark: SparkSession) -> DataFrame:
        """Returns these rows, with all columns of the table."""
        rows = spark.read.format("delta").load(self.path)
        if self.keeps_versions:
            return current_versions(rows)
        if self.deleted_column.lower() not in {name.lower() for name in rows.columns}:
            return rows
        return rows.where(~is_marked(F.col(quoted(self.deleted_column))))


def current_versions(rows: DataFrame) -> DataFrame:
    """Returns the rows of a table that have not ended: all of one that kept no versions so far, and has not been altered yet."""
    return rows.where(F.col(END).isNull()) if END.lower() in {name.lower() for name in rows.columns} else rows


def is_marked(column: Column) -> Column:
    """Returns whether a row is marked as deleted, never NULL: rows from before the column was there have NULL in it, and live."""
    return F.coalesce(column, F.lit(False))
