"""Plain Python reads the text of single values as Spark's expressions do. Goes with the older of the two."""

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa
import pytest
from cdc_ops.formats.feed import values as spark_values
from cdc_ops.formats.feed.format import Reading
from pyspark.sql import Column as Expr
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.schema.tables import Column
from cdc_ops.events import moments, octets, values
from cdc_ops.events.change import arrow_type
from cdc_ops.events.format import UNREADABLE, UNSTORABLE, NoValue, Read
from tests.events.test_values import CASES, column
from tests.plain_events import TOKENS
from tests.plain_formats import _STRANGE

MORE: Final = (
    *("1.0E10", "1.5E3", "-5e-324", "1d", "2F", "inf", "nan", "+NaN", "yes", "N", "\t5\n", "\x005", "5\x7f", "9" * 60, "0." + "1" * 60),
    *("2024-03-10 02:30:00", "2024-11-03 01:30:00.5", "1883-11-18 12:00:00", "0000-01-01 00:00:00", "2024-02-29 12:00:00.123"),
    *("0001-01-01 00:00:00", "9998-12-31 23:59:59.999999", "2024-02-29T12:00:00.100000", "2024-02-29 12:00:00+02", "0a0B", "abc"),
    *("3.4028235677973366e38", "16777217.00000000000001", "16777218.99999999999999", "7.006492321624085e-46", "1.1754943508222875e-38"),
)


