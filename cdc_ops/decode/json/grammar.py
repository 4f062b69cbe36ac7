"""The strict grammar of JSON (RFC 8259), as places in a buffer. Numba functions that a kernel calls; -1 stands for what is not plain.

Plain is a part of JSON: what is taken here, every parser reads alike. Objects and arrays nest at most 60 deep, numbers have at most 60
characters. Signs beyond ASCII stand in strings only, so that a document that is taken is valid UTF-8.
"""

# mypy: disable-error-code="return-value, assignment, arg-type, no-any-return"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

import numpy as np

from cdc_ops.decode.compiler import Bytes, helper
from cdc_ops.decode.plain.texts import begins_well, following
from cdc_ops.decode.sixteen import SIXTEEN, before_special

ABSENT, NULL, FALSE, TRUE, INTEGER, FRACTION, STRING, ESCAPED, OBJECT, ARRAY = range(10)
"""Tokens. INTEGER is a number without fraction and exponent; ESCAPED a string with a backslash in it."""

_QUOTE, _BACKSLASH = 34, 92
_DEEPEST = 60
_LONGEST_NUMBER = 60


@helper
def after_blanks(data: Bytes, at: int, end: int) -> int:
    """Returns the first place that is no blank."""
    while at < end and (data[at] == 32 or data[at] == 9 or data[at] == 13 or data[at] == 10):
        at += 1
    return at


@helper
def string_end(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """Returns the place of the quote that ends a string, and whether the string has escapes; `at` is behind its first quote."""
    escaped = False
    while at < end:
        if at + SIXTEEN <= data.size:
            plain = before_special(data, at)
            if plain == SIXTEEN:
                at += SIXTEEN
                continue
            at += plain
            if at >= end:
                return -1, escaped
        sign = data[at]
        if sign == _QUOTE:
            return at, escaped
        if sign >= 128:
            at = _sign_end(data, at, end)
        elif sign == _BACKSLASH:
            escaped = True
            at = _escape_end(data, at + 1, end)
        else:
            at = at + 1 if sign >= 32 else -1
        if at < 0:
            return -1, escaped
    return -1, escaped


@helper
def _sign_end(data: Bytes, at: int, end: int) -> int:
    """Returns the place behind a sign of UTF-8 of several bytes."""
    more = following(data[at])
    if more == 0 or at + more >= end or not begins_well(data[at], data[at + 1]):
        return -1
    for place in range(at + 2, at + more + 1):
        if data[place] & 0xC0 != 0x80:
            return -1
    return at + more + 1


@helper
def _escape_end(data: Bytes, at: int, end: int) -> int:
    """Returns the place behind an escape, whose backslash lies before `at`."""
    if at >= end:
        return -1
    sign = data[at]
    if sign == 117:  # u
        if at + 5 > end:
            return -1
        for place in range(at + 1, at + 5):
            digit = data[place] | 32
            if not (48 <= data[place] <= 57 or 97 <= digit <= 102):
                return -1
        return at + 5
    if sign == _QUOTE or sign == _BACKSLASH or sign == 47 or sign == 98 or sign == 102 or sign == 110 or sign == 114 or sign == 116:
        return at + 1
    return -1


@helper
def _digits_end(data: Bytes, at: int, end: int) -> int:
    while at < end and 48 <= data[at] <= 57:
        at += 1
    return at


@helper
def number_end(data: Bytes, start: int, end: int) -> tuple[int, int]:
    """Returns the place behind a number, and its token."""
    at = start + 1 if data[start] == 45 else start
    whole = _digits_end(data, at, end)
    if whole == at or (data[at] == 48 and whole > at + 1):
        return -1, INTEGER
    at = whole
    token = INTEGER
    if at < end and data[at] == 46:
        token = FRACTION
        whole = _digits_end(data, at + 1, end)
        if whole == at + 1:
            return -1, token
        at = whole
    if at < end and (data[at] | 32) == 101:
        token = FRACTION
        at += 1
        if at < end and (data[at] == 43 or data[at] == 45):
            at += 1
        whole = _digits_end(data, at, end)
        if whole == at:
            return -1, token
        at = whole
    return (at if at - start <= _LONGEST_NUMBER else -1), token


@helper
def _is_word(data: Bytes, at: int, end: int, first: int, second: int, third: int, fourth: int) -> bool:
    if at + 4 > end:
        return False
    return data[at] == first and data[at + 1] == second and data[at + 2] == third and data[at + 3] == fourth


@helper
def scalar_end(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Returns the place behind a value that is no object and no array, and its token."""
    sign = data[at]
    if sign == _QUOTE:
        close, escaped = string_end(data, at + 1, end)
        return (close + 1 if close >= 0 else -1), (ESCAPED if escaped else STRING)
    if sign == 45 or 48 <= sign <= 57:
        return number_end(data, at, end)
    if _is_word(data, at, end, 110, 117, 108, 108):
        return at + 4, NULL
    if _is_word(data, at, end, 116, 114, 117, 101):
        return at + 4, TRUE
    if _is_word(data, at, end, 102, 97, 108, 115) and at + 4 < end and data[at + 4] == 101:
        return at + 5, FALSE
    return -1, ABSENT


@helper
def _name_end(data: Bytes, at: int, end: int) -> int:
    """Returns the place of the value behind a member's name and its colon."""
    if at >= end or data[at] != _QUOTE:
        return -1
    close, _ = string_end(data, at + 1, end)
    if close < 0:
        return -1
    at = after_blanks(data, close + 1, end)
    if at >= end or data[at] != 58:
        return -1
    return after_blanks(data, at + 1, end)


@helper
def value_end(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Returns the place behind any value, and its token."""
    sign = data[at]
    if sign != 123 and sign != 91:
        return scalar_end(data, at, end)
    token = OBJECT if sign == 123 else ARRAY
    objects = np.uint64(0)  # one bit for each open object or array: 1 for an object
    depth = 0
    opened = False  # just behind a bracket
    while True:
        if at >= end:
            return -1, token
        sign = data[at]
        if sign == 123 or sign == 91:
            depth += 1
            if depth > _DEEPEST:
                return -1, token
            objects = (objects << np.uint64(1)) | np.uint64(1 if sign == 123 else 0)
            at = after_blanks(data, at + 1, end)
            opened = True
        else:
            at, _ = scalar_end(data, at, end)
            if at < 0:
                return -1, token
            at = after_blanks(data, at, end)
            opened = False
        while at < end and data[at] == (125 if objects & np.uint64(1) else 93):
            objects = objects >> np.uint64(1)
            depth -= 1
            if depth == 0:
                return at + 1, token
            at = after_blanks(data, at + 1, end)
            opened = False
        if at >= end:
            return -1, token
        if not opened:
            if data[at] != 44:
                return -1, token
            at = after_blanks(data, at + 1, end)
        if objects & np.uint64(1):
            at = _name_end(data, at, end)
            if at < 0:
                return -1, token
