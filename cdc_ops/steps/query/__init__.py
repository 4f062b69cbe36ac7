"""The query method in Spark: rows of the source over JDBC, as gently as the source allows."""
