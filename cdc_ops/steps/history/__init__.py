"""Event histories: a table as of a time, and how long events are kept. Runs in Spark."""
