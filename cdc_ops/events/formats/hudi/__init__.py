"""Apache Hudi's change query."""
