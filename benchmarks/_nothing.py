"""The smallest Spark application: python for spark-submit, the price of finding out with Spark that there is nothing to do."""

from pyspark.sql import SparkSession

if __name__ == "__main__":
    SparkSession.builder.getOrCreate().stop()
