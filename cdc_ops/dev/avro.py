"""Writes Avro files from plain data, as a Kafka Connect sink does; outside the data path, for tests.

    avro_schema(connect) -> schema         converts Kafka Connect's schema (of JsonConverter) to Avro's, as Confluent's AvroData does
    avro_file(schema, records) -> bytes    an object container file
    by_schema(records)                     groups JsonConverter's records into a sink's files: a new file with each change of schema

Records are JSON values: bytes as base64, members of unions of several types as `{"name of the type": value}`.
"""

import base64
import bz2
import itertools
import json
import lzma
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

MARK: Final = bytes(range(100, 116))
_NAMESPACE: Final = "io.confluent.connect.avro"
_TYPES: Final = {
    **{"int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double"},
    **{"boolean": "boolean", "string": "string", "bytes": "bytes"},
}
_LOGICAL: Final = {"Date": "date", "Time": "time-millis", "Timestamp": "timestamp-millis", "Decimal": "decimal"}
_CONNECT: Final = "org.apache.kafka.connect.data."


def avro_schema(connect: Mapping[str, Any], *, meta_data: bool = True) -> Any:
    """Returns the schema that a sink writes into its files.

    Args:
        connect: Kafka Connect's schema.
        meta_data: The sink's `connect.meta.data`: whether the types of Kafka Connect are written beside those of Avro.
    """
    return _AvroSchemas(meta_data=meta_data).of(connect)


class _AvroSchemas:
    """Converts one schema; a struct's second occurrence is written by name only."""

    def __init__(self, *, meta_data: bool) -> None:
        self._meta_data = meta_data
        self._named: dict[str, Any] = {}

    def of(self, connect: Mapping[str, Any]) -> Any:
        """Returns the Avro schema of a Kafka Connect schema. Optional fields are unions with null; the default's type comes first."""
        base = self._base(connect)
        if not connect.get("optional"):
            return base
        return [base, "null"] if connect.get("default") is not None else ["null", base]

    def _base(self, connect: Mapping[str, Any]) -> Any:
        name = connect.get("name")
        if connect["type"] == "struct":
            full = name or f"{_NAMESPACE}.ConnectDefault"
            if full in self._named:
                return full
            self._named[full] = connect
            space, _, short = full.rpartition(".")
            fields = [self._field(field) for field in connect["fields"]]
            return {"type": "record", "name": short, "namespace": space, "fields": fields, **self._meta(connect)}
        if connect["type"] == "array":
            return {"type": "array", "items": self.of(connect["items"]), **self._meta(connect)}
        if connect["type"] == "map":
            return {"type": "map", "values": self.of(connect["values"]), **self._meta(connect)}
        base = {"type": _TYPES[connect["type"]], **self._logical(connect), **self._meta(connect)}
        return base["type"] if len(base) == 1 else base

    def _field(self, connect: Mapping[str, Any]) -> dict[str, Any]:
        default = connect.get("default")
        said: dict[str, Any] = {"name": connect["field"], "type": self.of(connect)}
        return said | ({"default": default} if default is not None or connect.get("optional") else {})

    def _meta(self, connect: Mapping[str, Any]) -> dict[str, Any]:
        said = {f"connect.{key}": connect[key] for key in ("version", "parameters", "default", "name") if connect.get(key) is not None}
        said |= {"connect.type": connect["type"]} if connect["type"] in ("int8", "int16") else {}
        return said if self._meta_data else {}

    def _logical(self, connect: Mapping[str, Any]) -> dict[str, Any]:
        logical = _LOGICAL.get(str(connect.get("name")).removeprefix(_CONNECT)) if str(connect.get("name")).startswith(_CONNECT) else None
        if logical != "decimal":
            return {"logicalType": logical} if logical else {}
        said = connect["parameters"]
        precision, scale = int(said.get("connect.decimal.precision", 64)), int(said["scale"])
        return {"scale": scale, "precision": precision, "logicalType": logical}


def avro_file(schema: Any, records: Sequence[Any], *, codec: str = "null", per_block: int = 1000, mark: bytes = MARK) -> bytes:
    """Returns an object container file.

    Args:
        schema: The Avro schema, as a JSON value.
        records: The records, as JSON values.
        codec: null, deflate, zstandard, bzip2, xz or snappy.
        per_block: Number of records in a block.
        mark: The sync marker of 16 bytes that ends each block.
    """
    header = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    parts = [b"Obj\x01", _long(len(header)), *(_bytes(name.encode()) + _bytes(value) for name, value in header.items()), b"\x00", mark]
    writer = _Writer(schema)
    for start in range(0, len(records), per_block):
        block = records[start : start + per_block]
        data = _compressed(b"".join(writer.encoded(schema, record, "") for record in block), codec)
        parts += [_long(len(block)), _bytes(data), mark]
    return b"".join(parts)


