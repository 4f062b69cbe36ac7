"""Stored types, and which of them hold all values of another: exactly what Delta's type widening allows. Pure text.

Delta 4.4 widens byte, short, int and long upwards, all but long to double, integers to decimals with room for all their digits, float to
double, decimals to more digits on either side of the point, and date to timestamp_ntz. Everything else is another type.
"""

import re
from typing import Final

from cdc_ops.core.schema.server_types.mysql_types import MAX_DECIMAL_DIGITS

_ALIASES: Final = {
    "integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "real": "float",
    "dec": "decimal(10,0)", "numeric": "decimal(10,0)", "decimal": "decimal(10,0)", "timestamp_ltz": "timestamp",
}  # fmt: skip
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_DECIMAL: Final = re.compile(r"^decimal\((\d+),(\d+)\)$")
_OTHERS: Final = (("float", "double"), ("date", "timestamp_ntz"))


def canonical_type(ddl: str) -> str:
    """Returns the canonical spelling of a Spark SQL type: lower case, no blanks, `int` for `integer`, `string` for `varchar(n)`.

    >>> canonical_type("VARCHAR(20)"), canonical_type("Numeric(10, 2)"), canonical_type("INTEGER")
    ('string', 'decimal(10,2)', 'int')
    """
    text = re.sub(r"\s+", "", ddl.lower())
    text = re.sub(r"^(?:var)?char(?:acter)?\(\d+\)$", "string", text)
    text = re.sub(r"^(?:dec|numeric|decimal)\((\d+)\)$", r"decimal(\1,0)", text)
    text = re.sub(r"^(?:dec|numeric)\(", "decimal(", text)
    return _ALIASES.get(text, text)


def common_type(one: str, other: str) -> str | None:
    """Returns the smallest type that holds every value of both exactly and that Delta can widen both to, None if none exists.

    Args:
        one, other: Types as Spark SQL DDL, in any spelling.

    >>> common_type("smallint", "bigint"), common_type("date", "timestamp_ntz")
    ('bigint', 'timestamp_ntz')
    >>> common_type("decimal(10,2)", "decimal(8,4)")
    'decimal(12,4)'
    >>> common_type("bigint", "double") is None
    True
    """
    first, second = canonical_type(one), canonical_type(other)
    if first == second:
        return first
    for pair in ((first, second), (second, first)):
        if pair in _OTHERS:
            return pair[1]
        if pair[0] in _INTEGERS[:3] and pair[1] == "double":
            return "double"
    if first in _INTEGERS and second in _INTEGERS:
        return max(first, second, key=_INTEGERS.index)
    return _common_decimal(first, second)


def holds(stored: str, value: str) -> bool:
    """True if a column of type `stored` holds every value of type `value` exactly.

    >>> holds("decimal(19,0)", "bigint"), holds("decimal(18,0)", "bigint"), holds("float", "int")
    (True, False, False)
    """
    if _fits_exactly(canonical_type(stored), canonical_type(value)):
        return True
    return common_type(stored, value) == canonical_type(stored)


def _fits_exactly(stored: str, value: str) -> bool:
    """True for an integer that fits a decimal exactly although Delta's type widening asks for more digits."""
    found = _DECIMAL.match(stored)
    if not found or value not in _INTEGERS:
        return False
    return int(found[1]) - int(found[2]) >= {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}[value]


def _common_decimal(first: str, second: str) -> str | None:
    sizes = (_digits(first), _digits(second))
    if sizes[0] is None or sizes[1] is None:
        return None
    whole, scale = max(sizes[0][0], sizes[1][0]), max(sizes[0][1], sizes[1][1])
    return f"decimal({whole + scale},{scale})" if whole + scale <= MAX_DECIMAL_DIGITS else None


def _digits(kind: str) -> tuple[int, int] | None:
    """Returns digits before and after the point; for integers, as many as Delta's type widening asks for."""
    if kind in _INTEGERS:
        return (20 if kind == "bigint" else 10), 0
    found = _DECIMAL.match(kind)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None
