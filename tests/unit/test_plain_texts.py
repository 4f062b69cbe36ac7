"""What a kernel takes of a text equals what plain Python makes of it; what it does not take it marks, and plain texts it takes."""

import math
import struct
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdc_ops.decode.batch import Batch
from cdc_ops.decode.cells import MARKED, TEXT
from cdc_ops.decode.exact import exact_value
from cdc_ops.decode.program import Field, Program

MARK = object()

SIGNS = st.text(alphabet="0123456789+-.:eETZ /n\x00", max_size=30)
INTEGERS = st.one_of(st.integers(-(2**64), 2**64).map(str), st.integers(-300, 300).map(str), SIGNS)
DECIMALS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**30), max_value=10**30).map(
        lambda value: format(value, "f")
    ),
    st.from_regex(r"-?[0-9]{1,40}(\.[0-9]{1,12})?", fullmatch=True),
    SIGNS,
)
FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    st.from_regex(r"-?[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    SIGNS,
)
MOMENTS = st.one_of(
    st.datetimes().map(lambda value: value.isoformat(" ")),
    st.from_regex(r"[0-9]{4}-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,7})?", fullmatch=True),
    SIGNS,
)


def taken(ddl: str, texts: list[bytes]) -> list[Any]:
    """Returns what the kernels make of texts, MARK for those that they do not take."""
    data = np.frombuffer(b"|" + b"|".join(texts) + b"|", np.uint8)
    batch = Batch(Program.of([Field.of("value", ddl)]), len(texts))
    at = 1
    for row, text in enumerate(texts):
        batch.cells.low[0, row], batch.cells.high[0, row], batch.cells.state[0, row] = at, at + len(text), TEXT
        at += len(text) + 1
    batch.decode_texts(data, len(texts))
    marked = {row for row, _ in batch.marked(len(texts))}
    assert all(batch.bytes_of(row, 0, data) == texts[row] for row in marked)
    for row in marked:
        batch.put(row, 0, None)
    values = batch.record_batch(data, len(texts))
    values.validate(full=True)
    return [MARK if row in marked else value for row, value in enumerate(values.column(0).to_pylist())]


def one(ddl: str, text: str) -> Any:
    return taken(ddl, [text.encode()])[0]


def bits(value: float, form: str = "<d") -> bytes:
    return struct.pack(form, value)


@given(text=INTEGERS, ddl=st.sampled_from(("tinyint", "smallint", "int", "bigint")))
@example(text="-9223372036854775808", ddl="bigint")
@example(text="9223372036854775808", ddl="bigint")
@example(text="-129", ddl="tinyint")
def test_an_integer_that_is_taken_is_the_integer(text: str, ddl: str) -> None:
    value = one(ddl, text)
    if value is not MARK:
        assert value == int(text)


@pytest.mark.parametrize(("ddl", "size"), [("tinyint", 8), ("smallint", 16), ("int", 32), ("bigint", 64)])
def test_every_integer_of_a_type_is_taken_and_the_next_one_is_marked(ddl: str, size: int) -> None:
    low, high = -(2 ** (size - 1)), 2 ** (size - 1) - 1
    inside = [low, low + 1, -1, 0, 1, 9, 10, high - 1, high]
    assert taken(ddl, [str(value).encode() for value in inside]) == inside
    assert taken(ddl, [str(value).encode() for value in (low - 1, high + 1)]) == [MARK, MARK]


@pytest.mark.parametrize("text", ["", "-", "+5", "-0", "007", "1e3", "1.0", " 1", "1 ", "0x1", "٣", "10000000000000000000000"])
def test_what_is_no_plain_integer_is_marked(text: str) -> None:
    assert one("bigint", text) is MARK


@given(text=DECIMALS, shape=st.sampled_from(((38, 0), (38, 10), (10, 2), (19, 4), (4, 4), (38, 38), (20, 0))))
@example(text="99999999999999999999999999999999999999", shape=(38, 0))
@example(text="-0.99999999999999999999999999999999999999", shape=(38, 38))
@example(text="-0.00", shape=(10, 2))
def test_a_decimal_that_is_taken_is_the_decimal(text: str, shape: tuple[int, int]) -> None:
    value = one(f"decimal({shape[0]},{shape[1]})", text)
    if value is not MARK:
        assert value == Decimal(text)
        assert -value.as_tuple().exponent == shape[1]


@given(unscaled=st.integers(-(10**38) + 1, 10**38 - 1), scale=st.integers(0, 38))
def test_every_decimal_of_a_type_is_taken(unscaled: int, scale: int) -> None:
    digits = f"{abs(unscaled):0{scale + 1}d}"
    text = ("-" if unscaled < 0 else "") + digits[: len(digits) - scale] + ("." + digits[len(digits) - scale :] if scale else "")
    assert one(f"decimal(38,{scale})", text) == exact_value(Field.of("", f"decimal(38,{scale})"), text.encode())


@pytest.mark.parametrize("text", ["", "-", ".5", "5.", "1.234", "100000000", "1e2", "+1", "00.5", "1..2", "1.2.3", "NaN", "1,5"])
def test_what_is_no_plain_decimal_of_the_type_is_marked(text: str) -> None:
    assert one("decimal(10,2)", text) is MARK