def by_schema(texts: Iterable[str]) -> Iterator[tuple[Any, list[Any]]]:
    """Yields a schema and its records for each run of consecutive records with the same schema (`schemas.enable=true`)."""
    for described, documents in itertools.groupby(map(json.loads, texts), lambda document: document["schema"]):
        yield avro_schema(described), [document["payload"] for document in documents]


class _Writer:
    """Encodes values by a schema; it collects the named types."""

    def __init__(self, schema: Any) -> None:
        self._named: dict[str, tuple[Any, str]] = {}
        self._note(schema, "")

    def encoded(self, schema: Any, value: Any, space: str) -> bytes:
        """Returns the bytes of a value. Names in its schema are looked up in the given namespace first."""
        if isinstance(schema, list):
            index, branch, inner = self._branch(schema, value, space)
            return _long(index) + (b"" if inner is None else self.encoded(branch, inner, space))
        if isinstance(schema, str):
            found = self._named.get(f"{space}.{schema}") or self._named.get(schema)
            return _primitive(schema, value) if found is None else self.encoded(found[0], value, found[1])
        kind, space = schema["type"], _space(schema, space)
        match kind:
            case "record":
                return b"".join(self._field(field, value, space) for field in schema["fields"])
            case "enum":
                return _long(schema["symbols"].index(value))
            case "array":
                return _blocks([self.encoded(schema["items"], item, space) for item in value])
            case "map":
                return _blocks([_bytes(key.encode()) + self.encoded(schema["values"], item, space) for key, item in value.items()])
            case _:
                return self.encoded(kind, value, space)

    def _field(self, field: Mapping[str, Any], value: Mapping[str, Any], space: str) -> bytes:
        return self.encoded(field["type"], value.get(field["name"], field.get("default")), space)

    def _branch(self, schema: Sequence[Any], value: Any, space: str) -> tuple[int, Any, Any]:
        if value is None:
            return schema.index("null"), "null", None
        branches = [(index, branch) for index, branch in enumerate(schema) if branch != "null"]
        if len(branches) == 1:
            return (*branches[0], value)
        [(name, inner)] = value.items()
        [found] = [(index, branch) for index, branch in branches if name == _name(branch)]
        return (*found, inner)

    def _note(self, schema: Any, space: str) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._note(branch, space)
        if not isinstance(schema, dict):
            return
        space = _space(schema, space)
        if schema["type"] in ("record", "enum", "fixed"):
            self._named[f"{space}.{schema['name']}" if space else schema["name"]] = (schema, space)
        inner = [field["type"] for field in schema.get("fields", ())]
        for each in (*inner, schema.get("items"), schema.get("values"), schema["type"]):
            self._note(each, space)


def _space(schema: Mapping[str, Any], outer: str) -> str:
    return str(schema.get("namespace") or outer)


def _name(branch: Any) -> str:
    name = branch if isinstance(branch, str) else branch.get("name") or branch["type"]
    return str(name).rpartition(".")[2]


def _primitive(kind: str, value: Any) -> bytes:
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return _long(int(value))
        case "float":
            return struct.pack("<f", float(value))
        case "double":
            return struct.pack("<d", float(value))
        case "bytes":
            return _bytes(value if isinstance(value, bytes) else base64.b64decode(value))
        case "string":
            return _bytes(value if isinstance(value, bytes) else value.encode())
        case _:
            raise ValueError(f"no type {kind!r}")


def _blocks(items: Iterable[bytes]) -> bytes:
    found = list(items)
    return (_long(len(found)) + b"".join(found) if found else b"") + b"\x00"


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def _long(number: int) -> bytes:
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def _compressed(data: bytes, codec: str) -> bytes:
    match codec:
        case "null":
            return data
        case "deflate":
            deflate = zlib.compressobj(wbits=-15)
            return deflate.compress(data) + deflate.flush()
        case "zstandard":
            import zstandard

            return zstandard.ZstdCompressor().compress(data)
        case "bzip2":
            return bz2.compress(data)
        case "xz":
            return lzma.compress(data)
        case "snappy":
            import pyarrow

            return bytes(pyarrow.compress(data, codec="snappy", asbytes=True)) + zlib.crc32(data).to_bytes(4)
        case _:
            raise ValueError(f"no codec {codec!r}")
