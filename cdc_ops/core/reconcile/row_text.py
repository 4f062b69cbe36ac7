"""The canonical text of stored values, as Spark SQL: the lake's half of what both sides hash. The source's half is `sources.checksums`.

A field is `-` for NULL, the plain text of numbers, and `<characters>:<text>` for everything that may contain a comma; fields are joined by
commas. So no two different rows have the same text. Numbers of days and microseconds since 1970 stand for dates and times: no two programs
agree on their text. FLOAT and DOUBLE have no such text, because no two programs round them alike.
"""

from typing import Final

from cdc_ops.core.schema.tables import Column
from cdc_ops.core.text import quoted

_PLAIN: Final = ("tinyint", "smallint", "int", "bigint", "decimal", "boolean")

NULL_TEXT: Final = "-"


def spark_text(column: Column) -> str | None:
    """Returns Spark SQL for a stored column's field, None if its values have no text that both sides share.

    The session has to be in UTC and in ANSI mode (decimals without exponents).
    """
    name, kind = quoted(column.name), column.delta_type.lower()
    if kind == "string":
        return f"COALESCE(CONCAT(char_length({name}), ':', {name}), '{NULL_TEXT}')"
    if kind == "date":
        return _plain(f"unix_date({name})")
    if kind == "timestamp":
        return _plain(f"unix_micros({name})")
    if kind == "timestamp_ntz":
        return _plain(f"unix_micros(CAST({name} AS TIMESTAMP))")
    if kind == "binary":
        return f"COALESCE(hex({name}), '{NULL_TEXT}')"
    return _plain(f"CAST({name} AS {column.delta_type})") if kind.startswith(_PLAIN) else None


def _plain(value: str) -> str:
    return f"COALESCE(CAST({value} AS STRING), '{NULL_TEXT}')"
