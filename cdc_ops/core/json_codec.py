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
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, TypeVar, cast

from cdc_ops.errors import StateError

T = TypeVar("T")

_Reader = Callable[[Any], Any]
"""Returns the value of plain JSON data, or raises ValueError, TypeError or KeyError."""

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
    return cast(T, _reader(cast(Any, cls))(data))


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


@cache
def _reader(kind: Any) -> _Reader:
    """Returns the function that reads a type: what a type is made of is found out once, not for each value."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _union_reader(typing.get_args(kind))
    if origin is tuple:
        return _tuple_reader(typing.get_args(kind))
    if origin is dict:
        return _dict_reader(*typing.get_args(kind))
    if kind is Any:
        return _as_it_is
    if dataclasses.is_dataclass(kind):
        return _dataclass_reader(cast(type, kind))
    return _scalar_reader(kind)


def _as_it_is(data: Any) -> Any:
    return data


def _dict_reader(key: Any, item: Any) -> _Reader:
    read_key, read_item = _reader(key), _reader(item)

    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise TypeError(f"expected an object, got {data!r}")
        return {read_key(name): read_item(value) for name, value in data.items()}

    return read


def _union_reader(options: tuple[Any, ...]) -> _Reader:
    optional = type(None) in options
    tags = {tag: option for option in options if (tag := _tag(option)) is not None}
    if tags:
        return _tagged_reader(tags, optional=optional)
    readers = tuple(_reader(option) for option in options if option is not type(None))

    def read(data: Any) -> Any:
        if data is None and optional:
            return None
        failures = []
        for one in readers:
            try:
                return one(data)
            except (ValueError, TypeError, KeyError) as error:
                failures.append(str(error))
        raise ValueError("; ".join(failures) or f"{data!r} fits none of {options}")

    return read


def _tagged_reader(tags: dict[str, Any], *, optional: bool) -> _Reader:
    readers = {tag: _reader(option) for tag, option in tags.items()}

    def read(data: Any) -> Any:
        if data is None and optional:
            return None
        tag = data.get(TYPE) if isinstance(data, dict) else None
        if not isinstance(tag, str) or tag not in readers:
            raise ValueError(f"{TYPE} {tag!r} is none of {', '.join(sorted(readers))}")
        return readers[tag](data)

    return read


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


def _tag(kind: Any) -> str | None:
    return getattr(kind, "JSON_TYPE", None) if isinstance(kind, type) else None


def _tuple_reader(items: tuple[Any, ...]) -> _Reader:
    if len(items) == 2 and items[1] is Ellipsis:
        read_item = _reader(items[0])

        def read_all(data: Any) -> Any:
            if not isinstance(data, list):
                raise TypeError(f"expected a list, got {data!r}")
            return tuple([read_item(item) for item in data])

        return read_all
    readers = tuple(map(_reader, items))

    def read(data: Any) -> Any:
        if not isinstance(data, list):
            raise TypeError(f"expected a list, got {data!r}")
        if len(readers) != len(data):
            raise ValueError(f"expected {len(readers)} items, got {len(data)}")
        return tuple(one(item) for one, item in zip(readers, data, strict=True))

    return read


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Members:
    """The members of the JSON of a class.

    Args:
        own: What reads each of them that is a field of the class.
        groups: What reads each of its groups, from the members that are the group's.
        known: All names.
    """

    own: dict[str, _Reader]
    groups: dict[str, _Reader]
    known: frozenset[str]


@cache
def _members(cls: type) -> _Members:
    hints, groups, tag = _hints(cls), _inline(cls), _tag(cls)
    own = {field.name: _reader(hints[field.name]) for field in dataclasses.fields(cls) if field.name not in groups}
    return _Members(
        own=own,
        groups={group: _reader(hints[group]) for group in groups},
        known=frozenset((*own, *group_of(cls), *((TYPE,) if tag is not None else ()))),
    )


def _dataclass_reader(cls: type) -> _Reader:
    tag, in_group = _tag(cls), group_of(cls)

    def read(data: Any) -> Any:
        members = _members(cls)  # not before the first value: a class may have itself as a field
        if not isinstance(data, dict):
            raise TypeError(f"{cls.__name__}: expected an object, got {data!r}")
        if tag is not None and data.get(TYPE) != tag:
            raise ValueError(f"{cls.__name__}: {TYPE} is {data.get(TYPE)!r}, not {tag!r}")
        if not members.known.issuperset(data):
            raise KeyError(f"{cls.__name__}: unknown field {', '.join(sorted(set(data) - members.known))}")
        parts: dict[str, dict[str, Any]] = {group: {} for group in members.groups}
        values: dict[str, Any] = {}
        for name, value in data.items():
            if name in in_group:
                parts[in_group[name]][name] = value
            elif name in members.own:
                values[name] = members.own[name](value)
        for group, part in parts.items():
            values[group] = members.groups[group](part)
        return cls(**values)

    return read


def _scalar_reader(kind: Any) -> _Reader:
    if kind is type(None):
        return _read_null
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind
    if kind is datetime:
        return _read_instant
    if kind is timedelta:
        return _read_span
    if kind is float:
        return _read_float
    if kind is int:
        return _read_int

    def read(data: Any) -> Any:
        if not isinstance(data, kind):
            raise TypeError(f"expected {kind.__name__}, got {data!r}")
        return data

    return read


def _read_null(data: Any) -> None:
    if data is not None:
        raise TypeError(f"expected null, got {data!r}")


def _read_instant(data: Any) -> datetime:
    instant = datetime.fromisoformat(data)
    if instant.tzinfo is None:
        raise ValueError(f"{data!r} has no time zone")
    return instant


def _read_span(data: Any) -> timedelta:
    if isinstance(data, (int, float)) and not isinstance(data, bool):
        return timedelta(seconds=data)
    raise TypeError(f"expected timedelta, got {data!r}")


def _read_float(data: Any) -> float:
    if isinstance(data, (int, float)) and not isinstance(data, bool):
        return float(data)
    raise TypeError(f"expected float, got {data!r}")


def _read_int(data: Any) -> int:
    if isinstance(data, int) and not isinstance(data, bool):
        return data
    raise TypeError(f"expected int, got {data!r}")
