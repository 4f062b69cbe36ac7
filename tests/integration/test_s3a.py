"""Spark and the Spark-free steps on one S3 endpoint: archives, staging and lake on s3a://."""

import gzip
import uuid
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from cdc_ops.lake.conf import archive_conf, store_conf
from cdc_ops.lake.deltalog import DeltaLog
from cdc_ops.lake.session import private_session
from cdc_ops.testing.object_store import LOGIN, ObjectStore


@pytest.fixture(scope="module")
def bucket(spark: SparkSession, object_store: ObjectStore) -> Iterator[str]:
    """A folder in the store's bucket, whose login Spark has as from a cluster's core-site.xml; the endpoint is in the environment."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    own = f"fs.s3a.bucket.{object_store.bucket}"
    hadoop.set(f"{own}.access.key", LOGIN["AWS_ACCESS_KEY_ID"])
    hadoop.set(f"{own}.secret.key", LOGIN["AWS_SECRET_ACCESS_KEY"])
    for name, value in store_conf({"AWS_ENDPOINT_URL": object_store.endpoint}).items():
        hadoop.set(name.replace("spark.hadoop.fs.s3a", own), value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", object_store.endpoint)
        yield f"{object_store.bucket}/{uuid.uuid4().hex[:8]}"


def test_spark_reads_files_and_keeps_delta_tables_on_an_s3_endpoint(spark: SparkSession, object_store: ObjectStore, bucket: str) -> None:
    prefix = bucket.partition("/")[2]
    object_store.put_many(
        {f"{prefix}/t/partition=0/t+0+00.json": b'{"a": 1}\n{"a": 2}\n', f"{prefix}/t/y y%20.json.gz": gzip.compress(b'{"a": 3}\n')}
    )
    with private_session(spark, archive_conf(f"s3://{bucket}/t", {"endpoint_url": object_store.endpoint})) as session:
        files = [f"s3a://{bucket}/t/partition=0/t+0+00.json", f"s3a://{bucket}/t/y y%20.json.gz"]
        rows = session.read.schema("a INT").json(files)
        assert sorted(row["a"] for row in rows.collect()) == [1, 2, 3]
        table = f"s3a://{bucket}/lake/t"
        rows.selectExpr("a", "'old' AS b").write.format("delta").save(table)
        rows.selectExpr("a + 1 AS a", "'new' AS b").createOrReplaceTempView("changes")
        session.sql(
            f"MERGE INTO delta.`{table}` t USING changes s ON t.a = s.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        merged = session.read.format("delta").load(table)
        assert sorted(tuple(row) for row in merged.collect()) == [(1, "old"), (2, "new"), (3, "new"), (4, "new")]
    log = DeltaLog(table)
    assert log.newest() == 1
    assert log.commit_info(1)["operation"] == "MERGE"
    assert log.state(1).columns() == (("a", "int"), ("b", "string"))
