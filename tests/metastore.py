"""A metastore for tests: Hive's, with a Derby database, for sessions beside the one session of the process."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def metastore_session(spark: SparkSession, folder: Path) -> SparkSession:
    """Returns a session on the same JVM whose catalog is a metastore of its own, where the others' is in memory.

    Which catalog an application has is settled when its first session is made; another *first* session is what this makes.
    """
    conf = spark._jvm.java.util.HashMap()
    conf.put("spark.sql.catalogImplementation", "hive")
    conf.put("spark.sql.warehouse.dir", str(folder / "warehouse"))
    conf.put("spark.hadoop.javax.jdo.option.ConnectionURL", f"jdbc:derby:;databaseName={folder / 'metastore'};create=true")
    kind = SparkSession._get_j_spark_session_class(spark._jvm)
    return SparkSession(spark.sparkContext, kind(spark._jsc.sc(), conf))


def stored_columns(spark: SparkSession, schema: str, table: str) -> list[tuple[str, str]]:
    """Returns name and type of the columns that the metastore itself has; Spark's own statements would ask the Delta log."""
    stored: Any = spark._jsparkSession.sharedState().externalCatalog().unwrapped().client().getTable(schema, table)
    return [(one["name"], one["type"]) for one in json.loads(stored.properties().apply("spark.sql.sources.schema"))["fields"]]
