"""Source against lake in Spark: checksums, rows that differ."""
