"""Decides at the plan which keys of a table get a column of their own in the lake, because the source compares them loosely. No Spark here.

New tables have them from the start, and each full resync makes them. A table that was made without goes on without: its keys are compared
exactly, as ever, until somebody has everything read again.
"""

from dataclasses import replace

from cdc_ops.core.operation.protocol.commit_record import LakeHead
from cdc_ops.core.operation.run_request import ResyncMode, RunRequest
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.schema.collated_keys import PREFIX, with_key_columns
from cdc_ops.steps.table.source_table import SourceTable


def with_collated_keys(source_table: SourceTable, head: LakeHead | None, request: RunRequest) -> SourceTable:
    """Returns facts in which keys that are compared loosely are replaced by the columns that stand for them in the lake.

    Args:
        source_table: What the source says.
        head: What the lake says; None if there is no table yet.
        request: The run.
    """
    if source_table.config.settings.method is Method.LOG:
        return source_table  # events do not carry what the source would compute
    stored = {name.lower() for name, _ in head.columns} if head else set()
    replaces_table = head is None or request.mode is ResyncMode.FULL

    def stands_for(key: str) -> bool:
        column = source_table.schema.column(key)
        name = (PREFIX + key).lower()
        possible = column is not None and bool(column.loose and column.normal) and source_table.schema.column(name) is None
        return possible and (replaces_table or name in stored)

    chosen = tuple(key for key in source_table.keys if stands_for(key))
    if not chosen:
        return source_table
    keys = tuple(PREFIX + key if key in chosen else key for key in source_table.keys)
    return replace(source_table, schema=with_key_columns(source_table.schema, chosen), keys=keys)
