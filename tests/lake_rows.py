"""The rows of a Delta table as Python values, by its log and files: a question of a test costs no job of Spark's.

The oracle of `tests/torture` replays the log; nothing of the package and no engine stands between a test and what was written.
"""

import datetime
import re
import urllib.parse
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from pyspark.sql import SparkSession

from tests.torture.oracle.deletion_vectors import deleted_rows
from tests.torture.oracle.delta_log import Snapshot, replay

_INTEGERS: Final = ("byte", "short", "integer", "long")
_PLAIN: Final = (*_INTEGERS, "string", "binary", "boolean", "float", "double", "date", "timestamp", "timestamp_ntz")
_DIGITS: Final = re.compile(r"\d+")
_EPOCH: Final = datetime.datetime(1970, 1, 1)


def rows_of(path: str, columns: str = "*") -> list[tuple[Any, ...]] | None:
    """Returns the rows of a table in no order, with the values that `collect()` has.

    Args:
        path: The table's folder.
        columns: Names, separated by commas, or `*`.

    Returns:
        None where this takes an engine: on an object store, for expressions, and for columns that are no plain values.
    """
    if "://" in path:
        return None
    snapshot = replay(Path(path))
    kinds = {field["name"]: field["type"] for field in snapshot.fields}
    names = [*kinds] if columns == "*" else [name.strip().strip("`") for name in columns.split(",")]
    if any(name not in kinds or not _is_plain(kinds[name]) for name in names):
        return None
    rows: list[tuple[Any, ...]] = []
    for add in snapshot.files.values():
        rows += _rows_of_file(snapshot, add, names, kinds)
    return rows


def table_rows(spark: SparkSession, path: str, columns: str = "*") -> list[tuple[Any, ...]]:
    """Returns the rows of a table in no order; Spark reads them only where it takes an engine."""
    rows = rows_of(path, columns)
    if rows is None:
        rows = [tuple(row) for row in spark.sql(f"SELECT {columns} FROM delta.`{path}`").collect()]
    return rows


def _is_plain(kind: Any) -> bool:
    if isinstance(kind, dict):
        return kind["type"] == "array" and kind["elementType"] in (*_INTEGERS, "string")
    return kind in _PLAIN or str(kind).startswith("decimal")


def _rows_of_file(snapshot: Snapshot, add: dict[str, Any], names: list[str], kinds: dict[str, Any]) -> list[tuple[Any, ...]]:
    file = snapshot.root / urllib.parse.unquote(add["path"])
    read = pyarrow.parquet.read_table(file, coerce_int96_timestamp_unit="us", partitioning=None)
    physical = {
        field["name"]: (field.get("metadata") or {}).get("delta.columnMapping.physicalName", field["name"]) for field in snapshot.fields
    }
    values: list[list[Any]] = []
    for name in names:
        if name in snapshot.partition_columns:
            values.append([_of_folder(add["partitionValues"].get(physical[name]), kinds[name])] * read.num_rows)
        elif physical[name] in read.column_names:
            values.append(_of_column(read.column(physical[name]), kinds[name]))
        else:
            values.append([None] * read.num_rows)
    gone = deleted_rows(vector, snapshot.root) if (vector := add.get("deletionVector")) else set()
    return [row for number, row in enumerate(zip(*values, strict=True)) if number not in gone]


def _of_column(column: pa.ChunkedArray, kind: Any) -> list[Any]:
    if isinstance(kind, str) and kind.startswith("timestamp"):
        zone = column.type.tz if pa.types.is_timestamp(column.type) else None
        micros = pc.cast(pc.cast(column, pa.timestamp("us", zone)), pa.int64()).to_pylist()
        return [None if one is None else _moment(one, kind) for one in micros]
    if isinstance(kind, str) and kind.startswith("decimal"):  # files from before a type was widened have the narrower one
        precision, scale = map(int, _DIGITS.findall(kind))
        column = pc.cast(column, pa.decimal128(precision, scale))
    elif kind == "double":
        column = pc.cast(column, pa.float64())
    return list(column.to_pylist())


def _moment(micros: int, kind: str) -> datetime.datetime:
    """Returns a time as `collect()` does: what is an instant is told by the clock of this process."""
    if kind == "timestamp_ntz":
        return _EPOCH + datetime.timedelta(microseconds=micros)
    return datetime.datetime.fromtimestamp(micros // 1_000_000).replace(microsecond=micros % 1_000_000)


def _of_folder(text: str | None, kind: str) -> Any:
    """Returns the value of a partition; both no text and the empty one are NULL, by Delta's protocol."""
    if not text:
        return None
    if kind.startswith("decimal"):
        return Decimal(text)
    return _FOLDERS[kind](text)


def _instant(text: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(text)
    return moment.replace(tzinfo=moment.tzinfo or datetime.UTC).astimezone().replace(tzinfo=None)


_FOLDERS: Final[dict[str, Callable[[str], Any]]] = {
    **dict.fromkeys(_INTEGERS, int),
    **dict.fromkeys(("float", "double"), float),
    "string": str,
    "binary": str.encode,
    "boolean": "true".__eq__,
    "date": datetime.date.fromisoformat,
    "timestamp": _instant,
    "timestamp_ntz": datetime.datetime.fromisoformat,
}
"""What makes a value of the text of a partition, by its type."""
