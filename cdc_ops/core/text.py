"""Text helpers for messages and SQL statements."""

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_PLAIN_YAML: Final = re.compile(r"[^\W\d]\w*")
_YAML_WORDS: Final = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
"""What YAML takes for another thing than a text."""
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


def without_columns(names: Iterable[str]) -> str:
    """Returns the line of a pipeline file that leaves columns out, with quotes where YAML needs them.

    >>> print(without_columns(("name", "unit price", "no")))
    except_column_list: [name, "unit price", "no"]
    """
    return f"except_column_list: [{', '.join(map(_in_yaml, names))}]"


def _in_yaml(name: str) -> str:
    plain = _PLAIN_YAML.fullmatch(name) and name.lower() not in _YAML_WORDS
    return name if plain else json.dumps(name, ensure_ascii=False)


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


def span_text(seconds: float) -> str:
    """Returns a span in its two largest units.

    >>> [span_text(seconds) for seconds in (0, 59.6, 80, 3599, 7325)]
    ['0 s', '1 min', '1 min 20 s', '59 min 59 s', '2 h 2 min']
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (0 if hours else rest, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"


def joined(names: Sequence[str]) -> str:
    """Returns names as a sentence has them.

    >>> joined(["a"]), joined(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def some_of(names: Sequence[str], most: int = 3) -> str:
    """Returns the first of many names, and how many more there are; all of them if they are few.

    >>> some_of(["a", "b"]), some_of(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def minute_text(instant: datetime) -> str:
    """Returns an instant of UTC to the minute.

    >>> minute_text(datetime(2026, 1, 31, 9, 5, 59))
    '2026-01-31 09:05 UTC'
    """
    return f"{instant:%Y-%m-%d %H:%M} UTC"


def size_text(size: float, units: Sequence[str] = _UNITS) -> str:
    """Returns a number of bytes in the unit that makes it readable.

    Args:
        size: Bytes.
        units: Names of the units, each 1,024 times the one before.

    >>> [size_text(size) for size in (0, 1023, 1536, 250 << 20, 3 << 50)]
    ['0 B', '1023 B', '1.5 KiB', '250 MiB', '3072 TiB']
    """
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(units) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} {units[unit]}" if unit == 0 or amount >= 100 else f"{amount:.1f} {units[unit]}"


def plural(number: int, one: str, many: str = "") -> str:
    """Returns a number with its noun, e.g. `1 run`, `1,200 runs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
