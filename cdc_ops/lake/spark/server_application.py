r"""The application that a Spark Connect server of ours is, for spark-submit; needs PySpark alone.

    spark-submit --conf spark.plugins=org.apache.spark.sql.connect.SparkConnectPlugin \
        --conf spark.sql.artifact.isolation.enabled=false server_application.py

Spark's own `SparkConnectServer` gives each session class loaders of its own, whatever it is told: each compiles again what Spark
generates for a plan that the server has run a thousand times, and Java begins again to make it fast. In an application with the
plugin the setting holds.
"""

import os
import time


def main() -> None:
    """Starts Spark, and with it the server; returns when the JVM that started this process has ended."""
    from pyspark.sql import SparkSession

    parent = os.getppid()
    SparkSession.builder.getOrCreate()
    while os.getppid() == parent:
        time.sleep(1)


if __name__ == "__main__":
    main()
