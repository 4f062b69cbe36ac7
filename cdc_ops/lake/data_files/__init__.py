"""Data files of a Delta table that are written outside Spark, and the commit that makes them the table's."""
