"""Texts as they stand: whether bytes are UTF-8. Numba functions that a kernel calls."""

# mypy: disable-error-code="return-value, assignment, arg-type, no-any-return"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

import numpy as np

from cdc_ops.decode.compiler import Bytes, helper
from cdc_ops.decode.sixteen import SIXTEEN, before_high


@helper
def is_ascii(data: Bytes, start: int, end: int) -> bool:
    """True if all bytes are below 128."""
    at = start
    while at < end and at + SIXTEEN <= data.size:
        if before_high(data, at) < min(SIXTEEN, end - at):
            return False
        at += SIXTEEN
    seen = np.uint8(0)
    for place in range(at, end):
        seen |= data[place]
    return seen < 128


@helper
def _eight(data: Bytes, at: int) -> int:
    """Returns the bits that are set in any of eight bytes."""
    first = data[at] | data[at + 1] | data[at + 2] | data[at + 3]
    return first | data[at + 4] | data[at + 5] | data[at + 6] | data[at + 7]


@helper
def is_utf8(data: Bytes, start: int, end: int) -> bool:
    """True for what Python decodes as UTF-8: the shortest form of each sign, no surrogates, nothing above U+10FFFF."""
    if is_ascii(data, start, end):
        return True
    at = start
    while at < end:
        first = data[at]
        if first < 0x80:
            at += 8 if at + 8 <= end and _eight(data, at) < 128 else 1
            continue
        more = following(first)
        if more == 0 or at + more >= end or not begins_well(first, data[at + 1]):
            return False
        for place in range(at + 2, at + more + 1):
            if data[place] & 0xC0 != 0x80:
                return False
        at += more + 1
    return True


@helper
def following(first: int) -> int:
    """Returns how many bytes follow the first one of a sign, 0 if none begins with it."""
    if first < 0xC2:
        return 0
    if first < 0xE0:
        return 1
    if first < 0xF0:
        return 2
    return 3 if first < 0xF5 else 0


@helper
def begins_well(first: int, second: int) -> bool:
    """True if these two bytes begin a sign: the second one rules out long forms, surrogates and numbers that are too large."""
    if first == 0xE0:
        return 0xA0 <= second <= 0xBF
    if first == 0xED:
        return 0x80 <= second <= 0x9F
    if first == 0xF0:
        return 0x90 <= second <= 0xBF
    if first == 0xF4:
        return 0x80 <= second <= 0x8F
    return 0x80 <= second <= 0xBF
