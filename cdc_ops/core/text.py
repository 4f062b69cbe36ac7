"""Small wording helpers for messages and statements."""

import csv
import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str], limit: int = 8) -> str:
    """Returns a sentence that names the nearest known word (case does not count), or the known words if none is near."""
    names = sorted(known)
    if not names:
        return "There are none at all."
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {by_lower[near[0]]!r}?"
    shown = ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
    return f"Known are: {shown}."


def quoted(name: str) -> str:
    """Returns a Spark SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def split_list(text: str) -> tuple[str, ...]:
    """Returns the parts of a list with commas between; a part that holds a comma itself stands in double quotes, as in CSV."""
    parts = next(csv.reader([text], skipinitialspace=True), [""]) if '"' in text else text.split(",")
    return tuple(part.strip() for part in parts)
