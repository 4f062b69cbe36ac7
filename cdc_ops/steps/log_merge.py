"""merge of the log method: what landed events come to, in one statement that carries the archive's new watermark. Runs in Spark."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.deletes import DELETE_MARK
from cdc_ops.core.logs import LogReading
from cdc_ops.core.merging import plan_merge, quoted
from cdc_ops.core.operations import Manifest, OperationResult, OperationSpec
from cdc_ops.errors import IncompleteRowError
from cdc_ops.lake.living import with_deleted
from cdc_ops.lake.merge import apply
from cdc_ops.lake.quarantine import set_aside
from cdc_ops.lake.staging import read_landed
from cdc_ops.lake.statements import INCOMPLETE
from cdc_ops.steps.log_extract import feed_folder
from cdc_ops.steps.stage import is_deleted
from cdc_ops.steps.unstorable import full_text

_FOUND: Final = re.compile(re.escape(INCOMPLETE) + r"([0-9A-F]*):")


def merge_events(spark: SparkSession, spec: OperationSpec, manifest: Manifest, reading: LogReading) -> OperationResult:
    """Applies landed events; the commit carries up to where the table has everything of its archive then.

    Args:
        spark: A session of its own.
        spec: The frozen operation.
        manifest: Of its rows.
        reading: What reading its files showed.

    Raises:
        IncompleteRowError: an event changes some columns of a row that the table does not have.
    """
    spec = replace(spec, archive_after=reading.watermark)
    plan, batch = plan_merge(spec, manifest), _marked(read_landed(spark, spec, manifest), spec)
    plan, batch = with_deleted(spark, spec, plan, batch)
    if reading.quarantined and spec.log is not None:
        set_aside(spark, spec, spec.log.quarantine, feed_folder(spec, manifest.attempt))
    with _translated(spec):
        result = apply(spark, spec, batch, plan, manifest.rows)
    counts = replace(result.counts, read=reading.events, quarantined=reading.quarantined, behind=reading.behind)
    return replace(result, counts=counts)


def _marked(rows: DataFrame, spec: OperationSpec) -> DataFrame:
    """Marks also the rows that the table's `apply_as_deletes` is true of; with soft deletes each row gets the mark that is stored."""
    gone = F.col(DELETE_MARK)
    if spec.delete_where and not spec.stored_as.ignores_deletes:  # else such events were left out before they were folded
        gone = gone | is_deleted(spec.delete_where)
    return rows.withColumn(spec.deleted_column, gone) if spec.deleted_column else rows.withColumn(DELETE_MARK, gone)


@contextmanager
def _translated(spec: OperationSpec) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # of a failing statement, Py4J's own error comes through as well as PySpark's
        found = _FOUND.search(full_text(error))
        if found is None:
            raise
        key = bytes.fromhex(found[1]).decode()
        raise IncompleteRowError(
            f"An event changes some columns of the row with {', '.join(map(quoted, spec.source_keys))} = {key} of {spec.table},"
            " which the table does not have.",
            why="Its insert is not in the archive: the archive begins later, or events were removed from it.",
            data="Nothing of this batch was written; the watermark stays.",
            next=f"cdc-ops resync --pipeline {spec.pipeline} --table {spec.table} --mode full   (brings the rows from before the archive)",
        ) from error
