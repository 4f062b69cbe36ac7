"""Expressions in pipeline files: Spark SQL over a table's columns, parsed by sqlglot and checked before any row is read."""
