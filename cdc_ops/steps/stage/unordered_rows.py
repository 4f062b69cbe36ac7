"""Changes without a place: NULL in a key or in `sequence_by`. The statement ends at the first one, or all are set aside."""

from dataclasses import replace
from functools import reduce
from operator import or_

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.scd import UNPLACED
from cdc_ops.core.operation.merging.merge_plan import null_keys_error
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Manifest
from cdc_ops.core.text import quoted
from cdc_ops.errors import NullSequenceError
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.quarantine.write import set_rows_aside
from cdc_ops.lake.staging.landing import read_landed
from cdc_ops.steps.stage.truncates import is_emptying


def unordered_row(operation: Operation, failure: str) -> NullSequenceError | None:
    """Returns the error, if the text of a failure is that of a row with NULL in a column of `sequence_by`."""
    return _unplaced(operation) if operation.apply.stored_as.sequence is not None and UNPLACED in failure else None


def check_places(spark: SparkSession, operation: Operation, landed: Manifest) -> Manifest:
    """Counts the landed rows that have no place, by reading them where the table has an order of its own or lacks keys.

    It is looked at before the rows count as landed: once they are repaired at the source, or a quarantine is set, they are read again.

    Raises:
        NullKeyError: a row has NULL in a key column, and there is no quarantine.
        NullSequenceError: or in a column of `sequence_by`.
    """
    sequence = operation.apply.stored_as.sequence
    if landed.null_keys and operation.apply.truncate_where:  # a row that empties the table needs none
        keyless = reduce(or_, map(_lacks, operation.apply.keys))
        landed = replace(landed, null_keys=read_landed(spark, operation, landed).where(keyless & ~is_emptying(operation)).count())
    if landed.null_keys and not operation.apply.quarantine:
        raise null_keys_error(operation, landed.null_keys)
    if not landed.landed.rows or operation.apply.update_only or sequence is None or not sequence.columns:
        return landed
    found = read_landed(spark, operation, landed).where(_fault(operation) != "").count()
    if found and not operation.apply.quarantine:
        raise _unplaced(operation)
    return replace(landed, quarantined=found)


def quarantine_unordered_rows(operation: Operation, batch: Batch) -> Batch:
    """Writes landed rows that have no place to the quarantine, and leaves them out.

    Raises:
        LakeConflictError: another process changes the quarantine.
    """
    if not operation.lands_rows or batch.manifest is None or not batch.manifest.quarantined:
        return batch
    fault = _fault(operation)
    set_rows_aside(batch.rows.sparkSession, operation, operation.apply.quarantine, batch.rows.where(fault != ""), fault)
    return replace(batch, rows=batch.rows.where(fault == ""))


def _unplaced(operation: Operation) -> NullSequenceError:
    columns = operation.apply.stored_as.sequence.columns if operation.apply.stored_as.sequence else ()
    where = " IS NULL OR ".join(columns)
    return NullSequenceError(
        f"Rows of {operation.table} have NULL in 'sequence_by' ({', '.join(columns)}).",
        why="Such a row is neither older nor newer than any other.",
        data="Nothing of this batch was written; the watermark stays.",
        next=f"Repair the rows at the source (WHERE {where} IS NULL); they are read again. Or order by columns that are NOT NULL there,"
        " or set 'bad_records: quarantine'.",
    )


def _fault(operation: Operation) -> Column:
    """What is wrong with a row, "" if nothing is."""
    sequence = operation.apply.stored_as.sequence
    keys = [F.when(_lacks(name) & ~is_emptying(operation), F.lit(f"NULL in key column {name}")) for name in operation.apply.keys]
    told = zip(sequence.columns, sequence.parts, strict=True) if sequence else ()
    places = [F.when(F.expr(part).isNull(), F.lit(f"NULL in 'sequence_by' {name}")) for name, part in told]
    return F.concat_ws("; ", *keys, *places)


def _lacks(name: str) -> Column:
    return F.col(quoted(name)).isNull()
