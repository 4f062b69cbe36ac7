"""Bytes of values: out of base64 and hexadecimal digits, filled up as the server does it, and as whole numbers."""

import binascii
import re
from typing import Any, Final

import pyarrow as pa

from cdc_ops.core.schema.logical_types import byte_length
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion import bulk
from cdc_ops.events.conversion.bulk import bulk_of, quick
from cdc_ops.events.format import UNREADABLE, Read

_PLAIN: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_LOOSE: Final = re.compile(r"([A-Za-z0-9+/ \t-\r\x1c-\x1f]*)(={0,2})")
_BLANKS: Final = re.compile(r"[ \t-\r\x1c-\x1f]+")
_HEXADECIMAL: Final = re.compile(r"[0-9a-fA-F]*")
_LARGEST: Final = 10**38 - 1
_MOST_BYTES: Final = 16


def padded(column: Column, read: Read) -> Read:
    """Returns a reader of bytes that fills up BINARY(n) with zero bytes: the log leaves trailing zeros out, the server returns them."""
    length = byte_length(column)
    if not length:
        return read

    def filled(text: str) -> Any:
        found = read(text)
        return found.ljust(length, b"\0") if found.__class__ is bytes else found

    every = bulk_of(read)
    return filled if every is None else quick(filled, every.then(lambda found: _filled(found, length)))


def _filled(found: pa.Array, length: int) -> pa.Array:
    return pa.array([None if one is None else one.ljust(length, b"\0") for one in found.to_pylist()], pa.binary())


def base64(column: Column) -> Read:
    """Returns what reads bytes in base64."""
    return padded(column, from_base64)


def hexadecimal(column: Column) -> Read:
    """Returns what reads bytes in hexadecimal digits."""
    return padded(column, from_hexadecimal)


def from_base64(text: str) -> Any:
    r"""Reads base64; blanks may stand before the last character, and the `=` at its end may be left out.

    >>> from_base64("AQI="), from_base64("AQI"), from_base64("AQ=")
    (b'\x01\x02', b'\x01\x02', <NoValue.UNREADABLE: 'unreadable'>)
    """
    if _PLAIN.fullmatch(text):
        return binascii.a2b_base64(text)
    found = _LOOSE.fullmatch(text)
    if found is None:
        return UNREADABLE
    digits = _BLANKS.sub("", found[1])
    missing = -len(digits) % 4
    if missing == 3 or len(found[2]) not in (0, missing):
        return UNREADABLE
    return binascii.a2b_base64(digits + "=" * missing)


quick(from_base64, bulk.OCTETS)


def from_hexadecimal(text: str) -> Any:
    """Reads hexadecimal digits; an odd number of them lacks a leading zero."""
    if not _HEXADECIMAL.fullmatch(text):
        return UNREADABLE
    return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}")


def scaled_bytes(value: bytes, scale: int) -> str | None:
    r"""Returns a decimal from the bytes of its digits as one whole number, two's complement, most significant byte first.

    Args:
        value: The bytes.
        scale: Digits after the point.

    Returns:
        All digits; None for more than 16 bytes or 38 digits.

    >>> scaled_bytes(b"\x04\xd2", 2), scaled_bytes(b"\xff", 0)
    ('12.34', '-1')
    """
    digits = big_number(value)
    return None if digits is None else with_point(digits, scale)


def big_number(value: bytes) -> str | None:
    """Returns the digits of a number, two's complement, most significant byte first; None for more than 16 bytes or 38 digits."""
    if len(value) > _MOST_BYTES:
        return None
    number = int.from_bytes(value, "big", signed=True)
    return str(number) if -_LARGEST <= number <= _LARGEST else None


def with_point(digits: str, scale: int) -> str:
    """Returns the digits of a whole number with a decimal point; a negative scale adds zeros.

    >>> with_point("12345", 2), with_point("-5", 2), with_point("12", -1)
    ('123.45', '-0.05', '120')
    """
    if scale <= 0:
        return digits if digits == "0" else digits + "0" * -scale
    sign, size = ("-", digits[1:]) if digits[0] == "-" else ("", digits)
    size = size.rjust(scale + 1, "0")
    return f"{sign}{size[:-scale]}.{size[-scale:]}"


def little_endian(value: bytes) -> str | None:
    """Returns the digits of an unsigned number, least significant byte first; None for no byte, and for more than eight."""
    return str(int.from_bytes(value, "little")) if 0 < len(value) <= 8 else None
