"""Archived files as records, each with the number of its line: plain Python, no Spark.

    open_records(archive, path, ...) -> RecordReader -> batches of (value, line), then FileCount

reader      what all readers promise, and the errors that they share
json_lines  lines of text; one large file can be read by several tasks
csv         rows of CSV as JSON objects
parquet     rows of Parquet as JSON objects
avro        records of Avro as the documents that Kafka Connect's JsonConverter writes
"""
