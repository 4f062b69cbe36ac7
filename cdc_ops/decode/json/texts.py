"""Strings of JSON as values: escapes, base64, times of day and documents, written to a buffer. Numba functions that a kernel calls.

Each takes the places of a string without its quotes, and where to write; it returns the place behind what it wrote, -1 for what is not
plain. The buffer must have room for twice the string and 64 bytes more.
"""

# mypy: disable-error-code="return-value, assignment, arg-type"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

import numpy as np

from cdc_ops.decode.compiler import Bytes, helper


@helper
def unescaped(data: Bytes, start: int, end: int, out: Bytes, at: int, lowest: int) -> int:
    """Writes a string without its escapes. Plain are those of one letter, and of four digits from the lowest one to U+D7FF."""
    place = start
    while place < end:
        sign = data[place]
        if sign != 92:
            out[at] = sign
            at += 1
            place += 1
            continue
        sign = data[place + 1]
        place += 2
        if sign == 117:
            number = _four_digits(data, place)
            place += 4
            if number < lowest or number >= 0xD800:
                return -1
            at = _put_sign(number, out, at)
        else:
            out[at] = _of_letter(sign)
            at += 1
    return at


@helper
def _of_letter(sign: int) -> int:
    if sign == 110:
        return 10
    if sign == 116:
        return 9
    if sign == 114:
        return 13
    if sign == 98:
        return 8
    if sign == 102:
        return 12
    return sign


@helper
def _four_digits(data: Bytes, at: int) -> int:
    number = 0
    for place in range(at, at + 4):
        sign = np.int64(data[place])
        number = number * 16 + (sign - 48 if sign <= 57 else (sign | 32) - 87)
    return number


@helper
def _put_sign(number: int, out: Bytes, at: int) -> int:
    """Writes a sign below U+10000 as UTF-8."""
    if number < 0x80:
        out[at] = number
        return at + 1
    if number < 0x800:
        out[at] = 0xC0 | (number >> 6)
        out[at + 1] = 0x80 | (number & 63)
        return at + 2
    out[at] = 0xE0 | (number >> 12)
    out[at + 1] = 0x80 | ((number >> 6) & 63)
    out[at + 2] = 0x80 | (number & 63)
    return at + 3


@helper
def _of_base64(sign: int) -> int:
    if 65 <= sign <= 90:
        return sign - 65
    if 97 <= sign <= 122:
        return sign - 71
    if 48 <= sign <= 57:
        return sign + 4
    if sign == 43:
        return 62
    return 63 if sign == 47 else -1


@helper
def without_padding(data: Bytes, start: int, end: int) -> int:
    """Returns the place behind a text without the blanks at its end."""
    while end > start and data[end - 1] == 32:
        end -= 1
    return end


@helper
def of_base64(data: Bytes, start: int, end: int, out: Bytes, at: int) -> int:
    """Writes the bytes of base64 with its padding, and no bits over."""
    if (end - start) % 4 != 0:
        return -1
    for place in range(start, end, 4):
        bits, filled = 0, 0
        for step in range(4):
            sign = np.int64(data[place + step])
            if sign == 61 and place + 4 == end and step >= 2 and (step == 3 or data[place + 3] == 61):
                bits <<= 6
                continue
            digit = _of_base64(sign)
            if digit < 0:
                return -1
            bits = (bits << 6) | digit
            filled += 1
        if (filled == 3 and bits & 0xFF) or (filled == 2 and bits & 0xFFFF):
            return -1
        for step in range(filled - 1):
            out[at] = (bits >> (16 - 8 * step)) & 0xFF
            at += 1
    return at


