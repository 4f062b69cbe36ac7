"""Bounds of decimals in a table's log that an earlier version of cdc-ops may have written wrong, and what they are by the files themselves.

That version passed what the log says of a file through binary floating point when it replaced some of the file's rows: of more than 15
digits some were lost. Readers then leave a file out that has the value, and a MERGE inserts its key a second time. Delta prints decimals
exactly, but prints wrong ones again as if they were exact. So no text tells, only the file: of each file that may be wrong the footer is
read. A table that was looked at, or made by a version that keeps digits, has a property that says so. Spark-free.
"""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any, Final
from urllib.parse import unquote

from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.lake.log.data_files import physical_names
from cdc_ops.lake.log.delta_log import LogState
from cdc_ops.lake.log.statistics_text import members, object_of

EXACT_BOUNDS: Final = ("cdc_ops.decimal_bounds", "exact")
"""Name and value of the property of tables whose bounds were never wrong, or have been corrected."""

_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_DIGITS_OF_A_DOUBLE: Final = 15
"""A decimal of as many digits passes a double unchanged."""
_READERS: Final = 16
_KINDS: Final = ("minValues", "maxValues")


def has_exact_bounds(state: LogState) -> bool:
    """True for a table whose bounds of decimals are right: its property says so, or it has no decimals that could be wrong."""
    name, value = EXACT_BOUNDS
    return state.property(name) == value or not _wide_decimals(state)


def _wide_decimals(state: LogState) -> frozenset[str]:
    """Returns the columns, as files name them, whose values a double does not hold. Tables with structs were never written so."""
    names = physical_names(dict(state.metadata or {}))
    found = ((name, _DECIMAL.fullmatch(kind)) for name, kind in state.columns())
    return frozenset(names[name] for name, kind in found if kind and int(kind[1]) > _DIGITS_OF_A_DOUBLE and int(kind[2]))


def uncertain_files(state: LogState, adds: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the files whose bounds may be wrong: rows of them are deleted, as of all whose entry was written a second time.

    A checkpoint may have bounds in a form that only Delta reads: then nothing is known of them.
    """
    wide = _wide_decimals(state)

    def has_bounds(stats: Mapping[str, str]) -> bool:
        return any(wide & members(stats.get(kind) or "{}").keys() for kind in _KINDS)

    return [add for add in adds if add.get("deletionVector") and (not add.get("stats") or has_bounds(members(add["stats"])))]


def corrected_entries(path: str, state: LogState, files: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the log's entries of those files whose bounds are wrong, with the right ones; a bound that no footer tells is left out.

    Args:
        path: The table.
        state: Its metadata.
        files: The entries of uncertain files.
    """
    wide = _wide_decimals(state)
    with ThreadPoolExecutor(_READERS) as threads:
        return [add for add in threads.map(lambda add: _corrected(path, wide, add), files) if add is not None]


def _corrected(path: str, wide: frozenset[str], add: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the entry with the right bounds, None if it has them; one whose bounds are not known has none then."""
    footer = _footer(path, str(add["path"]))
    if not add.get("stats"):
        stats = {} if footer is None else {"numRecords": str(footer.num_rows), "tightBounds": "false"}
        return {**add, "stats": object_of(stats), "dataChange": False} if stats else None
    stats = members(add["stats"])
    before = [members(stats.get(kind) or "{}") for kind in _KINDS]
    right = {} if footer is None else _bounds_of_file(footer, wide)
    after = [_with_right(one, wide, {name: bounds[side] for name, bounds in right.items()}) for side, one in enumerate(before)]
    if after == before:
        return None
    return {**add, "stats": object_of({**stats, **dict(zip(_KINDS, map(object_of, after), strict=True))}), "dataChange": False}


def _with_right(before: Mapping[str, str], wide: frozenset[str], right: Mapping[str, Decimal]) -> dict[str, str]:
    """Returns the bounds of one side; those that are the right numbers keep their text."""
    after = dict(before)
    for name in wide & before.keys():
        if name not in right:
            del after[name]
        elif Decimal(before[name]) != right[name]:
            after[name] = f"{right[name]:f}"
    return after


def _footer(path: str, name: str) -> Any:
    """Returns what Parquet says of a file of the table; None if it cannot be read, or lies outside the table's folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    filesystem, root = open_filesystem(path)
    try:
        with filesystem.open(f"{root}/{unquote(name)}", "rb") as file:
            return pq.ParquetFile(file).metadata
    except (OSError, pa.ArrowException):
        return None


def _bounds_of_file(footer: Any, wide: frozenset[str]) -> dict[str, tuple[Decimal, Decimal]]:
    """Returns the bounds of a file's columns, without columns of which its footer does not tell them."""
    places = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
    found = {name: _bounds_of_column(footer, places[name]) for name in wide & places.keys()}
    return {name: bounds for name, bounds in found.items() if bounds is not None}


def _bounds_of_column(footer: Any, place: int) -> tuple[Decimal, Decimal] | None:
    groups = [footer.row_group(number).column(place).statistics for number in range(footer.num_row_groups)]
    if any(group is None or (group.num_values and not group.has_min_max) for group in groups):
        return None
    known = [group for group in groups if group.has_min_max]
    return (min(Decimal(group.min) for group in known), max(Decimal(group.max) for group in known)) if known else None
