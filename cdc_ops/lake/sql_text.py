"""Names and literals in Spark SQL, quoted. Spark-free."""

from cdc_ops.core.text import quoted


def path_name(path: str) -> str:
    """Returns the SQL name of the Delta table at a path."""
    return f"delta.{quoted(path)}"


def text_literal(value: str) -> str:
    """Returns a Spark SQL text literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
