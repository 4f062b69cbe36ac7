"""The rows of a Delta table, read from its Parquet files, and whether each fits what the log says of its file."""

import json
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from tests.torture.oracle.deletion_vectors import deleted_rows
from tests.torture.oracle.delta_log import Snapshot
from tests.torture.oracle.values import days_of, from_lake, micros_of

Row = dict[str, Any]


@dataclass
class LakeTable:
    """Rows of a table by column name, the types of its columns, and what does not fit in its log."""

    rows: list[Row] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    version: int = -1


def read_lake(snapshot: Snapshot) -> LakeTable:
    """Returns the rows of a snapshot. Each file is read whole: what the log says about it is compared, never used."""
    fields = snapshot.fields
    table = LakeTable(types={one["name"]: _type_name(one["type"]) for one in fields}, version=snapshot.version)
    for add in snapshot.files.values():
        path = snapshot.root / urllib.parse.unquote(add["path"])
        columns, count = _columns(path, fields, snapshot, add)
        gone = deleted_rows(vector, snapshot.root) if (vector := add.get("deletionVector")) else set()
        table.faults += _faults(add, columns, count, len(gone), table.types)
        for number in range(count):
            if number not in gone:
                table.rows.append({name: values[number] for name, values in columns.items()})
    return table


def _type_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind)


def _physical(one: dict[str, Any]) -> str:
    return str((one.get("metadata") or {}).get("delta.columnMapping.physicalName", one["name"]))


def _columns(path: Path, fields: list[dict[str, Any]], snapshot: Snapshot, add: dict[str, Any]) -> tuple[dict[str, list[Any]], int]:
    read = pyarrow.parquet.read_table(path, coerce_int96_timestamp_unit="us", partitioning=None)
    folders = snapshot.partition_columns
    columns = dict[str, list[Any]]()
    for one in fields:
        name, stored = one["name"], _type_name(one["type"])
        if name in folders:
            columns[name] = [_folder_value((add.get("partitionValues") or {}).get(_physical(one)), stored)] * read.num_rows
        elif _physical(one) in read.column_names:
            columns[name] = _plain(read.column(_physical(one)), stored)
        else:
            columns[name] = [None] * read.num_rows
    return columns, read.num_rows


def _plain(column: pa.ChunkedArray, stored: str) -> list[Any]:
    if stored == "date":
        column = pc.cast(column, pa.int32())
    elif stored in ("timestamp", "timestamp_ntz"):
        column = pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz)), pa.int64())
    convert = from_lake(stored)
    values = [None if value is None else convert(value) for value in column.to_pylist()]
    return [Decimal(one) if stored.startswith("decimal") and isinstance(one, int) else one for one in values]


def _folder_value(text: str | None, stored: str) -> Any:
    """Returns the value of a partition's text; both no text and the empty one are NULL, by Delta's protocol."""
    if not text:
        return None
    if stored in ("byte", "short", "integer", "long"):
        return int(text)
    if stored.startswith("decimal"):
        return Decimal(text)
    if stored in ("timestamp", "timestamp_ntz"):
        return micros_of(text.replace("T", " ").removesuffix("Z"))
    if stored in ("float", "double"):
        return from_lake(stored)(float(text))
    return {"boolean": lambda: text == "true", "date": lambda: days_of(text), "binary": text.encode}.get(stored, lambda: text)()


def _faults(add: dict[str, Any], columns: dict[str, list[Any]], count: int, gone: int, types: dict[str, str]) -> Iterator[str]:
    """Yields what the entry of a file says that its rows do not hold: a reader that skips files by it would miss rows."""
    if not add.get("stats"):
        return
    stats = json.loads(add["stats"], parse_float=Decimal)
    if stats.get("numRecords") != count:
        yield f"numRecords says {stats.get('numRecords')}, the file has {count} rows"
    tight = stats.get("tightBounds", True) and not gone
    for name, nulls in (stats.get("nullCount") or {}).items():
        if name in columns and tight and isinstance(nulls, int) and nulls != sum(one is None for one in columns[name]):
            yield f"nullCount of {name} says {nulls}, the file has {sum(one is None for one in columns[name])}"
    for side, lower in (("minValues", True), ("maxValues", False)):
        for name, bound in (stats.get(side) or {}).items():
            if name in columns and (bad := _outside(columns[name], bound, types[name], lower=lower)) is not None:
                yield f"{side} of {name} says {bound!r}, the file has {bad!r}"


def _outside(values: list[Any], bound: Any, stored: str, *, lower: bool) -> Any:
    """Returns a value that lies outside a bound, None if none does or nothing can be said."""
    present = [one for one in values if one is not None]
    if bound is None or not present:
        return None
    if stored in ("byte", "short", "integer", "long") or stored.startswith("decimal"):
        limit: Any = Decimal(bound)
    elif stored == "date":
        limit = days_of(bound)
    elif stored in ("timestamp", "timestamp_ntz"):  # cut to milliseconds by Delta: a maximum is one too low by itself, and readers know
        limit = _instant(bound)
        limit = limit + 999 if limit is not None and not lower else limit
    elif stored == "string":
        limit = bound
        key = str.encode
        worst = min(present, key=key) if lower else max(present, key=key)
        return worst if (key(worst) < key(limit) if lower else key(worst) > key(limit)) else None
    else:
        return None
    if limit is None:
        return None
    worst = min(present) if lower else max(present)
    return worst if (worst < limit if lower else worst > limit) else None


def _instant(text: str) -> int | None:
    body = text.replace("T", " ").removesuffix("Z")
    if "+" in body[10:] or "-" in body[11:]:
        sign = 1 if "+" in body[10:] else -1
        moment, _, zone = body.rpartition("+" if sign > 0 else "-")
        hours, _, minutes = zone.partition(":")
        found = micros_of(moment)
        return None if found is None else found - sign * (int(hours) * 60 + int(minutes or 0)) * 60_000_000
    return micros_of(body)
