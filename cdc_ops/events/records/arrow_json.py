"""Columns of Arrow as values that an encoder of JSON writes, spelled as Spark's `to_json` spells them."""

from collections.abc import Callable
from itertools import islice, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_YEAR_10000: Final = {"date": 2_932_897, "timestamp": 253_402_300_800_000_000}
"""Days and microseconds since 1970 with which years get a sign."""


class NotReadableError(Exception):
    """A column is of a type that is not read; the text says which."""


def finite(number: float | None) -> float | str | None:
    """Returns a number, or the name of what is none: JSON has no such numbers.

    >>> finite(0.5), finite(float("nan")), finite(float("-inf"))
    (0.5, 'NaN', '-Infinity')
    """
    if number is None or number - number == 0.0:
        return number
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"  # noqa: PLR0124


def shortest(number: float | None) -> float | str | None:
    """Returns a 32-bit number as the 64-bit number with its shortest digits.

    >>> shortest(0.10000000149011612)
    0.1
    """
    return finite(number) if number is None or number - number != 0.0 else float(str(np.float32(number)))


def json_values(name: str, array: pa.Array, *, at_top: bool = False) -> list[Any]:
    """Returns the values of a column for an encoder that writes bytes as base64.

    Args:
        name: The column, for messages.
        array: Its values.
        at_top: True if it is no part of another column: then its decimals are texts.

    Raises:
        NotReadableError: it is of a type that is not read.
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        return json_values(name, array.dictionary_decode(), at_top=at_top)
    if isinstance(kind, pa.JsonType):
        array, kind = array.storage, kind.storage_type
    for is_kind, values in _PLAIN:
        if is_kind(kind):
            return values(array)
    if pa.types.is_decimal(kind) or pa.types.is_uint64(kind):
        spelled = "f" if pa.types.is_decimal(kind) else "d"
        numbers = _as_they_are(array)
        return [None if number is None else format(number, spelled) for number in numbers] if at_top else numbers
    if pa.types.is_integer(kind):
        return _as_they_are(array)
    if pa.types.is_struct(kind):
        return _structs(name, array)
    if pa.types.is_map(kind):
        return _maps(name, array)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(name, array)
    raise NotReadableError(f"its column {name!r} has the type {kind}, which is not read")


def _is_one_of(*kinds: Callable[[pa.DataType], bool]) -> Callable[[pa.DataType], bool]:
    return lambda kind: any(is_kind(kind) for is_kind in kinds)


def _as_they_are(array: pa.Array) -> list[Any]:
    found: list[Any] = array.to_pylist()
    return found


def _texts(array: pa.Array) -> list[Any]:
    try:
        return _as_they_are(array)
    except UnicodeDecodeError:
        found = array.cast(pa.large_binary()).to_pylist()
        return [None if text is None else text.decode("utf-8", "surrogateescape") for text in found]


def _moments(array: pa.Array) -> list[Any]:
    """Returns dates, or dates with times to the microsecond."""
    is_date = pa.types.is_date(array.type)
    plain = array.cast(pa.date32()) if is_date else array.cast(pa.timestamp("us", array.type.tz)).cast(pa.timestamp("us"))
    numbers = plain.view(pa.int32() if is_date else pa.int64())
    texts = plain.cast(pa.string())
    late = pc.greater_equal(numbers, _YEAR_10000["date" if is_date else "timestamp"])
    if pc.any(late).as_py():
        texts = pc.if_else(late, pc.binary_join_element_wise("+", texts, ""), texts)
    return _as_they_are(texts)


def _structs(name: str, array: pa.Array) -> list[Any]:
    names = [field.name for field in array.type]
    columns = [json_values(name, column) for column in array.flatten()]
    rows = zip(*columns, strict=True) if columns else ((),) * len(array)
    is_there = array.is_valid().to_pylist()
    return [dict(zip(names, row, strict=True)) if there else None for row, there in zip(rows, is_there, strict=True)]


def _maps(name: str, array: pa.Array) -> list[Any]:
    keys, values = list(map(_key, json_values(name, array.keys))), json_values(name, array.items)
    bounds, is_there = pairwise(array.offsets.to_pylist()), array.is_valid().to_pylist()
    return [
        dict(zip(keys[start:stop], values[start:stop], strict=True)) if there else None
        for (start, stop), there in zip(bounds, is_there, strict=True)
    ]


def _lists(name: str, array: pa.Array) -> list[Any]:
    inner = iter(json_values(name, array.flatten()))
    return [None if size is None else list(islice(inner, size)) for size in pc.list_value_length(array).to_pylist()]


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


_PLAIN: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], list[Any]]], ...]] = (
    (_is_one_of(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view), _texts),
    (_is_one_of(pa.types.is_date, lambda kind: pa.types.is_timestamp(kind) and kind.unit != "ns"), _moments),
    (pa.types.is_float32, lambda array: [shortest(number) for number in array.to_pylist()]),
    (pa.types.is_float64, lambda array: [finite(number) for number in array.to_pylist()]),
    (_is_one_of(pa.types.is_null, pa.types.is_boolean), _as_they_are),
    (_is_one_of(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view), _as_they_are),
    (pa.types.is_duration, lambda array: _as_they_are(array.cast(pa.int64()))),
)
"""The types whose values do not depend on the place of the column."""
