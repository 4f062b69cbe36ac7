"""Commits without rows that take a number: of an operation that was given up, or for a pipeline that takes a table over.

A comparison that finds nothing makes no commit, and one that finds something commits much later than it has looked: a Spark application
that lives on though its backfill was given up could bring back rows in between, or afterwards. The commit takes the number and the identity
of what was given up, and repeats the table's newest record: for everybody, that operation has brought nothing.
"""

from dataclasses import replace

from pyspark.sql import SparkSession

from cdc_ops import __version__
from cdc_ops.core.operation.operation import Operation, OperationKind, app_id
from cdc_ops.core.operation.protocol.commit_json import render_record
from cdc_ops.core.operation.protocol.commit_record import CommitRecord, RecordedCounts
from cdc_ops.core.reconcile.diff import AbandonedOperation
from cdc_ops.core.schema.tables import TableName
from cdc_ops.lake.log.head import read_head
from cdc_ops.lake.spark.conf import USER_METADATA
from cdc_ops.lake.spark.session import idempotent_write, private_session
from cdc_ops.lake.table.create import translated_conflicts


def fence_abandoned(spark: SparkSession, operation: Operation, given_up: AbandonedOperation) -> None:
    """Takes the number of an abandoned operation, unless the table has it or a later one; repeating it changes nothing.

    Args:
        spark: A session.
        operation: The comparison.
        given_up: The last operation that was given up before it.

    Raises:
        LakeConflictError: another writer committed meanwhile, perhaps that operation; nothing was written.
    """
    head = read_head(operation.target.path, operation.pipeline, operation.table)
    if head is None or head.record is None or (head.txn_version or 0) >= given_up.op_seq:
        return
    record = replace(
        without_rows(head.record),
        op_seq=given_up.op_seq,
        operation_id=given_up.operation_id,
        run_id=given_up.run_id,
        kind=OperationKind(given_up.kind),
    )
    take_number(spark, operation.target.path, operation.pipeline, operation.table, given_up.op_seq, record)


def without_rows(record: CommitRecord) -> CommitRecord:
    """Returns the record of a commit that repeats another's state and brings no row."""
    return replace(record, package_version=__version__, window=None, counts=RecordedCounts(rows=0), approval=None)


def take_number(spark: SparkSession, path: str, pipeline: str, table: TableName, number: int, record: CommitRecord | None) -> None:
    """Makes a commit without rows under a number of a pipeline's table; if the table has that number or a later one, nothing is committed.

    Args:
        spark: A session.
        path: The Delta table.
        pipeline, table: Whose number.
        number: The number.
        record: What the commit says; None if nothing is known.

    Raises:
        LakeConflictError: another writer committed meanwhile; nothing was written.
    """
    conf = idempotent_write(app_id(pipeline, table), number) | ({USER_METADATA: render_record(record)} if record else {})
    with private_session(spark, conf) as session, translated_conflicts(f"fencing off operation {number} of {table}"):
        session.read.format("delta").load(path).limit(0).write.format("delta").mode("append").save(path)
