"""Rows of Postgres without JDBC: COPY, and the protocol below it."""
