"""Stored values of travelling ones: what is plain, and what is refused."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from cdc_ops.decode.stored import FINISHES, NotPlainError, stored_values

PLAIN: list[tuple[str, str, pa.Array, list[Any]]] = [
    ("same", "string", pa.array(["ä", None]), ["ä", None]),
    ("unsigned", "bigint", pa.array([0, 2**63 - 1, None]), [0, 2**63 - 1, None]),
    ("unsigned", "decimal(20,0)", pa.array([0, 2**63 - 1]), [Decimal(0), Decimal(2**63 - 1)]),
    ("days", "date", pa.array([719528, 366, None], pa.int32()), [date(1970, 1, 1), date(1, 1, 1), None]),
    ("wall_clock", "timestamp_ntz", pa.array([-1, None]), [datetime(1969, 12, 31, 23, 59, 59, 999999), None]),
    ("instant", "timestamp", pa.array([1, None]), [datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), None]),
]
REFUSED: list[tuple[str, str, pa.Array]] = [
    ("same", "string", pa.array([1])),
    ("unsigned", "bigint", pa.array([5, -1])),
    ("days", "date", pa.array([719528, -1], pa.int32())),
    ("days", "date", pa.array([59], pa.int32())),
    ("wall_clock", "timestamp_ntz", pa.array([0, -9223372036854775807])),
    ("wall_clock", "timestamp_ntz", pa.array([-62162035200000001])),
    ("instant", "timestamp", pa.array([1, 0])),
]


@pytest.mark.parametrize(("finish", "stored", "values", "expected"), PLAIN)
def test_plain_values_are_stored_as_spark_stores_them(finish: str, stored: str, values: pa.Array, expected: list[Any]) -> None:
    assert stored_values(values, finish, stored).to_pylist() == expected


@pytest.mark.parametrize(("finish", "stored", "values"), REFUSED)
def test_a_value_that_is_not_plain_refuses_its_column(finish: str, stored: str, values: pa.Array) -> None:
    with pytest.raises(NotPlainError):
        stored_values(values, finish, stored)


@pytest.mark.parametrize("finish", [name for name in FINISHES if name != "same"])
def test_columns_of_nulls_and_without_rows_are_plain(finish: str) -> None:
    stored, kind = {"days": ("date", pa.int32()), "instant": ("timestamp", pa.int64())}.get(finish, ("timestamp_ntz", pa.int64()))
    stored = "bigint" if finish == "unsigned" else stored
    assert stored_values(pa.array([None, None], kind), finish, stored).to_pylist() == [None, None]
    assert stored_values(pa.array([], kind), finish, stored).to_pylist() == []
