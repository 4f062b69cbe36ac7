"""extract: reads one frozen window of the source over JDBC and lands it as Parquet in the staging area. Runs in Spark.

The rows are read once. What follows works on the landed files, so the source may move on and merge may be retried alone. A complete
manifest
is never redone; reading the same window again later is harmless, because rows that changed since come with the next window.
"""

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.operations import Counts, Landing, Manifest, OperationResult, OperationSpec, Outcome
from cdc_ops.core.tables import TableSchema
from cdc_ops.lake.manifests import is_landed
from cdc_ops.lake.staging import land, read_manifest
from cdc_ops.sources.base import JdbcRead, Source
from cdc_ops.steps.schema import check_source


def extract(spark: SparkSession, source: Source, spec: OperationSpec, attempt: str) -> OperationResult:
    """Lands an operation's rows, unless they are landed already or do not stop in between.

    Args:
        spark: A session of its own.
        source: What to read from; asked for its columns before and after.
        spec: The frozen operation.
        attempt: Folder name of this try, unique.

    Raises:
        SchemaChangedError: the table was altered after the plan.
        SourceError: the source refuses or breaks off the read.
    """
    if spec.landing is Landing.DIRECT:
        return _result(spec, None)
    manifest = read_manifest(spec.staging) if is_landed(spec) else _land(spark, source, spec, attempt)
    return _result(spec, manifest)


def _land(spark: SparkSession, source: Source, spec: OperationSpec, attempt: str) -> Manifest:
    check_source(source, spec)
    rows = read_source(spark, source.jdbc_read(spec.schema, spec.slices), spec.schema)
    try:
        return land(spark, rows, spec, attempt, lambda: check_source(source, spec))
    except PySparkException:
        check_source(source, spec)  # says what a driver's message only hints at
        raise


def read_source(spark: SparkSession, read: JdbcRead, schema: TableSchema) -> DataFrame:
    """Returns the rows of a bounded read in the types of the lake, one partition per slice; nothing is read before an action."""
    frames = [_read_slice(spark, read, relation) for relation in read.relations]
    rows = frames[0]
    for frame in frames[1:]:
        rows = rows.unionAll(frame)
    columns = zip(read.decoders, schema.columns, strict=True)
    return rows.select(*(F.expr(decoder).cast(column.delta_type).alias(column.name) for decoder, column in columns))


def _read_slice(spark: SparkSession, read: JdbcRead, relation: str) -> DataFrame:
    reader = spark.read.format("jdbc").option("url", read.url).option("driver", read.driver).option("dbtable", relation)
    reader = reader.options(**read.properties).option("preferTimestampNTZ", "true")
    if read.session_init:
        reader = reader.option("sessionInitStatement", read.session_init)
    return reader.load()


def _result(spec: OperationSpec, manifest: Manifest | None) -> OperationResult:
    counts = Counts(read=manifest.rows, bytes=manifest.bytes) if manifest else Counts()
    return OperationResult(op_seq=spec.op_seq, operation_id=spec.operation_id, outcome=Outcome.LANDED, counts=counts)
