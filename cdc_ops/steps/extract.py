"""extract: reads one frozen window of the source over JDBC and lands it as Parquet in the staging area. Runs in Spark.

The rows are read once. What follows works on the landed files, so the source may move on and merge may be retried alone. A window that
has landed is not read again unless files of it are gone; reading it again later is harmless, because rows that changed since come with the
next window.
"""

from dataclasses import replace
from functools import partial
from itertools import count

from pyspark.sql import SparkSession

from cdc_ops.core.apply.apply_spec import Landing
from cdc_ops.core.operation.merging.merge_plan import null_keys_error
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead, CompareRead
from cdc_ops.core.operation.results import Counts, Manifest, OperationResult, Outcome, Repairs
from cdc_ops.core.phases import RunPhase
from cdc_ops.lake.staging.landing import land, landing_folder
from cdc_ops.lake.staging.manifests import find_landed
from cdc_ops.sources.base import Source
from cdc_ops.steps.log.land_events import land_events
from cdc_ops.steps.log.shared_scan import SharedScans
from cdc_ops.steps.query.jdbc_rows import read_with_null_counts
from cdc_ops.steps.query.native_rows import failed_task
from cdc_ops.steps.query.row_counts import check_rows_read
from cdc_ops.steps.query.written_keys import check_landed_keys
from cdc_ops.steps.reconcile.land_differences import land_differences
from cdc_ops.steps.reporting.stopwatch import measured, measured_until
from cdc_ops.steps.stage.invalid_values import unstorable_value
from cdc_ops.steps.stage.row_errors import translated_row_errors
from cdc_ops.steps.stage.unordered_rows import check_places
from cdc_ops.steps.table.columns.schema_evolution import check_columns_unchanged
from cdc_ops.steps.table.columns.wide_columns import retry_widened, too_large_value, with_width_of_table


def extract(
    spark: SparkSession, source: Source, operation: Operation, attempt: str, readings: SharedScans | None = None
) -> OperationResult:
    """Lands an operation's rows, unless they are landed already or do not stop in between.

    Args:
        spark: A session of its own.
        source: What to read from; asked for its columns before and after.
        operation: The frozen operation.
        attempt: Folder name of this try, unique.
        readings: What operations of the log method share with others of their job.

    Raises:
        SchemaChangedError: the table was altered after the plan.
        CountMismatchError: rows that the source has were not read.
        NullKeyError, DuplicateKeyError: a key is NULL, or comes twice, that the source promises to be unique.
        SourceError: the source refuses or breaks off the read.
        UnstorableValueError: a value cannot be stored, and the table's policy is to fail.
    """
    if operation.apply.landing is Landing.DIRECT:
        return _result(operation, None)
    landed = find_landed(operation)
    if landed.manifest is not None:
        return _result(operation, landed.manifest)
    tries = count()  # each in a folder of its own: tasks of a failed one may still write

    def land_once(current: Operation) -> Manifest:
        number = next(tries)
        return _land(spark, source, current, f"{attempt}w{number}" if number else attempt, readings, landed.damage)

    with measured(RunPhase.LANDING):
        return _result(operation, retry_widened(with_width_of_table(operation), land_once))


def damage_of(operation: Operation) -> str:
    """Returns why the landed rows of an operation cannot be used, so that the next step reads its window again; "" if they can."""
    return find_landed(operation).damage if operation.apply.landing is Landing.STAGED else ""


def _land(spark: SparkSession, source: Source, operation: Operation, attempt: str, readings: SharedScans | None, reread: str) -> Manifest:
    def finished(manifest: Manifest) -> Manifest:
        check_rows_read(source, operation, manifest.landed.rows)
        if operation.apply.unique_keys:
            _check_keys(spark, operation, manifest)
        return replace(check_places(spark, operation, manifest), reread=reread)

    if isinstance(operation.read, ArchiveRead):
        with translated_row_errors(partial(too_large_value, operation.table)):
            return land_events(spark, operation, operation.read.batch, attempt, readings, reread)
    check_columns_unchanged(source, operation)
    try:
        with translated_row_errors(failed_task, partial(too_large_value, operation.table), partial(unstorable_value, operation.table)):
            if isinstance(operation.read, CompareRead):
                return land_differences(spark, source, operation, attempt, lambda: check_columns_unchanged(source, operation), reread)
            read = source.jdbc_read(operation.read_schema, operation.slices)
            rows = read_with_null_counts(spark, read, operation.read_schema, operation.source_keys)
            with measured_until(RunPhase.READING, lambda: check_columns_unchanged(source, operation)) as check:
                return land(spark, rows, operation, attempt, check, finished)
    except Exception:  # a failing write raises Py4J's own error, not PySpark's
        check_columns_unchanged(source, operation)  # says what a driver's message only hints at
        raise


def _check_keys(spark: SparkSession, operation: Operation, landed: Manifest) -> None:
    """Refuses landed rows whose keys are not what the source promises of them; they are not declared landed, and read again."""
    if landed.null_keys:
        raise null_keys_error(operation, landed.null_keys)
    rows = spark.read.parquet(landing_folder(operation, landed.attempt))
    check_landed_keys(rows, operation.apply.keys, str(operation.table))


def _result(operation: Operation, manifest: Manifest | None) -> OperationResult:
    counts = Counts()
    if manifest is not None:
        repairs = Repairs(reread=(manifest.reread,) if manifest.reread else ())
        counts = Counts(read=manifest.landed.rows, bytes=manifest.landed.bytes, nulled=manifest.nulled, repairs=repairs)
    return OperationResult(op_seq=operation.op_seq, operation_id=operation.operation_id, outcome=Outcome.LANDED, counts=counts)
