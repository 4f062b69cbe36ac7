"""The columns that say which commit last wrote a row (`metadata_columns`), for rows that are written with the whole table.

A MERGE sets them by itself (`lake.merge.sql`).
"""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.operation.merging.merge_plan import MergePlan
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.merge.sql import commit_values


def add_commit_columns(batch: Batch) -> Batch:
    """Adds the columns to rows that are written with the whole table."""
    return batch if batch.plan.mode is ApplyMode.MERGE else replace(batch, rows=with_commit_columns(batch.rows, batch.plan))


def with_commit_columns(rows: DataFrame, plan: MergePlan) -> DataFrame:
    """Returns rows with the columns that they lack; rows of the table that stay have theirs."""
    kinds, present = dict(plan.metadata.columns), set(rows.columns)
    added = {name: F.expr(value).cast(kinds[name]) for name, value in commit_values(plan).items() if name not in present}
    return rows.withColumns(added) if added else rows  # a server takes no empty list
