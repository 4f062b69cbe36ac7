"""Converts frozen values to JSON and back: the format between Airflow, the ledger, Spark and the Delta commit.

The fields of a class that `JSON_INLINE` names are groups whose own fields stand in the JSON of the class, not below a name of their own.
A class that stands in a tagged union has a class variable `JSON_TYPE`, and its JSON says it: {"type": "window", ...}.

Strict on the way in: unknown fields, and missing ones that have no default, are errors, because a half-understood frozen plan loses rows.
"""

import dataclasses
import enum
import json
import types
import typing
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, TypeVar, cast

from cdc_ops.errors import StateError

T = TypeVar("T")

TYPE: Final = "type"
"""Where the JSON of a class in a tagged union says which one it is: its class variable `JSON_TYPE`."""


def to_data(value: object) -> Any:
    """Converts a value to plain JSON data; datetimes must have a time zone, a timedelta becomes its seconds."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        data: dict[str, Any] = {}
        groups, tag = _inline(type(value)), _tag(type(value))
        for field in dataclasses.fields(value):
            item = to_data(getattr(value, field.name))
            data |= item if field.name in groups else {field.name: item}
        return data if tag is None else {TYPE: tag, **data}
    match value:
        case enum.Enum():
            return value.value
        case datetime():
            if value.tzinfo is None:
                raise ValueError(f"{value!r} has no time zone and cannot be written as JSON")
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case tuple() | list():
            return [to_data(item) for item in value]
        case dict():
            return {str(key): to_data(item) for key, item in value.items()}
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form")


def dumps(value: object) -> str:
    """Returns the canonical JSON text of a value: sorted keys, no spaces; equal values give equal text."""
    return json.dumps(to_data(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def loads(cls: type[T], text: str) -> T:
    """Parses a value of type `cls` from JSON text.

    Raises:
        StateError: the text is not JSON or does not fit `cls` (written by another version of the package, or damaged).
    """
    try:
        return from_data(cls, json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise StateError(
            f"The JSON text is not a valid {cls.__name__}.",
            why=str(error),
            data="Nothing was read or written.",
            next="Check that Airflow, Spark and the command line run the same cdc-ops version.",
        ) from error


def from_data(cls: type[T], data: Any) -> T:
    """Parses a value of type `cls` from plain JSON data; `loads` takes text and raises the public error."""
    return cast(T, _read(cls, data))


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _read(kind: Any, data: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _read_union(typing.get_args(kind), data)
    if origin is tuple:
        return _read_tuple(typing.get_args(kind), data)
    if origin is dict:
        key, item = typing.get_args(kind)
        if not isinstance(data, dict):
            raise TypeError(f"expected an object, got {data!r}")
        return {_read(key, name): _read(item, value) for name, value in data.items()}
    if kind is Any:
        return data
    if dataclasses.is_dataclass(kind):
        return _read_dataclass(cast(type, kind), data)
    return _read_scalar(kind, data)


def _read_union(options: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in options:
        return None
    if any(tags := {_tag(option): option for option in options if _tag(option) is not None}):
        return _read_tagged(tags, data)
    failures = []
    for option in options:
        if option is type(None):
            continue
        try:
            return _read(option, data)
        except (ValueError, TypeError, KeyError) as error:
            failures.append(str(error))
    raise ValueError("; ".join(failures) or f"{data!r} fits none of {options}")


def field_names(cls: type) -> tuple[str, ...]:
    """Returns the names in the JSON of a class, those of its groups in place of theirs."""
    hints, groups = _hints(cls), _inline(cls)
    names = ((field_names(hints[field.name]) if field.name in groups else (field.name,)) for field in dataclasses.fields(cls))
    return tuple(name for found in names for name in found)


@cache
def group_of(cls: type) -> dict[str, str]:
    """Returns the group in which each field of a class's groups stands."""
    return {field: group for group in _inline(cls) for field in field_names(_hints(cls)[group])}


def _inline(cls: type) -> tuple[str, ...]:
    return getattr(cls, "JSON_INLINE", ())


def _grouped(cls: type, data: dict[str, Any]) -> dict[str, Any]:
    """Returns data with the fields of each group below its name."""
    for group in _inline(cls):
        if group in data:
            raise KeyError(f"{cls.__name__}: unknown field {group}")
        names = set(field_names(_hints(cls)[group]))
        own = {name: value for name, value in data.items() if name not in names}
        data = own | {group: {name: value for name, value in data.items() if name in names}}
    return data


def _tag(kind: Any) -> str | None:
    return getattr(kind, "JSON_TYPE", None) if isinstance(kind, type) else None


def _read_tagged(tags: dict[str | None, Any], data: Any) -> Any:
    tag = data.get(TYPE) if isinstance(data, dict) else None
    if not isinstance(tag, str) or tag not in tags:
        raise ValueError(f"{TYPE} {tag!r} is none of {', '.join(sorted(filter(None, tags)))}")
    return _read(tags[tag], data)


def _read_tuple(items: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise TypeError(f"expected a list, got {data!r}")
    if len(items) == 2 and items[1] is Ellipsis:
        return tuple(_read(items[0], item) for item in data)
    if len(items) != len(data):
        raise ValueError(f"expected {len(items)} items, got {len(data)}")
    return tuple(_read(kind, item) for kind, item in zip(items, data, strict=True))


def _read_dataclass(cls: type, data: Any) -> Any:
    if not isinstance(data, dict):
        raise TypeError(f"{cls.__name__}: expected an object, got {data!r}")
    if (tag := _tag(cls)) is not None:
        if data.get(TYPE) != tag:
            raise ValueError(f"{cls.__name__}: {TYPE} is {data.get(TYPE)!r}, not {tag!r}")
        data = {name: value for name, value in data.items() if name != TYPE}
    data, hints = _grouped(cls, data), _hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    if unknown := sorted(set(data) - set(fields)):
        raise KeyError(f"{cls.__name__}: unknown field {', '.join(unknown)}")
    return cls(**{name: _read(hints[name], value) for name, value in data.items()})


def _read_scalar(kind: Any, data: Any) -> Any:
    if kind is type(None):
        if data is None:
            return None
        raise TypeError(f"expected null, got {data!r}")
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(data)
    if kind is datetime:
        instant = datetime.fromisoformat(data)
        if instant.tzinfo is None:
            raise ValueError(f"{data!r} has no time zone")
        return instant
    if kind is timedelta and isinstance(data, (int, float)) and not isinstance(data, bool):
        return timedelta(seconds=data)
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise TypeError(f"expected {kind.__name__}, got {data!r}")
    return data
