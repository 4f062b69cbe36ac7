"""Reads values of MongoDB's documents, in all spellings of extended JSON that Debezium's connector writes.

    v1 strict      {"$numberLong": "5"}   {"$date": 1709283600000}                     {"$binary": "AP8=", "$type": "00"}
    v2 relaxed     5                      {"$date": "2024-03-01T09:00:00Z"}            {"$binary": {"base64": "AP8=", "subType": "00"}}
    v2 canonical   {"$numberLong": "5"}   {"$date": {"$numberLong": "1709283600000"}}  {"$binary": {"base64": "AP8=", "subType": "00"}}

Each value is read by its declared type; a value of another type cannot be read: the text "5" is not a number, the number 0.5 not a decimal.
Layouts: MongoDB's documentation of extended JSON, and the settings with which the connector prints documents.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from cdc_ops.core.schema.server_types.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion import values
from cdc_ops.events.conversion.json_text import text_of
from cdc_ops.events.conversion.moments import zoned_instant
from cdc_ops.events.conversion.octets import from_base64
from cdc_ops.events.format import UNREADABLE, UNSTORABLE, Read, unreadable
from cdc_ops.events.images import image_of_text
from cdc_ops.events.record import Cell, FieldType, Image

TEXT: Final = '"'
"""Prefix of a field's value that is a text; the text follows without quotes or escapes."""
IN_PART: Final = "changed in part: "
"""Replaces the value of a field of which the record has only a part."""

Find = Callable[[str], str | None]
"""Text of a value -> the part of it that says the value, None if it is of another type."""

_NUMBERS: Final = ("int32", "int64")
_CONNECT: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("int", "long"), _NUMBERS),
    "double": ("double", "float64", *_NUMBERS),
    **dict.fromkeys(("decimal", "numeric"), ("string", *_NUMBERS)),
    "bool": ("boolean",),
    "date": ("int64",),
    "bindata": ("bytes",),
}
"""The Kafka Connect types of values of a declared type; values of all other types are text."""
_TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
_EXACT_DIGITS: Final = 15
"""Whole numbers of up to so many digits are exact as doubles."""
_LAST_MILLI: Final = 9223372036854775
_SPECIAL: Final = ("NaN", "Infinity", "-Infinity")
_WHOLE: Final = re.compile(r"-?[0-9]+")
_FRACTION: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DECIMAL: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:E[+-]?[0-9]+)?|NaN|-?Infinity")
_OBJECT_ID: Final = re.compile("[0-9a-fA-F]{24}")
_FIRST_BINARY: Final = re.compile(r'\{\s*"\$binary"\s*:\s*"([^"]*)"\s*,\s*"\$type"\s*:\s*"[0-9a-fA-F]{1,2}"\s*\}', re.ASCII)
_ESCAPES: Final = {
    **{code: f"\\u{code:04X}" for code in range(32)},
    **{ord(char): f"\\{name}" for char, name in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)},
}


def fields_of(document: Cell) -> Image | None:
    """Returns the top-level fields of a document with the text of their JSON, and the prefix `TEXT` for texts.

    None if it is no document, or NULL.

    Args:
        document: A JSON object, or a text that is one.
    """
    found = image_of_text(text_of(document))
    return None if found is None else marked(found)


def marked(image: Image) -> Image:
    """Returns an image whose texts have the prefix `TEXT`."""
    return type(image)([(name, _marked(cell)) for name, cell in image.items()])


def _marked(cell: Cell) -> Cell:
    try:
        text = text_of(cell)
    except msgspec.DecodeError:
        return cell  # the reader of the column comes upon it again
    return TEXT + text if text is not None and bytes(cell)[:1] == b'"' else text  # type: ignore[arg-type]


def is_in_part(cell: Cell) -> bool:
    """True for a field of which the record has only a part."""
    return isinstance(cell, str) and cell.startswith(IN_PART)


def read(column: Column) -> Read:
    """Returns what reads values of documents as `fields_of` returns them; values of other types than the declared one are unreadable.

    Args:
        column: The values' column, declared in MongoDB's types.
    """
    base = DeclaredType.parse(column.source_type).base
    if base in ("int", "long"):
        return _found(_whole, _number(column))
    if base == "double":
        return _found(_double, values.floating(column))
    if base in ("decimal", "numeric"):
        decimal = _inside("numberDecimal", '"([^"]+)"')
        return _found(lambda text: _first(decimal(text), _whole, text), _digits(column))
    return _READERS.get(base, _json)


def read_flat(column: Column, kind: FieldType | None) -> Read:
    """Returns what reads values of documents that `ExtractNewDocumentState` converted to Kafka Connect's types.

    Args:
        column: The values' column, declared in MongoDB's types, except documents and arrays.
        kind: The field's schema, None if the record has none.
    """
    base = DeclaredType.parse(column.source_type).base
    if kind is not None and (kind.type not in _CONNECT.get(base, ("string",)) or (kind.name == _TIMESTAMP) != (base == "date")):
        return unreadable
    if base in ("int", "long"):
        return _found(_plain_whole, _number(column))
    if base == "double":
        return _found(lambda text: _first(_double(text), _special_word, text), values.floating(column))
    if base in ("decimal", "numeric"):
        return _found(lambda text: _first(_decimal_word(text), _plain_whole, text), _digits(column))
    return _FLAT_READERS.get(base, _string)


