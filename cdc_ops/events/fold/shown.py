"""Keys and positions as an error shows them."""

import json
from base64 import b64encode
from collections.abc import Mapping
from decimal import Decimal
from typing import Any


def json_text(values: Mapping[str, Any]) -> str:
    """Returns values as a JSON object without blanks: numbers with all digits, bytes in base64, dates and times as ISO texts.

    >>> json_text({"id": 7, "note": "\u00e9", "price": Decimal("1.50")})
    '{"id":7,"note":"\u00e9","price":1.50}'
    """
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{_value(value)}" for name, value in values.items()) + "}"


def _value(value: Any) -> str:
    match value:
        case None | bool() | int() | float() | str():
            return json.dumps(value, ensure_ascii=False)
        case Decimal():
            return format(value, "f")
        case bytes():
            return json.dumps(b64encode(value).decode())
        case _:
            return json.dumps(value.isoformat() if hasattr(value, "isoformat") else str(value), ensure_ascii=False)