_CLOCKS: Final = (pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"))


def _texts() -> tuple[str, ...]:
    found = []
    for token in (*TOKENS, *_STRANGE):
        try:
            value = json.loads(token, parse_float=str, parse_int=str)
        except ValueError:
            continue
        text = value if isinstance(value, str) else token
        if value is not None and text.isprintable() | text.isascii() and "\ud800" not in text:
            found.append(text)
    return tuple(dict.fromkeys((*found, *MORE, *(text for cases in CASES.values() for text in cases))))


TEXTS: Final = _texts()


def _is_wrong_by_spark(value: Any, text: str) -> bool:
    """True for a number that is not the one that was written: the expressions round some, and read digits of other scripts."""
    if not isinstance(value, Decimal | int) or isinstance(value, bool) or text in ("true", "false"):
        return False
    if not text.isascii():
        return True
    exact = Fraction(text.strip("".join(map(chr, (*range(33), 127)))))
    return value not in (exact, exact + 2**64)


def _compared(spark: SparkSession, one: Column, old: Callable[[Expr], Reading], read: Read) -> list[Any]:
    reading = old(F.col("t"))
    lost = F.lit(False) if reading.unstorable is None else F.coalesce(reading.unstorable, F.lit(False))
    frame = spark.createDataFrame([(text,) for text in TEXTS], "t string")
    rows = frame.select("t", reading.value.cast(one.delta_type).alias("v"), lost.alias("lost")).toArrow()
    kind = arrow_type(one.delta_type)
    expected = rows.column("v").cast(kind)
    found = [read(text) for text in TEXTS]
    ours = pa.array([None if isinstance(value, NoValue) else value for value in found], kind)
    wrong = []
    for index, text in enumerate(TEXTS):
        left, right = expected[index], ours[index]
        if kind in _CLOCKS:
            left, right = (None if not one.is_valid else one.value for one in (left, right))
        state = UNSTORABLE if rows.column("lost")[index].as_py() else UNREADABLE if not expected[index].is_valid else None
        if _is_wrong_by_spark(expected[index].as_py() if kind not in _CLOCKS else None, text):
            assert found[index] is UNREADABLE
        elif (repr(left), state) != (repr(right), found[index] if isinstance(found[index], NoValue) else None):
            wrong.append((one.source_type, text, left, state, found[index]))
    return wrong


TYPES: Final = (
    *((*case, "") for case in CASES if case != ("bigint unsigned", "bigint")),
    *(
        ("smallint unsigned", "", ""),
        ("mediumint", "", ""),
        ("year", "", ""),
        ("bit(1)", "", ""),
        ("bit(10)", "", ""),
        ("decimal(38,0)", "", ""),
    ),
    *(("time", "", ""), ("time(6)", "", ""), ("datetime(3)", "string", ""), ("date", "string", ""), ("json", "", "")),
    *(
        ("time without time zone", "", ""),
        ("timestamp without time zone", "string", ""),
        ("timestamp(3) with time zone", "string", "-03:30"),
    ),
    *(("timestamp(6)", kind, zone) for kind in ("", "string") for zone in ("", "+08:00", "-03:30", "America/New_York", "Asia/Shanghai")),
)


@pytest.mark.parametrize(("declared", "delta_type", "zone"), TYPES)
def test_texts_are_read_alike(spark: SparkSession, declared: str, delta_type: str, zone: str) -> None:
    one = column(declared, delta_type)
    assert _compared(spark, one, lambda text: spark_values.from_text(one, text, zone), values.from_text(one, zone)) == []


def test_bytes_and_instants_with_an_offset_are_read_alike(spark: SparkSession) -> None:
    for declared in ("varbinary(20)", "binary(4)"):
        one = column(declared)
        assert _compared(spark, one, lambda text: spark_values.base64(one, text), octets.base64(one)) == []  # noqa: B023
        assert _compared(spark, one, lambda text: spark_values.hexadecimal(one, text), octets.hexadecimal(one)) == []  # noqa: B023
    assert _compared(spark, column("timestamp(6)"), spark_values.zoned_instant, moments.zoned_instant) == []


def test_narrow_columns_take_what_they_hold(spark: SparkSession) -> None:
    one = column("bigint unsigned", "bigint")

    def read(text: str) -> Any:
        try:
            return values.from_text(one, "")(text)
        except values.ValueTooLargeError:
            return UNREADABLE

    def old(text: Expr) -> Reading:
        wide = spark_values.unsigned_bigint(column("bigint unsigned", "decimal(20,0)"), text).value
        return Reading(value=wide.try_cast("bigint"))

    assert _compared(spark, one, old, read) == []


def test_numbers_become_the_same_texts(spark: SparkSession) -> None:
    numbers = (
        0,
        1,
        -1,
        999_999,
        1_500_000,
        -3020399000000,
        3020399000000,
        86399999999,
        1709208000123456,
        -62135596800000000,
        253402300800000000,
    )
    frame = spark.createDataFrame([(number,) for number in numbers], "m bigint")
    for declared in ("time", "time(3)", "time(6)", "time without time zone"):
        one = column(declared)
        found = frame.select(spark_values.time_of_micros(one, F.col("m"))).toPandas().iloc[:, 0].tolist()
        assert found == [moments.time_of_micros(one)(number) for number in numbers]
    for declared in ("datetime", "datetime(3)", "timestamp with time zone"):
        one = column(declared, "string")
        found = frame.select(spark_values.moment_of_micros(one, F.col("m"))).toPandas().iloc[:, 0].tolist()
        assert found == [moments.moment_of_micros(one)(number) for number in numbers]


def test_bytes_become_the_same_numbers(spark: SparkSession) -> None:
    sizes = (
        b"",
        b"\0",
        b"\x04\xd2",
        b"\xff",
        b"\x80",
        b"\xff" * 8,
        b"\x7f" + b"\xff" * 8,
        b"\x80" + bytes(15),
        b"\x4b" + b"\xff" * 15,
        bytes(17),
    )
    sizes += tuple(number.to_bytes(16, "big", signed=True) for number in (10**38 - 1, 10**38, 1 - 10**38, -(10**38)))
    for scale in (0, 2, 9, -2):
        frame = spark.createDataFrame([(bytearray(size),) for size in sizes], "b binary")
        text = spark_values.with_point(spark_values.big_number(F.col("b")), F.lit(scale))
        assert [row[0] for row in frame.select(text).collect()] == [octets.scaled_bytes(size, scale) for size in sizes]
    assert [row[0] for row in frame.select(spark_values.little_endian(F.col("b"))).collect()] == [
        octets.little_endian(size) for size in sizes
    ]
