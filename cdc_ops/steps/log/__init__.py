"""The log method in Spark: archived events are read, folded, landed and merged."""