@given(text=FLOATS)
@example(text="-0")
@example(text="2.2250738585072014e-308")
@example(text="1.7976931348623157e308")
@example(text="9007199254740993")
@example(text="18446744073709551616")
@example(text="0.000000000000000000000000000000000000000000000001")
def test_a_double_that_is_taken_is_the_nearest_one_bit_by_bit(text: str) -> None:
    value = one("double", text)
    if value is not MARK:
        assert bits(value) == bits(float(text))


@given(value=st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False))
def test_every_normal_double_is_taken_as_python_writes_it(value: float) -> None:
    assert bits(one("double", repr(value))) == bits(value)


@given(value=st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False, width=32))
def test_every_normal_float_is_taken_as_python_writes_its_double(value: float) -> None:
    assert bits(one("float", repr(value)), "<f") == bits(value, "<f")


@given(text=FLOATS)
@example(text="3.402823364973241e+38")
def test_a_float_that_is_taken_is_the_nearest_one_to_the_text_and_not_to_its_double(text: str) -> None:
    value = one("float", text)
    if value is MARK:
        return
    exact, size = abs(Decimal(text)), Decimal(abs(value))
    above, below = neighbour(abs(value), 1), neighbour(abs(value), -1) if value else 0.0
    assert math.isinf(above) or exact - size <= (Decimal(above) - size) / 2
    assert value == 0 or size - exact <= (size - Decimal(below)) / 2


def neighbour(value: float, step: int) -> float:
    """Returns the float next to a positive one, above it (1) or below it (-1)."""
    [number] = struct.unpack("<I", bits(value, "<f"))
    [found] = struct.unpack("<f", struct.pack("<I", number + step))
    return float(found)


@pytest.mark.parametrize(
    "text", ["", "-", "nan", "inf", "1e", "1e+", ".5", "5.", "01", "1e999", "1_0", "0x1p3", "4.9e-324", "12345678901234567890.5"]
)
def test_what_is_no_plain_double_is_marked(text: str) -> None:
    assert one("double", text) is MARK


def test_a_text_in_the_middle_between_two_floats_is_marked() -> None:
    assert one("float", "16777217") is MARK
    assert one("float", "16777218") == 16777218.0


@given(text=st.one_of(st.dates().map(str), st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", fullmatch=True), SIGNS))
def test_a_date_is_taken_exactly_if_the_calendar_has_it(text: str) -> None:
    try:
        expected = date.fromisoformat(text) if len(text) == 10 else MARK
    except ValueError:
        expected = MARK
    assert one("date", text) == expected


@given(text=MOMENTS)
@example(text="0001-01-01 00:00:00")
@example(text="9999-12-31 23:59:59.999999")
@example(text="2024-02-30 00:00:00")
def test_a_date_time_is_taken_exactly_if_it_exists(text: str) -> None:
    value = one("timestamp_ntz", text)
    if value is not MARK:
        assert value == datetime.fromisoformat(_six_digits(text))
    elif len(text) in (19, 21, 23, 26) and text[10] == " ":
        with pytest.raises(ValueError, match=r".+"):
            datetime.fromisoformat(_six_digits(text))


def _six_digits(text: str) -> str:
    head, point, fraction = text.partition(".")
    return head + (point + fraction.ljust(6, "0") if point else "")


@given(value=st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29)), minutes=st.integers(-18 * 60, 18 * 60))
def test_an_instant_is_taken_with_its_offset(value: datetime, minutes: int) -> None:
    sign, size = ("-" if minutes < 0 else "+"), abs(minutes)
    text = f"{value.isoformat(' ')}{sign}{size // 60:02}:{size % 60:02}"
    assert one("timestamp", text) == datetime.fromisoformat(text)
    assert one("timestamp", f"{value.isoformat(' ')}Z") == datetime.fromisoformat(f"{value.isoformat()}+00:00")


@pytest.mark.parametrize(
    "text", ["2024-01-01 00:00:00", "2024-01-01T00:00:00Z", "2024-01-01 24:00:00Z", "2024-01-01 00:00:60Z", "2024-01-01 00:00:00+19:00"]
)
def test_what_is_no_plain_instant_is_marked(text: str) -> None:
    assert one("timestamp", text) is MARK


@given(
    raw=st.one_of(st.binary(max_size=12), st.text(max_size=12).map(str.encode), st.text(max_size=4).map(lambda text: text.encode("utf-16")))
)
@example(raw=b"\xed\xa0\x80")
@example(raw=b"\xc0\x80")
@example(raw=b"\xf4\x90\x80\x80")
@example(raw=b"\xe2\x82")
def test_a_text_is_taken_exactly_if_it_is_utf8(raw: bytes) -> None:
    try:
        expected: object = raw.decode()
    except UnicodeDecodeError:
        expected = MARK
    assert taken("string", [raw])[0] == expected
    assert taken("binary", [raw])[0] == raw


def test_booleans_are_two_words() -> None:
    assert taken("boolean", [b"true", b"false", b"True", b"1", b"", b"falsy"]) == [True, False, MARK, MARK, MARK, MARK]


def test_a_null_in_a_column_that_has_none_is_marked() -> None:
    batch = Batch(Program.of([Field.of("a", "int"), Field.of("b", "int", nullable=False)]), 2)
    assert batch.decode_texts(np.zeros(0, np.uint8), 2) == 2
    assert batch.marked(2) == [(0, 1), (1, 1)]
    assert batch.cells.state[1, 0] == MARKED
