"""MySQL's binary JSON: to a tree of exact values, and to the text that MySQL shows; partial updates of such documents.

    bytes -> read_json -> tree -> text_of -> str
    tree before, bytes of changes -> apply_diffs -> tree after

A tree has Python's values for objects, arrays, texts, truths and null, `int`, `float` and `Decimal` for numbers, and `Opaque` for what JSON
has no type for: dates, times and bytes, which MySQL shows as texts.

A partial update (`binlog_row_value_options=PARTIAL_JSON`) is a list of changes, each with an operation, a path such as `$.a[2]."b c"`, and
a value unless it removes.
"""

import copy
import json
import re
import struct
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.binlog.byte_reader import ByteReader, MalformedBytesError
from cdc_ops.events.binlog.decimals import decimal_reader
from cdc_ops.events.binlog.json_text import Json, Opaque, text_of

DEEPEST: Final = 100
"""MySQL's own limit of documents within documents."""

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING = range(5, 13)
_OPAQUE: Final = 15
_LITERALS: Final[dict[int, bool | None]] = {0: None, 1: True, 2: False}
_NUMBERS: Final = {
    kind: struct.Struct(layout)
    for kind, layout in {_INT16: "<h", _UINT16: "<H", _INT32: "<i", _UINT32: "<I", _INT64: "<q", _UINT64: "<Q", _DOUBLE: "<d"}.items()
}
_INLINE: Final = {_LITERAL: 2, _INT16: 2, _UINT16: 2, _INT32: 4, _UINT32: 4}
"""The bytes of values that may stand in the place of their offset."""
_NEWDECIMAL: Final = 246
_REPLACE, _INSERT, _REMOVE = range(3)
_STEP: Final = re.compile(r'\.(?P<quoted>"(?:[^"\\]|\\.)*")|\.(?P<plain>[^.\["]+)|\[(?P<place>\d+)\]')


class JsonText(str):
    """The text of a JSON document as MySQL shows it."""

    __slots__ = ()


def json_text(data: bytes) -> str:
    """Returns the text of a document; an empty one stands for null.

    Raises:
        MalformedBytesError: it is no document.
    """
    return text_of(read_json(data))


def read_json(data: bytes) -> Json:
    """Returns the tree of a document; an empty one stands for null.

    Raises:
        MalformedBytesError: it is no document.
    """
    if not data:
        return None
    try:
        return _Reader(data).value(data[0], 1, 0)
    except (IndexError, struct.error, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, MalformedBytesError):
            raise
        raise MalformedBytesError(f"a JSON document is not whole: {error}") from None


def apply_diffs(before: Json, changes: bytes) -> Json:
    """Returns the document after its changes.

    Args:
        before: The tree before.
        changes: The changes as the log has them.

    Raises:
        MalformedBytesError: a change does not fit the document.
    """
    document, reader = copy.deepcopy(before), ByteReader(changes)
    while reader.left:
        operation, path = reader.u8(), reader.counted().decode("utf-8")
        if operation > _REMOVE:
            raise MalformedBytesError(f"a change of a JSON document has the operation {operation}")
        value = None if operation == _REMOVE else read_json(reader.counted())
        steps = _steps(path)
        if not steps:
            if operation != _REPLACE:
                raise MalformedBytesError("a change of a whole JSON document does not replace it")
            document = value
            continue
        _change(_parent(document, steps[:-1]), steps[-1], operation, value)
    return document


