"""Plain texts of floating-point numbers: those of which the nearest double, or the nearest float, is found without a doubt.

    -?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]{1,4})?     at most 19 significant digits, a normal number

The way is Eisel and Lemire's: the digits times a power of five of 128 bits; the few products that are too near to the middle between two
numbers are not taken. (D. Lemire, Number Parsing at a Gigabyte per Second, 2021.) Numba functions that a kernel calls.
"""

# mypy: disable-error-code="return-value, assignment, arg-type"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from typing import Final

import numpy as np
import numpy.typing as npt

from cdc_ops.decode.compiler import Bytes, helper
from cdc_ops.decode.plain.numbers import plain_digits

_SMALLEST_POWER: Final = -342
_LARGEST_POWER: Final = 308


def _powers_of_five() -> npt.NDArray[np.uint64]:
    """Returns the first 128 bits of 5^q, high and low words, for each q from the smallest to the largest power."""
    words = []
    for power in range(_SMALLEST_POWER, _LARGEST_POWER + 1):
        if power < 0:
            divisor = 5**-power
            bits = (divisor - 1).bit_length()
            value = 2 ** (bits + 127 if power >= -27 else 2 * bits + 128) // divisor + 1
        else:
            value = 5**power << 128
        value >>= value.bit_length() - 128
        words.append((value >> 64, value & (2**64 - 1)))
    return np.array(words, dtype=np.uint64)


_POWERS = _powers_of_five()
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_HIDDEN = np.uint64(1 << 52)
_UNDECIDED = np.uint64(0x1FF)  # the bits of the first product that the second one may still change


@helper
def _product(left: np.uint64, right: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Returns the high and the low 64 bits of a product."""
    a, b = left >> _HALF, left & _LOW_HALF
    c, d = right >> _HALF, right & _LOW_HALF
    low = b * d
    middle = a * d + (low >> _HALF)
    other = b * c + (middle & _LOW_HALF)
    return a * c + (middle >> _HALF) + (other >> _HALF), (other << _HALF) | (low & _LOW_HALF)


@helper
def _leading_zeros(value: np.uint64) -> int:
    zeros = 0
    step = 32
    while step > 0:
        if value >> np.uint64(64 - step) == np.uint64(0):
            zeros += step
            value = value << np.uint64(step)
        step >>= 1
    return zeros


@helper
def _nearest(digits: np.uint64, power: int) -> tuple[np.uint64, bool]:
    """Returns the bits of the double nearest to digits * 10^power, without a sign; digits are not 0."""
    if power < -342 or power > 308:
        return np.uint64(0), False
    zeros = _leading_zeros(digits)
    digits = digits << np.uint64(zeros)
    high, low = _product(digits, _POWERS[power + 342, 0])
    if high & _UNDECIDED == _UNDECIDED:
        more, _ = _product(digits, _POWERS[power + 342, 1])
        low = low + more
        if more > low:
            high = high + _ONE
    if low == _ALL and (power < -27 or power > 55):
        return np.uint64(0), False
    upper = high >> np.uint64(63)
    shift = upper + np.uint64(9)
    mantissa = high >> shift
    exponent = ((217706 * power) >> 16) + 63 + np.int64(upper) - zeros + 1023
    if exponent <= 0:
        return np.uint64(0), False
    if low <= _ONE and -4 <= power <= 23 and mantissa & np.uint64(3) == _ONE and mantissa << shift == high:
        mantissa = mantissa & ~_ONE  # exactly in the middle: to the even one
    mantissa = (mantissa + (mantissa & _ONE)) >> _ONE
    if mantissa >= _HIDDEN << _ONE:
        mantissa = _HIDDEN
        exponent += 1
    bits = (mantissa & ~_HIDDEN) | (np.uint64(exponent) << np.uint64(52))
    return bits, exponent < 2047


@helper
def _exponent(data: Bytes, start: int, end: int) -> tuple[int, bool]:
    """Reads what follows the digits: nothing, or an exponent."""
    if start == end:
        return 0, True
    if data[start] != 101 and data[start] != 69:
        return 0, False
    at = start + 1
    negative = at < end and data[at] == 45
    if negative or (at < end and data[at] == 43):
        at += 1
    if not 1 <= end - at <= 4 or plain_digits(data, at, end) != end - at:
        return 0, False
    value = 0
    for place in range(at, end):
        value = value * 10 + (np.int64(data[place]) - 48)
    return -value if negative else value, True


@helper
def _significant(data: Bytes, start: int, end: int) -> tuple[np.uint64, bool]:
    """Reads digits with at most one point among them; not taken if more than 19 are left without the zeros before them."""
    total = np.uint64(0)
    count = 0
    for place in range(start, end):
        if data[place] != 46:
            if count > 0 or data[place] != 48:  # not by the total: twenty digits can overflow to exactly 0
                count += 1
                if count > 19:
                    return total, False
            total = total * np.uint64(10) + (np.uint64(data[place]) - np.uint64(48))
    return total, True


@helper
def plain_double(data: Bytes, start: int, end: int) -> tuple[np.uint64, bool]:
    """Reads a floating-point number; returns the bits of the nearest double."""
    at = start
    sign = np.uint64(0)
    if at < end and data[at] == 45:
        sign = np.uint64(1 << 63)
        at += 1
    whole = plain_digits(data, at, end)
    stop = at + whole
    fraction = 0
    if stop < end and data[stop] == 46:
        fraction = plain_digits(data, stop + 1, end)
        if fraction == 0:
            return sign, False
        stop += 1 + fraction
    exponent, taken = _exponent(data, stop, end)
    if not taken or whole == 0 or (whole > 1 and data[at] == 48):
        return sign, False
    digits, taken = _significant(data, at, stop)
    if not taken or digits == np.uint64(0):
        return sign, taken
    bits, taken = _nearest(digits, exponent - fraction)
    return sign | bits, taken


@helper
def float_of_double(bits: np.uint64) -> tuple[np.uint64, bool]:
    """Returns the bits of the float nearest to the number whose nearest double has these bits.

    Rounding twice is rounding once, unless the double lies in the middle between two floats. Not taken then, nor outside of the normal
    floats.
    """
    sign = (bits >> np.uint64(32)) & np.uint64(0x80000000)
    magnitude = bits & np.uint64(0x7FFFFFFFFFFFFFFF)
    if magnitude == np.uint64(0):
        return sign, True
    exponent = np.int64(magnitude >> np.uint64(52)) - 1023 + 127
    rest = magnitude & np.uint64(0x1FFFFFFF)
    middle = np.uint64(0x10000000)
    if rest == middle or exponent < 1 or exponent > 254:
        return sign, False
    value = (np.uint64(exponent) << np.uint64(23)) | ((magnitude >> np.uint64(29)) & np.uint64(0x7FFFFF))
    if rest > middle:
        value = value + _ONE
    return sign | value, value < np.uint64(0x7F800000)
