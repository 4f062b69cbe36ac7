"""Images of rows as formats put them together, and the values of tools that write numbers and documents instead of texts."""

import json
import re
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from cdc_ops.events.conversion.json_text import image_of, images_of, text_of
from cdc_ops.events.record import DoubledImage, Envelope, Image

_MOST_DIGITS: Final = 38
_PLAIN_INTEGER: Final = re.compile(rb"(?:0|-?[1-9][0-9]{0,37})")
_ESCAPED: Final = re.compile(r"\\u00[01][0-9a-f]")


def take_apart(envelopes: Sequence[Envelope]) -> None:
    """Makes images of the objects of JSON that envelopes hold."""
    for side in ("before", "after"):
        raws = [one for one in envelopes if getattr(one, side).__class__ is Raw]
        for envelope, image in zip(raws, images_of([getattr(one, side) for one in raws]), strict=True):
            setattr(envelope, side, image)
    for envelope in envelopes:
        if envelope.completes:
            envelope.after, envelope.completes = completed(envelope.before, envelope.after), False  # type: ignore[arg-type]


def completed(before: Image | None, after: Image | None) -> Image | None:
    """Returns an image with its missing columns filled from the before image: an update keeps values that it does not name.

    >>> completed({"a": "1", "b": "2"}, {"b": "3"})
    {'a': '1', 'b': '3'}
    """
    if before is None or after is None or len(before) <= len(after) or DoubledImage in (before.__class__, after.__class__):
        return after
    return {**before, **after}


def without(image: Image, raw: Raw, names: Collection[str]) -> Image:
    """Returns an image without some members; it has a column twice if one that is left is there twice.

    Args:
        image: The image.
        raw: The object that it was made of.
        names: Of the members to leave out.
    """
    kept = {name: cell for name, cell in image.items() if name not in names}
    if not isinstance(image, DoubledImage):
        return kept
    every = json.loads(bytes(raw), object_pairs_hook=lambda found: [name for name, _ in found], parse_int=str)
    return DoubledImage(kept) if len([name for name in every if name not in names]) > len(kept) else kept


def image_of_text(text: str | None) -> Image | None:
    """Returns the image of a text that is a JSON object, None for another text."""
    if text is None:
        return None
    try:
        return image_of(Raw(text.encode()))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def image_of_values(raw: Raw) -> Image | None:
    """Returns the members of an object as an image, with numbers and documents in their one form: see `text_of_value`.

    Raises:
        msgspec.DecodeError: it is something else, or a document has a member twice.
    """
    image = image_of(raw)
    if image is not None:
        for name, cell in image.items():
            data = bytes(cell)  # type: ignore[arg-type]
            if data[0] != 34 and data not in _WORDS and not _PLAIN_INTEGER.fullmatch(data):
                image[name] = text_of_value(data)
    return image


_WORDS: Final = (b"null", b"true", b"false")


def text_of_value(data: bytes) -> str:
    """Returns the one form of a number or document: no zeros behind the last digit, members in the order of their names, no blanks.

    Numbers keep 38 digits; those with an exponent, or with more digits, are of 64 bits. Names are in the order of their UTF-16 code units.

    >>> text_of_value(b"12.50"), text_of_value(b"1e3"), text_of_value(b'{"b": [1.0, "x"], "a": null}')
    ('12.5', '1000.0', '{"a":null,"b":[1,"x"]}')

    Raises:
        msgspec.DecodeError: it is no JSON, or an object has a member twice.
    """
    if data[0] not in b"{[":
        return _number(data.decode())
    try:
        return _written(json.loads(data, object_pairs_hook=_members, parse_float=_Number, parse_int=_Number, parse_constant=_no_json))
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None


class _Number(str):
    """The text of a number in a document."""

    __slots__ = ()


def _members(found: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(found)
    if len(members) < len(found):
        raise ValueError("a member is there twice")
    return members


def _no_json(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _written(value: Any) -> str:
    if isinstance(value, _Number):
        return _number(value)
    if isinstance(value, str):
        return _ESCAPED.sub(lambda found: "\\u" + found[0][2:].upper(), json.dumps(value, ensure_ascii=False))
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_written(name)}:{_written(value[name])}" for name in names) + "}"
    return "null" if value is None else str(value).lower()


def _number(text: str) -> str:
    whole, _, fraction = text.removeprefix("-").partition(".")
    if not set("eE") & set(text):
        digits = (whole + fraction).lstrip("0")
        if len(digits) <= _MOST_DIGITS and len(fraction) <= _MOST_DIGITS:
            kept = fraction.rstrip("0")
            sign = "-" if text[0] == "-" and digits else ""
            return f"{sign}{whole}.{kept}" if kept else f"{sign}{whole}"
    return of_64_bits(float(text))


def of_64_bits(number: float, shortest: str = "") -> str:
    """Returns the shortest text of a number of 64 bits, as Java writes it.

    Args:
        number: The number.
        shortest: Its shortest text in Python, if the number is of 32 bits: it has fewer digits than that of the same double.

    >>> of_64_bits(1e3), of_64_bits(1.5e10), of_64_bits(1e-4), of_64_bits(5e-324)
    ('1000.0', '1.5E10', '1.0E-4', '4.9E-324')
    """
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    shortest = shortest or repr(number)
    if not number or 1e-3 <= abs(number) < 1e7:
        return shortest
    if number != number:  # noqa: PLR0124  # only NaN is not what it is
        return "NaN"
    mantissa, _, exponent = shortest.partition("e")
    if exponent and len(mantissa.lstrip("-")) == 1:
        # Java writes two digits at least, the nearest ones: of the smallest numbers the second is not 0.
        mantissa, _, exponent = f"{number:.1e}".partition("e")
    if not exponent:
        sign, digits = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
        whole, _, fraction = digits.partition(".")
        if whole == "0":
            kept = fraction.lstrip("0")
            return f"{sign}{kept[0]}.{kept[1:] or '0'}E-{len(fraction) - len(kept) + 1}"
        return f"{sign}{whole[0]}.{(whole[1:] + fraction).rstrip('0') or '0'}E{len(whole) - 1}"
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def text_in(members: Image | None, name: str) -> str | None:
    """Returns the text of a member, None if it is not there."""
    return None if members is None else text_of(members.get(name))