@dataclass(slots=True)
class _Reader:
    data: bytes
    left: int = -1
    """Values that may still be read: a document cannot have more than bytes, unless its parts overlap."""

    def __post_init__(self) -> None:
        self.left = len(self.data)

    def value(self, kind: int, at: int, depth: int) -> Json:
        """Returns the value of a type that begins at a position."""
        self.left -= 1
        if self.left < 0 or depth > DEEPEST:
            raise MalformedBytesError("the parts of a JSON document overlap, or are too deep")
        if kind <= _LARGE_ARRAY:
            return self._container(kind, at, depth)
        if kind == _LITERAL:
            return self._literal(self.data[at])
        if kind in _NUMBERS:
            number: int | float = _NUMBERS[kind].unpack_from(self.data, at)[0]
            return number
        if kind == _STRING:
            return self._counted(at)[0].decode("utf-8")
        if kind == _OPAQUE:
            return _opaque(self.data[at], self._counted(at + 1)[0])
        raise MalformedBytesError(f"a JSON document has a value of the type {kind}")

    def _literal(self, number: int) -> bool | None:
        if number not in _LITERALS:
            raise MalformedBytesError(f"a JSON document has the literal {number}")
        return _LITERALS[number]

    def _container(self, kind: int, at: int, depth: int) -> Json:
        """An object or array: count, size, keys, types and places of values, with offsets from its own begin."""
        width = 4 if kind in (_LARGE_OBJECT, _LARGE_ARRAY) else 2
        is_object = kind in (_SMALL_OBJECT, _LARGE_OBJECT)
        count, size = self._number(at, width), self._number(at + width, width)
        if at + size > len(self.data) or count > size:
            raise MalformedBytesError("a part of a JSON document is longer than the document")
        keys = at + 2 * width
        entries = keys + (count * (width + 2) if is_object else 0)
        values = [self._entry(entries + place * (1 + width), at, width, depth) for place in range(count)]
        if not is_object:
            return values
        return dict(zip([self._key(keys + place * (width + 2), at, width) for place in range(count)], values, strict=True))

    def _entry(self, at: int, begin: int, width: int, depth: int) -> Json:
        kind = self.data[at]
        inline = _INLINE.get(kind, 8) <= width
        return self.value(kind, at + 1 if inline else begin + self._number(at + 1, width), depth + 1)

    def _key(self, at: int, begin: int, width: int) -> str:
        start, size = begin + self._number(at, width), self._number(at + width, 2)
        if start + size > len(self.data):
            raise MalformedBytesError("a key of a JSON document is cut")
        return self.data[start : start + size].decode("utf-8")

    def _number(self, at: int, width: int) -> int:
        if at + width > len(self.data):
            raise MalformedBytesError("a JSON document is cut")
        return int.from_bytes(self.data[at : at + width], "little")

    def _counted(self, at: int) -> tuple[bytes, int]:
        """Bytes behind their number, which has 7 bits in a byte, the lowest first."""
        size = 0
        for place in range(5):
            byte = self.data[at + place]
            size |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                begin = at + place + 1
                if begin + size > len(self.data):
                    raise MalformedBytesError("a value of a JSON document is cut")
                return self.data[begin : begin + size], begin + size
        raise MalformedBytesError("a value of a JSON document has no length")


def _opaque(kind: int, raw: bytes) -> Json:
    if kind != _NEWDECIMAL:
        return Opaque(kind, raw)
    value, end = decimal_reader(raw[0], raw[1])(raw, 2)
    if end != len(raw):
        raise MalformedBytesError("a DECIMAL of a JSON document is not whole")
    return value


def _steps(path: str) -> list[str | int]:
    if not path.startswith("$"):
        raise MalformedBytesError(f"the path {path!r} of a change does not begin with $")
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise MalformedBytesError(f"the path {path!r} of a change is not understood")
        if found["place"] is not None:
            steps.append(int(found["place"]))
        else:
            steps.append(json.loads(found["quoted"]) if found["quoted"] is not None else found["plain"])
        at = found.end()
    return steps


def _parent(document: Json, steps: list[str | int]) -> Json:
    for step in steps:
        match document, step:
            case dict(), str() if step in document:
                document = document[step]
            case list(), int() if step < len(document):
                document = document[step]
            case _:
                raise MalformedBytesError("a change concerns a part of a JSON document that it does not have")
    return document


def _change(parent: Json, step: str | int, operation: int, value: Json) -> None:
    if isinstance(parent, dict) and isinstance(step, str):
        if (step in parent) == (operation == _INSERT):
            raise MalformedBytesError("a change concerns a member of a JSON document that it does not have, or adds one that it has")
        if operation == _REMOVE:
            del parent[step]
        else:
            parent[step] = value
            _sort(parent)
    elif isinstance(parent, list) and isinstance(step, int):
        if operation == _INSERT:
            parent.insert(step, value)
        elif step >= len(parent):
            raise MalformedBytesError("a change concerns a place of a JSON document that it does not have")
        elif operation == _REMOVE:
            del parent[step]
        else:
            parent[step] = value
    else:
        raise MalformedBytesError("a change does not fit the kind of its part of a JSON document")


def _sort(members: dict[str, Json]) -> None:
    """Puts the members in MySQL's order: by the length of their names, then by bytes."""
    ordered = sorted(members.items(), key=lambda item: (len(item[0].encode()), item[0].encode()))
    members.clear()
    members.update(ordered)
