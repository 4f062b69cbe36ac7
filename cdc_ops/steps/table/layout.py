"""How the files of a table are to lie: the columns of `cluster_by` and `partition_by`, checked at the plan. No Spark here."""

from typing import Literal

from cdc_ops.core.operation.protocol.commit_record import LakeHead
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import SourceTableError
from cdc_ops.lake.table.columns import has_statistics
from cdc_ops.steps.table.source_table import SourceTable

Layout = Literal["cluster_by", "partition_by"]


def layout_columns(source_table: SourceTable, setting: Layout) -> tuple[str, ...]:
    """Returns the columns of a setting as the table spells them.

    Raises:
        SourceTableError: the table has no such column, Delta keeps no order of its values, or cannot merge into partitions by it.
    """
    config, found = source_table.config, []
    for name in getattr(config.settings.storage, setting):
        column = source_table.schema.column(name)
        if column is None or not has_statistics(column.delta_type):
            known = (one.name for one in source_table.schema.columns if has_statistics(one.delta_type))
            raise SourceTableError(
                f"Table {config.table} has no column {name!r} to lay its files out by."
                if column is None
                else f"The files of table {config.table} cannot be laid out by column {column.name!r} ({column.delta_type}).",
                why=did_you_mean(name, known),
                data="Nothing was read or written; the watermark stays.",
                next=f"Correct {setting!r} in the pipeline file; 'columns' must contain its columns.",
            )
        if setting == "partition_by" and "`" in column.name:
            raise SourceTableError(
                f"Table {config.table} cannot be partitioned by column {column.name!r}.",
                why="Delta's MERGE fails on a partition with a backtick in its name.",
                data="Nothing was read or written; the watermark stays.",
                next="Take the column out of 'partition_by'; 'cluster_by' takes it. A table that is partitioned by it already: also run"
                " cdc-ops resync --mode full.",
            )
        found.append(column.name)
    return tuple(found)


def layout_warnings(config: TableConfig, head: LakeHead | None) -> tuple[str, ...]:
    """Returns a warning if the table is partitioned by other columns than the pipeline file says."""
    wanted = config.settings.storage.partition_by
    if head is None or not wanted or [name.lower() for name in wanted] == [name.lower() for name in head.partition_by]:
        return ()
    have = f"by {', '.join(head.partition_by)}" if head.partition_by else "by no column"
    return (
        f"the table is partitioned {have}, and the pipeline file says {', '.join(wanted)}: partitions change only when the whole table is"
        " written, by cdc-ops resync --mode full",
    )
