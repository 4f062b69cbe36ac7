"""Reads Kafka Connect's types from the schema of an Avro file that a Kafka Connect sink wrote; plain Python, no Spark.

    {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"}
    {"type": "bytes", "logicalType": "decimal", "scale": 2, "connect.name": "org.apache.kafka.connect.data.Decimal", ...}

Kafka Connect's types are in properties that Avro readers ignore. This module writes them as JsonConverter does beside each record with
`schemas.enable=true`, so that both are read alike. Source: Confluent's AvroData, which sinks and converters share.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

_NAME: Final = "connect.name"
_TYPE: Final = "connect.type"
_PARAMETERS: Final = "connect.parameters"
_INNER: Final = ("items", "values")
_TYPES: Final = {"int": "int32", "long": "int64", "record": "struct", "enum": "string", "fixed": "bytes"}
_DESCRIBED: Final = ("before", "after")
"""The images of a row. Only the first has its fields described: readers need no more, and a longer description costs parsing."""
_NAMED: Final = ("record", "enum", "fixed")

_Named = tuple[Mapping[str, Any], str]
"""A type, and the namespace of the names within it."""


def without_logical_types(schema: Any) -> Any:
    """Returns a schema with which values are read as stored: numbers and bytes, no dates, times or decimals."""
    match schema:
        case list():
            return [without_logical_types(branch) for branch in schema]
        case dict():
            kept = {key: value for key, value in schema.items() if key not in ("logicalType", "default", "doc")}
            if isinstance(kept.get("type"), dict | list):
                kept["type"] = without_logical_types(kept["type"])
            for key in _INNER:
                if key in kept:
                    kept[key] = without_logical_types(kept[key])
            if "fields" in kept:
                kept["fields"] = [{"name": field["name"], "type": without_logical_types(field["type"])} for field in kept["fields"]]
            return kept
        case _:
            return schema


def has_choices(schema: Any) -> bool:
    """True if a value somewhere in a schema can have one of several types, NULL not counted."""
    return (isinstance(schema, list) and sum(branch != "null" for branch in schema) > 1) or any(map(has_choices, _inside(schema)))


def connect_schema(schema: Mapping[str, Any]) -> str | None:
    """Returns the schema of a file's records as JsonConverter writes it, with the parts that readers need.

    None for a schema without Kafka Connect's types (`connect.meta.data=false`): the unit of a time is then unknown.
    """
    if _NAME not in schema:
        return None
    named: dict[str, _Named] = {}
    _note_names(schema, "", named)
    space = _space(schema, "")
    image = next((field["name"] for field in schema["fields"] if field["name"] in _DESCRIBED), None)
    fields = [_described(field, named, space, with_fields=field["name"] == image) for field in schema["fields"]]
    return json.dumps({"type": "struct", "fields": fields, "name": schema[_NAME]}, separators=(",", ":"), ensure_ascii=False)


def _described(field: Mapping[str, Any], named: Mapping[str, _Named], space: str, *, with_fields: bool) -> dict[str, Any]:
    properties, own = _resolved(field["type"], named, space)
    base = properties["type"]
    said: dict[str, Any] = {"field": field["name"], "type": properties.get(_TYPE) or _TYPES.get(base, base)}
    if _NAME in properties:
        said["name"] = properties[_NAME]
    scale = properties.get(_PARAMETERS, {}).get("scale", properties.get("scale"))
    if scale is not None:
        said["parameters"] = {"scale": str(scale)}
    if base == "record" and with_fields:
        said["fields"] = [_described(inner, named, own, with_fields=False) for inner in properties["fields"]]
    return said


def _resolved(kind: Any, named: Mapping[str, _Named], space: str) -> _Named:
    """Returns the one type of an optional field, looked up if it is a name, and the namespace of names within it."""
    if isinstance(kind, list):
        branches = [branch for branch in kind if branch != "null"]
        return _resolved(branches[0], named, space) if len(branches) == 1 else ({"type": "union"}, space)
    if isinstance(kind, str):
        return named.get(f"{space}.{kind}") or named.get(kind) or ({"type": kind}, space)
    if isinstance(kind["type"], dict | list):  # {"type": {"type": "long"}}
        return _resolved(kind["type"], named, space)
    return kind, _space(kind, space)


def _note_names(schema: Any, space: str, named: dict[str, _Named]) -> None:
    """Adds the named types of a schema to `named`, by their full names."""
    if isinstance(schema, dict) and schema.get("type") in _NAMED:
        space = _space(schema, space)
        named[f"{space}.{schema['name'].rpartition('.')[2]}".lstrip(".")] = (schema, space)
    for inner in _inside(schema):
        _note_names(inner, space, named)


def _inside(schema: Any) -> Iterable[Any]:
    match schema:
        case list():
            return schema
        case {"fields": list() as fields}:
            return [field["type"] for field in fields]
        case dict():
            return [schema[key] for key in ("type", *_INNER) if isinstance(schema.get(key), dict | list)]
        case _:
            return ()


def _space(schema: Mapping[str, Any], outer: str) -> str:
    """Returns the namespace of a type: that in its name, its `namespace`, or that of the surrounding type."""
    return str(schema.get("name", "")).rpartition(".")[0] or str(schema.get("namespace") or outer)
