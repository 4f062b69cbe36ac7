"""What Delta's log says of a file's values, as the text that it is: what is not changed in it stays as it was, to the digit.

Read as numbers and printed again it would pass through binary floating point, and of a decimal some digits would be lost. Spark-free.
"""

import json
from collections.abc import Mapping


def members(text: str) -> dict[str, str]:
    """Returns the members of a JSON object, each value as the text that it has there: a number keeps all its digits, in its own form.

    >>> members('{"numRecords": 2, "minValues": {"k": 1E-18}}')
    {'numRecords': '2', 'minValues': '{"k": 1E-18}'}
    """
    found, place, decoder = dict[str, str](), _skip(text, 0), json.JSONDecoder()
    while text[place] in "{,":
        place = _skip(text, place + 1)
        if text[place] == "}":
            break
        name, place = decoder.raw_decode(text, place)
        begin = _skip(text, _skip(text, place) + 1)  # behind the colon
        _, end = decoder.raw_decode(text, begin)
        found[name], place = text[begin:end], _skip(text, end)
    return found


def object_of(found: Mapping[str, str]) -> str:
    """Returns the JSON object with these members, values as their texts are."""
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{value}" for name, value in found.items()) + "}"


def statistics_beside_deleted_rows(text: str, rows: int) -> str:
    """Returns a file's statistics as they are once a deletion vector leaves some of its rows out.

    Bounds and counts of NULL stay as they were, to the digit. They hold for more than the rows that are left, which the text says then.

    Args:
        text: The statistics as the file's entry has them; "" if it has none.
        rows: How many rows the file has, deleted ones included: Delta wants that to be known.
    """
    return object_of({**members(text or "{}"), "numRecords": str(rows), "tightBounds": "false"})


def _skip(text: str, place: int) -> int:
    while text[place : place + 1].isspace():
        place += 1
    return place
