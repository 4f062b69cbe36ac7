"""A gold job that keeps an aggregate in step with a table of cdc-ops: changes are added and subtracted, and no group is computed again.

    spark-submit amount_per_name.py s3a://bucket/lake/shop/orders s3a://bucket/gold/amount_per_name

The table has `change_feed: true`. The aggregate's own log says up to which version of the table it has everything: that version and the
sums travel in one commit. Its transaction number is made of the version that the range *begins* with: of all runs that begin there, however
often they are tried and however far each would go, one commits and Delta skips the others.
"""

import json
import sys

from delta import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import cdc_ops

APP_ID = "gold/amount_per_name"


def follow(spark: SparkSession, source: str, gold: str, until: int | None = None) -> tuple[int, int]:
    """Brings the aggregate up to a version of the table; returns the versions that it went from and to."""
    end = DeltaTable.forPath(spark, source).history(1).first()["version"] if until is None else until
    begin = reached(spark, gold)
    if begin < 0:
        load(spark, source, gold, end)
    elif begin < end:
        add_changes(spark, source, gold, begin, end)
    return begin, end


def reached(spark: SparkSession, gold: str) -> int:
    """Returns the version of the table up to which the aggregate has everything, -1 if there is none yet."""
    if not DeltaTable.isDeltaTable(spark, gold):
        return -1
    history = DeltaTable.forPath(spark, gold).history().where("userMetadata LIKE '%through%'")
    return json.loads(history.orderBy("version", ascending=False).first()["userMetadata"])["through"]


def load(spark: SparkSession, source: str, gold: str, end: int) -> None:
    """Computes the aggregate from the whole table as it was at a version."""
    rows = spark.read.format("delta").option("versionAsOf", end).load(source)
    sums = rows.groupBy("name").agg(F.count("*").alias("orders"), F.sum("amount").cast("decimal(38, 2)").alias("amount"))
    sums.write.format("delta").option("userMetadata", json.dumps({"through": end})).save(gold)


def add_changes(spark: SparkSession, source: str, gold: str, begin: int, end: int) -> None:
    """Takes off what rows were before, and adds what they are after."""
    changed = cdc_ops.changes(spark, source, begin=begin, end=end)
    sides = [changed.where(f"{side} IS NOT NULL").selectExpr(f"{side}.*", f"{sign} sign") for side, sign in (("before", -1), ("after", 1))]
    signed = sides[0].unionByName(sides[1])
    sums = signed.groupBy("name").agg(F.sum("sign").alias("orders"), F.sum(F.expr("sign * amount")).alias("amount"))
    sums.createOrReplaceTempView("changed_sums")
    conf = {
        "spark.databricks.delta.write.txnAppId": APP_ID,
        "spark.databricks.delta.write.txnVersion": str(begin + 1),
        "spark.databricks.delta.commitInfo.userMetadata": json.dumps({"through": end}),
    }
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        spark.sql(
            f"""MERGE INTO delta.`{gold}` g USING changed_sums s ON g.name <=> s.name
                WHEN MATCHED THEN UPDATE SET g.orders = g.orders + s.orders, g.amount = g.amount + s.amount
                WHEN NOT MATCHED THEN INSERT (name, orders, amount) VALUES (s.name, s.orders, s.amount)"""
        ).collect()
    finally:  # a later statement with a number of this one would be skipped in silence
        for name in conf:
            spark.conf.unset(name)


if __name__ == "__main__":
    print(follow(SparkSession.builder.getOrCreate(), *sys.argv[1:3]))