@helper
def reverse(data: Bytes, start: int, end: int) -> None:
    """Turns the order of some bytes."""
    for step in range((end - start) // 2):
        data[start + step], data[end - 1 - step] = data[end - 1 - step], data[start + step]


@helper
def big_endian(data: Bytes, start: int, end: int) -> int:
    """Returns the whole number in one to eight bytes, two's complement, most significant byte first."""
    number = np.uint64(0) if data[start] < 128 else ~np.uint64(0)
    for place in range(start, end):
        number = (number << np.uint64(8)) | np.uint64(data[place])
    return np.int64(number)


@helper
def _put_number(number: int, digits: int, out: Bytes, at: int) -> int:
    for place in range(digits - 1, -1, -1):
        out[at + place] = 48 + number % 10
        number //= 10
    return at + digits


@helper
def time_of_day(micros: int, fraction: int, out: Bytes, at: int) -> int:
    """Writes a time as MySQL prints it: up to 838 hours, negative ones too, with so many digits behind the point.

    With -1 digits as Postgres does: without zeros at the end, and without a point before nothing.
    """
    if not -1000 * 3_600_000_000 < micros < 1000 * 3_600_000_000:
        return -1
    size = abs(micros)
    if micros < 0:
        out[at] = 45
        at += 1
    hours = size // 3_600_000_000
    at = _put_number(hours, 3 if hours > 99 else 2, out, at)
    out[at] = 58
    at = _put_number(size // 60_000_000 % 60, 2, out, at + 1)
    out[at] = 58
    at = _put_number(size // 1_000_000 % 60, 2, out, at + 1)
    if fraction > 0 or (fraction < 0 and size % 1_000_000 > 0):
        out[at] = 46
        _put_number(size % 1_000_000, 6, out, at + 1)
        at += 1 + (fraction if fraction > 0 else 6)
        while fraction < 0 and out[at - 1] == 48:
            at -= 1
    return at


@helper
def spaced_document(data: Bytes, start: int, end: int, out: Bytes, at: int) -> int:
    """Writes a JSON document with one blank behind each separator of members, as MySQL's server prints it."""
    place = start
    quoted = False
    while place < end:
        sign = data[place]
        out[at] = sign
        at += 1
        place += 1
        if quoted:
            if sign == 92:
                if place >= end:
                    return -1
                out[at] = data[place]
                at += 1
                place += 1
            elif sign == 34:
                quoted = False
        elif sign == 34:
            quoted = True
        elif sign == 44 or sign == 58:
            out[at] = 32
            at += 1
            if place < end and data[place] == 32:
                place += 1
    return -1 if quoted else at


@helper
def of_latin(data: Bytes, start: int, end: int, out: Bytes, at: int) -> int:
    """Writes the bytes of a text in which each sign up to U+00FF is one."""
    place = start
    while place < end:
        sign = np.int64(data[place])
        if sign >= 128:
            if sign > 0xC3 or place + 1 >= end:
                return -1
            place += 1
            sign = ((sign & 3) << 6) | (np.int64(data[place]) & 63)
        out[at] = sign
        at += 1
        place += 1
    return at


@helper
def _are_digits(data: Bytes, start: int, end: int) -> bool:
    for place in range(start, end):
        if not 48 <= data[place] <= 57:
            return False
    return True


@helper
def is_time(data: Bytes, start: int, end: int, fraction: int) -> bool:
    """True for a time as MySQL prints it: two or three digits of hours, and so many behind the point."""
    if start < end and data[start] == 45:
        start += 1
    whole = end - 1 - fraction if fraction > 0 else end
    if not 8 <= whole - start <= 9 or not _are_digits(data, start, whole - 6):
        return False
    if data[whole - 6] != 58 or data[whole - 3] != 58 or not _are_digits(data, whole - 5, whole - 3):
        return False
    if not _are_digits(data, whole - 2, whole):
        return False
    return whole == end or (data[whole] == 46 and _are_digits(data, whole + 1, end))


@helper
def _two_bytes(words: Bytes, at: int) -> int:
    return np.int64(words[at]) | (np.int64(words[at + 1]) << 8)


@helper
def is_label(words: Bytes, first: int, data: Bytes, start: int, end: int) -> bool:
    """True for one of the words at a place, and for nothing."""
    if start == end:
        return True
    at = first + 2
    for _ in range(_two_bytes(words, first)):
        size = _two_bytes(words, at)
        at += 2
        if size == end - start:
            place = 0
            while place < size and words[at + place] == data[start + place]:
                place += 1
            if place == size:
                return True
        at += size
    return False


@helper
def are_labels(words: Bytes, first: int, data: Bytes, start: int, end: int) -> bool:
    """True for words at a place with commas between them, and for nothing."""
    begin = start
    for place in range(start, end + 1):
        if place == end or data[place] == 44:
            if not is_label(words, first, data, begin, place):
                return False
            begin = place + 1
    return True