def _found(find: Find, read: Read) -> Read:
    def found(text: str) -> Any:
        part = find(text)
        return UNREADABLE if part is None else read(part)

    return found


def _first(found: str | None, other: Find, text: str) -> str | None:
    return other(text) if found is None else found


def _inside(name: str, value: str) -> Find:
    """Returns what finds the value in {"$name": value}, None for any other text."""
    match = re.compile(rf'\{{\s*"\${name}"\s*:\s*{value}\s*\}}', re.ASCII).fullmatch

    def find(text: str) -> str | None:
        found = match(text) if text[:1] == "{" else None
        return None if found is None else found[1]

    return find


_NUMBER_LONG, _NUMBER_INT = (_inside(name, '"(-?[0-9]+)"') for name in ("numberLong", "numberInt"))
_NUMBER_DOUBLE: Final = _inside("numberDouble", '"([^"]+)"')
_OID: Final = _inside("oid", '"([0-9a-fA-F]{24})"')
_DATE_MILLIS: Final = _inside("date", "(-?[0-9]+)")
_DATE_LONG: Final = _inside("date", r'\{\s*"\$numberLong"\s*:\s*"(-?[0-9]+)"\s*\}')
_DATE_TEXT: Final = _inside("date", '"([^"]+)"')
_SECOND_BINARY: Final = _inside("binary", r'\{\s*"base64"\s*:\s*"([^"]*)"\s*,\s*"subType"\s*:\s*"[0-9a-fA-F]{1,2}"\s*\}')
_BIGINT: Final = values.whole_number("bigint")


def _plain_whole(text: str) -> str | None:
    return text if _WHOLE.fullmatch(text) else None


def _whole(text: str) -> str | None:
    if _WHOLE.fullmatch(text):
        return text
    return _first(_NUMBER_LONG(text), _NUMBER_INT, text)


def _double(text: str) -> str | None:
    """Finds doubles, and whole numbers that a double holds exactly."""
    whole = _whole(text)
    if whole is not None:
        return whole if len(whole.lstrip("-")) <= _EXACT_DIGITS else None
    return text if _FRACTION.fullmatch(text) or text in _SPECIAL else _NUMBER_DOUBLE(text)


def _special_word(text: str) -> str | None:
    return text[1:] if text[:1] == TEXT and text[1:] in _SPECIAL else None


def _decimal_word(text: str) -> str | None:
    return text[1:] if text[:1] == TEXT and _DECIMAL.fullmatch(text, 1) else None


def _number(column: Column) -> Read:
    """Returns what reads the digits of a whole number."""
    kind = DeclaredType.parse(column.delta_type).base
    return values.whole_number(kind) if kind in ("tinyint", "smallint", "int", "bigint") else values.from_text(column, "")


def _digits(column: Column) -> Read:
    """Returns what reads the digits of a decimal; NaN and the infinities have only a text form."""
    if DeclaredType.parse(column.delta_type).base != "decimal":
        return values.as_it_is
    decimal = values.decimal(column)
    return lambda digits: UNSTORABLE if digits in _SPECIAL else decimal(digits)


def _bool(text: str) -> Any:
    return text == "true" if text in ("true", "false") else UNREADABLE


def _object_id(text: str) -> Any:
    return UNREADABLE if (found := _OID(text)) is None else found


def _object_id_word(text: str) -> Any:
    return text[1:] if text[:1] == TEXT and _OBJECT_ID.fullmatch(text, 1) else UNREADABLE


def _instant(text: str) -> Any:
    millis = _first(_DATE_MILLIS(text), _DATE_LONG, text)
    if millis is not None:
        return _since_1970(millis)
    written = _DATE_TEXT(text)
    return UNREADABLE if written is None else zoned_instant(written)


def _since_1970(digits: str) -> Any:
    millis = _BIGINT(digits)
    return millis * 1000 if millis.__class__ is int and -_LAST_MILLI <= millis <= _LAST_MILLI else UNREADABLE


def _bytes(text: str) -> Any:
    """Reads bytes in base64; their kind (`subType`) is dropped."""
    found = _SECOND_BINARY(text)
    if found is None:
        first = _FIRST_BINARY.fullmatch(text)
        found = None if first is None else first[1]
    return UNREADABLE if found is None else from_base64(found)


def _bytes_word(text: str) -> Any:
    return from_base64(text[1:]) if text[:1] == TEXT else UNREADABLE


def _string(text: str) -> Any:
    return text[1:] if text[:1] == TEXT else UNREADABLE


def _json(text: str) -> Any:
    """Reads any value as extended JSON, in the connector's spelling."""
    if text[:1] == TEXT:
        return f'"{text[1:].translate(_ESCAPES)}"'
    return UNREADABLE if text.startswith(IN_PART) else text


_READERS: Final[dict[str, Read]] = {
    "bool": _bool,
    "date": _instant,
    "objectid": _object_id,
    "bindata": _bytes,
    "string": _string,
    "object": lambda text: text if text[:1] == "{" else UNREADABLE,
    "array": lambda text: text if text[:1] == "[" else UNREADABLE,
}
_FLAT_READERS: Final[dict[str, Read]] = {
    "bool": _bool,
    "date": _found(_plain_whole, _since_1970),
    "objectid": _object_id_word,
    "bindata": _bytes_word,
}
