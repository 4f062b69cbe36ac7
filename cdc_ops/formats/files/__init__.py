"""Reads files of archives as records: JSON lines, CSV, Parquet, Avro."""
