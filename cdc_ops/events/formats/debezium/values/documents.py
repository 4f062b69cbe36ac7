"""MySQL's JSON documents: the connector writes them without the blanks that the server prints behind separators."""

import re
from typing import Final

import msgspec

_PARTS: Final = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+"|".*)', re.DOTALL)
"""Matches a text within a document, and one without an end; possessive, so that long texts need no stack."""
_SEPARATOR: Final = re.compile(r"([,:]) ?")


def spaced(text: str) -> str:
    """Returns a document with the blanks that the server prints.

    >>> spaced('{"a":1,"b":["x:y",2]}')
    '{"a": 1, "b": ["x:y", 2]}'
    """
    try:
        if len(msgspec.json.format(text, indent=-1)) == len(text):  # without any blank
            return msgspec.json.format(text, indent=0)
    except (msgspec.DecodeError, RecursionError):
        pass
    parts = _PARTS.split(text)
    parts[::2] = [_SEPARATOR.sub(r"\1 ", part) for part in parts[::2]]
    return "".join(parts)
