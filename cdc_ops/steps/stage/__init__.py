"""From landed rows to a batch with one row per key. Spark expressions only."""
