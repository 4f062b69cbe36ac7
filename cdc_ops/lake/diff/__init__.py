"""Source against lake in Spark: when rows are equal, checksums, rows that differ."""
