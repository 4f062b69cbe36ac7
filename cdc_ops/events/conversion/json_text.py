"""JSON of which every digit is kept: members of an object as the text that stands there, and columns of such texts at once.

msgspec reads it: strict JSON, nothing behind the document, no control characters in texts. What is no JSON raises `msgspec.DecodeError`,
what is JSON of another shape `msgspec.ValidationError`, which is one too.
"""

import json
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from cdc_ops.events.record import Cell, DoubledImage, Image

NULL: Final = b"null"
_MEMBERS: Final = msgspec.json.Decoder(dict[str, Raw])
_MEMBERS_OF_EACH: Final = msgspec.json.Decoder(list[dict[str, Raw] | None])
_TEXT: Final = msgspec.json.Decoder(str)
_ENCODER: Final = msgspec.json.Encoder()
_OBJECT: Final = b"{"
_ARRAY: Final = b"["
_DEEP: Final = 400
"""Objects and arrays that may stand in one another wherever a record is parsed: Python's stack is 1,000 deep, with all that is on it."""


def text_of(cell: Cell) -> str | None:
    r"""Returns the text of a value: a JSON text without quotes and escapes, the JSON itself for all else, None for `null` and nothing.

    >>> text_of(Raw(b'"a\\u00e9"')), text_of(Raw(b'12.50')), text_of(Raw(b'{"a": 1}')), text_of(Raw(b'null'))
    ('aé', '12.50', '{"a": 1}', None)

    Raises:
        msgspec.DecodeError: it is a text that is not UTF-8.
    """
    if cell is None or cell.__class__ is str:
        return cell
    raw = bytes(cell)  # type: ignore[arg-type]
    if raw[:1] == b'"':
        return _TEXT.decode(raw)
    return None if not raw or raw == NULL else raw.decode()


def is_null(cell: Cell) -> bool:
    """True for NULL."""
    if cell is None or cell.__class__ is str:
        return cell is None
    return bytes(cell) in (b"", NULL)  # type: ignore[arg-type]


def image_of(raw: Raw) -> Image | None:
    """Returns the members of an object as an image, None for `null` and nothing; a `DoubledImage` if a member is there twice.

    Raises:
        msgspec.DecodeError: it is something else.
    """
    data = memoryview(raw)
    if len(data) <= len(NULL) and bytes(data) in (b"", NULL):
        return None
    found = _MEMBERS.decode(raw)
    # Written again, an object is shorter if it has blanks, escapes or doubled members; nearly no object has.
    if len(_ENCODER.encode(found)) != len(data) and found and _is_doubled(bytes(data)):
        return DoubledImage(found)
    return found  # type: ignore[return-value]


def untouched(raw: Raw) -> Raw | Image | None:
    """Returns an object as it stands, None for `null` and nothing: what `image_of` takes apart. It takes deeply nested ones apart itself.

    Raises:
        msgspec.DecodeError: it is something else.
    """
    data = bytes(raw)
    if data[:1] == _OBJECT:
        return raw if data.count(_OBJECT) + data.count(_ARRAY) < _DEEP else image_of(raw)
    if data in (b"", NULL):
        return None
    raise msgspec.ValidationError("no object")


def images_of(raws: Sequence[Raw]) -> Sequence[Image | None]:
    """Returns what `image_of` returns of each of some values.

    Args:
        raws: Values of JSON that was parsed; empty ones are `null`.

    Raises:
        msgspec.DecodeError: one of them is something else than an object or `null`.
    """
    data = b"[%b]" % b",".join([raw or NULL for raw in raws])
    found = _MEMBERS_OF_EACH.decode(data)
    # As in `image_of`, for all at once: none of them becomes longer, so none became shorter.
    return found if len(_ENCODER.encode(found)) == len(data) else list(map(image_of, raws))  # type: ignore[return-value]


def members_of(raw: bytes) -> Image:
    """Returns the members of an object.

    Raises:
        msgspec.DecodeError: it is something else, or has a member twice.
    """
    found = image_of(Raw(raw))
    if found is None or isinstance(found, DoubledImage):
        raise msgspec.DecodeError("no object, or a member is there twice")
    return found


def _is_doubled(data: bytes) -> bool:
    seen: list[bool] = []

    def pairs(found: list[tuple[str, object]]) -> None:
        seen.append(len({name for name, _ in found}) < len(found))

    json.loads(data, object_pairs_hook=pairs, parse_float=str, parse_int=str)
    return seen[-1]  # the object itself ends last
