"""Text helpers for messages and SQL statements."""

import difflib
import re
from collections.abc import Iterable
from typing import Final

_PART: Final = re.compile(r'\s*(?:"(?P<quoted>(?:[^"]|"")*)"\s*|(?P<plain>[^,]*))(?P<more>,|\Z)')


def did_you_mean(word: str, known: Iterable[str], limit: int = 8) -> str:
    """Returns a sentence that suggests the nearest known word (ignoring case), or lists the known words if none is near."""
    names = sorted(known)
    if not names:
        return "There are no valid names."
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {by_lower[near[0]]!r}?"
    shown = ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
    return f"Valid names are: {shown}."


def quoted(name: str) -> str:
    """Returns a name as a quoted Spark SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def split_list(text: str) -> tuple[str, ...]:
    """Returns the parts of a comma-separated list without the blanks around them.

    A part that holds a comma itself, or begins or ends with a blank, stands in double quotes, as in CSV.

    >>> split_list('1, two words ," b, c",q"uote')
    ('1', 'two words', ' b, c', 'q"uote')
    """
    parts = []
    for found in _PART.finditer(text):
        parts.append(found["plain"].strip() if found["quoted"] is None else found["quoted"].replace('""', '"'))
        if not found["more"]:
            break
    return tuple(parts)


def unquoted(text: str) -> str:
    """Returns a name without the blanks around it; double quotes keep blanks at its start and end.

    >>> [unquoted(text) for text in (' note ', '" note"', 'a,b', '"')]
    ['note', ' note', 'a,b', '"']
    """
    parts = split_list(text)
    return parts[0] if len(parts) == 1 else text.strip()
