"""Whole numbers of 64 bits, as texts."""

import re
from typing import Final

_NUMBER: Final = re.compile(r"[\x00-\x20\x7f]*([+-]?[0-9]{1,4000})[\x00-\x20\x7f]*")
_LIMIT: Final = 2**63


def whole_number(text: str | None) -> int | None:
    """Returns a whole number of 64 bits; None for a text that is none, and for no text."""
    if text is None:
        return None
    if len(text) < 19 and text.isdecimal() and text.isascii():
        return int(text)
    found = _NUMBER.fullmatch(text)
    number = int(found[1]) if found is not None else _LIMIT
    return number if -_LIMIT <= number < _LIMIT else None
