"""verify: compares source and lake and says which keys differ. Runs in Spark; writes nothing."""

from pyspark.sql import SparkSession

from cdc_ops.core.operations import OperationSpec
from cdc_ops.lake.compare import TableComparison, compare_tables
from cdc_ops.sources.base import Source
from cdc_ops.steps.extract import read_source


def verify(spark: SparkSession, source: Source, spec: OperationSpec) -> TableComparison:
    """Compares a whole table at the source, as it is now, with the lake.

    Args:
        spark: Any session.
        source: How to read.
        spec: Says what to read (`schema`, `slices`), what to compare by (`keys`) and where (`path`); it is not executed.
    """
    rows = read_source(spark, source.jdbc_read(spec.schema, spec.slices), spec.schema)
    lake = spark.read.format("delta").load(spec.path).select(*rows.columns)
    return compare_tables(rows, lake, spec.keys)
