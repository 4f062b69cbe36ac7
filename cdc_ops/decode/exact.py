"""Texts that kernels mark, in plain Python; also what the kernels' tests compare them with.

It takes more than the kernels do, and gives the same value wherever both take a text.
"""

from datetime import date, datetime
from decimal import Decimal, localcontext
from typing import Any

from cdc_ops.decode.program import Field, Kind


def exact_value(field: Field, text: bytes) -> Any:
    """Returns the Python value of a text, as `Batch.put` takes it.

    Raises:
        ValueError: the text is no such value.
        ArithmeticError: the text is no number.
        OverflowError: the value is one that the column's type does not hold.
    """
    if field.kind is Kind.BINARY:
        return text
    sign = text.decode("utf-8")
    match field.kind:
        case Kind.STRING:
            return sign
        case Kind.BOOLEAN:
            return {"true": True, "false": False}[sign]
        case Kind.INTEGER:
            return int(sign)
        case Kind.DECIMAL:
            with localcontext(prec=10_000):
                return Decimal(sign)
        case Kind.FLOAT | Kind.DOUBLE:
            return float(sign)
        case Kind.DATE:
            return date.fromisoformat(sign)
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            return datetime.fromisoformat(sign)
