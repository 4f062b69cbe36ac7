"""With which schema values of an Avro file are read, and what is left to convert before they are JSON."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Final

import fastavro

from cdc_ops.events.records.arrow_json import finite, shortest
from cdc_ops.events.records.avro_schemas import has_choices, without_logical_types

Convert = Callable[[Any], Any]
_MEMBER: Final = "cdc_ops_member_"
_AS_ONE: Final = ({"int", "long"}, {"float", "double"})
"""Unions that are read as the wider of their types."""
_NUMBERS: Final[dict[str, Convert]] = {"float": shortest, "double": finite}


def for_reading(schema: Any) -> Any:
    """Returns a schema for the same bytes with which values are read as they are stored.

    Logical types are left out. A value of one of several types becomes a record with one field, `member_<name of the type>`: a record is
    written as its fields are, so the bytes are the same.

    >>> for_reading(["null", "int", "string"])[1]
    {'type': 'record', 'name': 'cdc_ops_member_0', 'fields': [{'name': 'member_int', 'type': 'int'}]}
    """
    numbers = count()
    return _with_members(without_logical_types(schema), numbers)


def _with_members(schema: Any, numbers: Iterator[int]) -> Any:
    if isinstance(schema, list):
        inner = [_with_members(branch, numbers) for branch in schema]
        return [_member(branch, numbers) if branch != "null" else branch for branch in inner] if _has_members(schema) else inner
    if not isinstance(schema, dict):
        return schema
    changed = {key: _with_members(schema[key], numbers) for key in ("type", "items", "values") if isinstance(schema.get(key), dict | list)}
    if "fields" in schema:
        changed["fields"] = [{**field, "type": _with_members(field["type"], numbers)} for field in schema["fields"]]
    return {**schema, **changed}


def _member(branch: Any, numbers: Iterator[int]) -> dict[str, Any]:
    return {"type": "record", "name": f"{_MEMBER}{next(numbers)}", "fields": [{"name": f"member_{_name(branch)}", "type": branch}]}


def _has_members(union: list[Any]) -> bool:
    names = [_name(branch) for branch in union if branch != "null"]
    return len(names) > 1 and set(names) not in _AS_ONE


def _name(branch: Any) -> str:
    """Returns the name of a type without its namespace."""
    while isinstance(branch, dict):
        branch = branch.get("name") or branch["type"]
    return str(branch).rpartition(".")[2]


class AvroValues:
    """The values of records that were read with `for_reading`.

    Args:
        schema: The schema of the file.
    """

    def __init__(self, schema: Any) -> None:
        self._named: dict[str, Any] = {}
        self._schema = fastavro.parse_schema(for_reading(schema), self._named, _force=True)
        self._drops = has_choices(schema)

    def converter(self) -> Convert | None:
        """Returns what makes a record one that an encoder of JSON writes; None if nothing has to be done.

        Numbers that are none become their names, 32-bit numbers keep their shortest digits, and members of records with choices are left
        out where they are NULL.
        """
        return _Converters(self._named, drops=self._drops).of(self._schema)

    def texts(self, record: Any) -> Iterator[str]:
        """Yields the texts of a record, also those in nested records, but for those in arrays and maps."""
        yield from self._texts(self._schema, record)

    def _texts(self, schema: Any, value: Any) -> Iterator[str]:
        if isinstance(schema, str):
            schema = self._named.get(schema, {"type": schema})
        if isinstance(schema, list):
            branches = [branch for branch in schema if branch != "null"]
            if _has_members(schema):
                branches = [branch for branch in branches if value and branch["fields"][0]["name"] in value]
            schema = branches[0] if branches else {"type": "null"}
            yield from self._texts(schema, value)
        elif schema["type"] == "record":
            for field in schema["fields"]:
                yield from self._texts(field["type"], None if value is None else value.get(field["name"]))
        elif schema["type"] in ("string", "enum") and value is not None:
            yield value
        elif isinstance(schema["type"], dict | list):
            yield from self._texts(schema["type"], value)


class _Converters:
    """Builds converters of values.

    Args:
        named: Types by their full names.
        drops: True if NULL members are left out.
    """

    def __init__(self, named: Mapping[str, Any], *, drops: bool) -> None:
        self._named, self._drops = named, drops
        self._known: dict[str, Convert | None] = {}

    def of(self, schema: Any) -> Convert | None:
        """Returns the converter of a type, None if its values stay as they are."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return self._of_name(schema)
        match schema["type"]:
            case "record":
                return self._of_name(schema["name"])
            case "array":
                return _of_items(self.of(schema["items"]))
            case "map":
                return _of_values(self.of(schema["values"]))
            case kind:
                return self.of(kind)

    def _of_name(self, name: str) -> Convert | None:
        if name in _NUMBERS:
            return _NUMBERS[name]
        schema = self._named.get(name)
        if schema is None or schema["type"] != "record":
            return None
        if name not in self._known:
            self._known[name] = lambda value: self._again(name, value)  # for a record within itself
            self._known[name] = self._record(schema)
        return self._known[name]

    def _again(self, name: str, value: Any) -> Any:
        convert = self._known[name]
        return value if convert is None else convert(value)

    def _record(self, schema: Mapping[str, Any]) -> Convert | None:
        fields = [(field["name"], converted) for field in schema["fields"] if (converted := self.of(field["type"])) is not None]
        if not fields and not self._drops:
            return None
        drops = self._drops

        def convert(record: dict[str, Any]) -> dict[str, Any]:
            for name, converted in fields:
                record[name] = converted(record[name])
            return {name: value for name, value in record.items() if value is not None} if drops else record

        return convert

    def _union(self, schema: list[Any]) -> Convert | None:
        branches = [branch for branch in schema if branch != "null"]
        if not branches:
            return None
        if _has_members(schema):
            return self._members(branches)
        inner = finite if {_name(branch) for branch in branches} == {"float", "double"} else self.of(branches[0])
        return None if inner is None else lambda value: None if value is None else inner(value)

    def _members(self, branches: list[Any]) -> Convert | None:
        fields = [branch["fields"][0] for branch in branches]
        by_member = {field["name"]: converted for field in fields if (converted := self.of(field["type"])) is not None}
        if not by_member:
            return None

        def convert(value: dict[str, Any] | None) -> dict[str, Any] | None:
            if value is None:
                return None
            [(member, inner)] = value.items()
            return {member: by_member[member](inner)} if member in by_member else value

        return convert


def _of_items(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda values: [convert(value) for value in values]


def _of_values(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda values: {key: convert(value) for key, value in values.items()}
