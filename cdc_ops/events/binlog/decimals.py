"""DECIMAL as rows and JSON documents have it, with all digits of its scale."""

from collections.abc import Callable
from decimal import Decimal
from typing import Final

_GROUP_DIGITS: Final = 9
_BYTES_OF_DIGITS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def decimal_reader(precision: int, scale: int) -> Callable[[bytes, int], tuple[Decimal, int]]:
    """Returns the function that reads a DECIMAL of a precision and a scale, and the position behind it.

    Digits stand in groups of 9 in 4 bytes, the incomplete groups outside; the first bit is the sign, and negatives are inverted.
    """
    before, after = divmod(precision - scale, _GROUP_DIGITS), divmod(scale, _GROUP_DIGITS)
    groups = [before[1], *[_GROUP_DIGITS] * (before[0] + after[0]), after[1]]
    sizes = [(digits, _BYTES_OF_DIGITS[digits]) for digits in groups if digits]
    size = sum(width for _, width in sizes)

    def read(data: bytes, at: int) -> tuple[Decimal, int]:
        negative = not data[at] & 0x80
        packed = bytearray(data[at : at + size])
        packed[0] ^= 0x80
        if negative:
            packed = bytearray(byte ^ 0xFF for byte in packed)
        number, place = 0, 0
        for digits, width in sizes:
            group = int.from_bytes(packed[place : place + width], "big")
            if group >= 10**digits:
                raise ValueError(f"a DECIMAL has {group} in {digits} digits")
            number, place = number * 10**digits + group, place + width
        return Decimal(f"{'-' if negative else ''}{number}E-{scale}"), at + size

    return read
