"""What Delta keeps of a data file so that it need not be read, taken from the file's own footer. Spark-free."""

import json
from collections.abc import Collection
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow.parquet as pq

TEXT_LENGTH: Final = 32
"""Characters of a text that Delta keeps; a longer largest text is left out, which never hides a row."""


def file_statistics(footer: pq.FileMetaData, indexed: Collection[str]) -> str:
    """Returns the statistics of a file as the text that its entry in Delta's log has.

    Times are cut to milliseconds, as Delta cuts them: its readers allow for that. Floating-point numbers have only their NULLs counted,
    for a footer leaves NaN out, which Spark takes for the largest number.

    Args:
        footer: Of a file with columns of plain types.
        indexed: Names of the columns to tell about.
    """
    lowest: dict[str, Any] = {}
    largest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for place in range(footer.num_columns):
        name = footer.schema.column(place).path
        if name not in indexed:
            continue
        groups = [footer.row_group(number).column(place).statistics for number in range(footer.num_row_groups)]
        if any(group is None for group in groups):
            continue
        nulls[name] = sum(group.null_count for group in groups)
        bounds = _bounds([group for group in groups if group.has_min_max], groups)
        if bounds is not None:
            low, high = bounds
            lowest |= {name: low} if low is not None else {}
            largest |= {name: high} if high is not None else {}
    return _printed(
        {
            "numRecords": footer.num_rows,
            "minValues": lowest,
            "maxValues": largest,
            "nullCount": nulls,
            "tightBounds": True,
        }
    )


def _bounds(known: list[Any], groups: list[Any]) -> tuple[Any, Any] | None:
    """Returns the bounds of a column's values, None if there are none or they cannot be told."""
    if any(not group.has_min_max and group.num_values for group in groups) or not known:
        return None
    with suppress(OverflowError, ValueError, UnicodeDecodeError):  # e.g. a date before the year 1, which Python has not
        low, high = min(group.min for group in known), max(group.max for group in known)
        return _lowest(low), _largest(high)
    return None


def _lowest(value: Any) -> Any:
    return value[:TEXT_LENGTH] if isinstance(value, str) else _value(value)


def _largest(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= TEXT_LENGTH else None
    return _value(value)


def _value(value: Any) -> Any:
    """Returns a bound as Delta prints it, None for types that have none."""
    match value:
        case bool() | float() | bytes():
            return None
        case datetime():
            return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + ("Z" if value.tzinfo else "")
        case date():
            return value.isoformat()
        case int() | Decimal():
            return value
        case _:
            return None


def _printed(value: Any) -> str:
    """Returns JSON with decimals as numbers that keep all their digits."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{_printed(inner)}" for name, inner in value.items()) + "}"
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)
