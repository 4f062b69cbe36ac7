"""Plain texts of whole numbers, decimals and booleans. Numba functions that a kernel calls; each returns its value and whether it took it.

    integer     -?(0|[1-9][0-9]{0,18}), within the width of the target; not -0
    decimal     -?(0|[1-9][0-9]*)([.][0-9]+)?, no more digits before and behind the point than the target has
    boolean     true, false

What is not plain is not wrong: it is marked, and plain Python reads it. `+5`, `1e3`, `007` and digits behind the scale are such.
"""

# mypy: disable-error-code="return-value, assignment, arg-type"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

import numpy as np

from cdc_ops.decode.compiler import Bytes, helper

_MINUS = np.uint8(45)
_POINT = np.uint8(46)
_ZERO = np.uint8(48)
_TEN = np.uint64(10)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_SIGN = np.uint64(1 << 63)


@helper
def plain_integer(data: Bytes, start: int, end: int, width: int) -> tuple[int, bool]:
    """Reads an integer that fits into `width` bytes (1, 2, 4 or 8), signed."""
    at = start
    negative = at < end and data[at] == _MINUS
    if negative:
        at += 1
    digits = end - at
    if digits < 1 or digits > 19 or (data[at] == _ZERO and (digits > 1 or negative)):
        return 0, False
    total = np.uint64(0)
    for place in range(at, end):
        digit = np.uint64(data[place]) - np.uint64(48)  # a sign below `0` wraps round to a large number
        if digit > np.uint64(9):
            return 0, False
        total = total * _TEN + digit
    limit = np.uint64(1) << np.uint64(8 * width - 1)
    if negative:
        return np.int64(np.uint64(0) - total), total <= limit
    return np.int64(total), total < limit


@helper
def plain_digits(data: Bytes, start: int, end: int) -> int:
    """Returns how many digits stand at the beginning of a text."""
    at = start
    while at < end and np.uint64(data[at]) - np.uint64(48) <= np.uint64(9):
        at += 1
    return at - start


@helper
def times_ten(low: np.uint64, high: np.uint64, plus: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Returns a number of 128 bits, ten times and a digit more."""
    first = (low & _LOW_HALF) * _TEN + plus
    second = (low >> _HALF) * _TEN + (first >> _HALF)
    return (second << _HALF) | (first & _LOW_HALF), high * _TEN + (second >> _HALF)


@helper
def plain_decimal(data: Bytes, start: int, end: int, precision: int, scale: int) -> tuple[int, int, bool]:
    """Reads a decimal; returns the low and the high 64 bits of its unscaled value, two's complement."""
    at = start
    negative = at < end and data[at] == _MINUS
    if negative:
        at += 1
    whole = plain_digits(data, at, end)
    point = at + whole
    fraction = 0
    if point < end:
        fraction = plain_digits(data, point + 1, end) if data[point] == _POINT else 0
        if fraction == 0 or point + 1 + fraction != end:
            return 0, 0, False
    if whole == 0 or (whole > 1 and data[at] == _ZERO):
        return 0, 0, False
    if fraction > scale or (whole > precision - scale and data[at] != _ZERO):
        return 0, 0, False
    low, high = _unscaled(data, at, end, scale - fraction)
    if negative:
        low = ~low + np.uint64(1)
        high = ~high + (np.uint64(1) if low == np.uint64(0) else np.uint64(0))
    return np.int64(low), np.int64(high), True


@helper
def _unscaled(data: Bytes, start: int, end: int, zeros: int) -> tuple[np.uint64, np.uint64]:
    """Reads digits with at most one point among them, followed by zeros: at most 38 digits."""
    low = np.uint64(0)
    high = np.uint64(0)
    if end - start + zeros <= 19:  # fits into 64 bits without a carry
        for place in range(start, end):
            if data[place] != _POINT:
                low = low * _TEN + (np.uint64(data[place]) - np.uint64(48))
        for _ in range(zeros):
            low = low * _TEN
        return low, high
    for place in range(start, end):
        if data[place] != _POINT:
            low, high = times_ten(low, high, np.uint64(data[place]) - np.uint64(48))
    for _ in range(zeros):
        low, high = times_ten(low, high, np.uint64(0))
    return low, high


@helper
def plain_boolean(data: Bytes, start: int, end: int) -> tuple[int, bool]:
    """Reads `true` or `false`."""
    size = end - start
    if size == 4 and data[start] == 116 and data[start + 1] == 114 and data[start + 2] == 117 and data[start + 3] == 101:
        return 1, True
    is_false = size == 5 and data[start] == 102 and data[start + 1] == 97 and data[start + 2] == 108 and data[start + 3] == 115
    return 0, is_false and data[start + 4] == 101
