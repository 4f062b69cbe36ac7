"""A Delta table gets another owner: a pipeline that was renamed takes over what it wrote under its old name. In Spark.

    a commit without rows under the old id      nothing that was drawn under it can commit any more
    the same under the new id                   its record is the table's state, under the new name
    the properties that name the owner          from here on it is the new pipeline's table

Each step may be repeated, and until the last one the table is the old pipeline's.
"""

import uuid
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from cdc_ops.core.operation.protocol.commit_record import CommitRecord
from cdc_ops.core.schema.tables import TableName
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.log.head import FORMER_PIPELINES, OWNER_PIPELINE, former_pipelines, read_head
from cdc_ops.lake.sql_text import path_name, text_literal
from cdc_ops.lake.table.create import translated_conflicts
from cdc_ops.lake.table.fence import take_number, without_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """A table that goes from one pipeline to another.

    Args:
        path: The Delta table.
        table: The source's table.
        old, new: The pipelines.
        number: The last number that was drawn for the table: it is taken under both names, and the next operation gets the one after it.
        run_id: Who does it.
    """

    path: str
    table: TableName
    old: str
    new: str
    number: int
    run_id: str


def hand_over(spark: SparkSession, table: HandOver) -> None:
    """Makes a table that belongs to one pipeline the table of another; its rows and its watermark stay as they are.

    Args:
        spark: A session.
        table: The table.

    Raises:
        LakeConflictError: another writer committed meanwhile; the table is still the old pipeline's.
    """
    head = read_head(table.path, table.old, table.table)
    if table.number:
        for pipeline in (table.old, table.new):
            record = _record(head.record, pipeline, table) if head and head.record else None
            take_number(spark, table.path, pipeline, table.table, table.number, record)
    log = DeltaLog(table.path)
    state = log.state(log.newest() or 0)
    former = [name for name in former_pipelines(state) if name not in (table.old, table.new)]
    wanted = {OWNER_PIPELINE: table.new, FORMER_PIPELINES: ",".join([*former, table.old])}
    listed = ", ".join(f"{text_literal(name)} = {text_literal(value)}" for name, value in wanted.items())
    with translated_conflicts(f"the change of the owner of {table.table}"):
        spark.sql(f"ALTER TABLE {path_name(table.path)} SET TBLPROPERTIES ({listed})")


def _record(record: CommitRecord, pipeline: str, table: HandOver) -> CommitRecord:
    named = replace(without_rows(record), pipeline=pipeline, op_seq=table.number)
    return replace(named, operation_id=uuid.uuid4().hex, run_id=table.run_id)
