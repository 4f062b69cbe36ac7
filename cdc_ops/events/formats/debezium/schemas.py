"""The schemas that records carry: how their values are written. A schema is parsed once, however many records have it."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Raw, Struct

from cdc_ops.events.conversion.json_text import NULL, text_of
from cdc_ops.events.record import FieldType, FieldTypes
from cdc_ops.events.said import number_in


class _Field(Struct):
    field: Raw = Raw()
    type: Raw = Raw()
    name: Raw = Raw()
    parameters: dict[str, Raw] | None = None


class _Member(Struct):
    field: Raw = Raw()
    fields: list[_Field | None] | None = None


class _Enveloped(Struct):
    fields: list[_Member | None] | None = None


class _Flat(Struct):
    fields: list[_Field | None] | None = None


_ENVELOPED: Final = msgspec.json.Decoder(_Enveloped | None)
_FLAT: Final = msgspec.json.Decoder(_Flat | None)


def types_of_event(schema: Raw) -> FieldTypes | None:
    """Returns how the values in the images of an event are written; None if its schema does not say it.

    Args:
        schema: The JSON of the schema, empty for none.

    Raises:
        msgspec.DecodeError: it is no schema.
    """
    text = bytes(schema)
    return None if text in (b"", NULL) else _types_of_event(text)


def types_of_row(schema: Raw) -> FieldTypes | None:
    """The same for a flat record."""
    text = bytes(schema)
    return None if text in (b"", NULL) else _types_of_row(text)


@lru_cache(maxsize=1024)
def _types_of_event(schema: bytes) -> FieldTypes | None:
    found = _ENVELOPED.decode(schema)
    for member in (found and found.fields) or ():
        if member is not None and member.fields is not None and text_of(member.field) in ("after", "before"):
            return _types(member.fields)
    return None


@lru_cache(maxsize=1024)
def _types_of_row(schema: bytes) -> FieldTypes | None:
    found = _FLAT.decode(schema)
    return None if found is None or found.fields is None else _types(found.fields)


def _types(fields: Iterable[_Field | None]) -> FieldTypes:
    types = FieldTypes()
    for one in fields:
        if one is not None and (field := text_of(one.field)) is not None:
            scale = number_in(text_of((one.parameters or {}).get("scale")), "int")
            types[field] = FieldType(type=text_of(one.type) or "", name=text_of(one.name) or "", scale=scale)
    return types
