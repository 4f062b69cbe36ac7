"""Texts become stored values exactly, or not at all."""

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdc_ops.core.schema.server_types.mysql_types import mysql_mapping
from cdc_ops.core.schema.server_types.postgres_types import postgres_mapping
from cdc_ops.core.schema.server_types.unsigned_bigints import too_large_column, widened
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion import moments, octets, values
from cdc_ops.events.format import UNREADABLE, UNSTORABLE
from cdc_ops.events.images import of_64_bits

DAY = 86_400_000_000


def column(declared: str, delta_type: str = "") -> Column:
    """A column of MySQL, or of Postgres where MySQL has no such type."""
    mapping = mysql_mapping(declared) or postgres_mapping(declared)
    assert mapping is not None
    return Column(name="größe", source_type=declared, delta_type=delta_type or mapping.delta_type, nullable=True, expression="")


def micros(text: str) -> int:
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1)) // timedelta(microseconds=1)


CASES: dict[tuple[str, str], dict[str, Any]] = {
    ("int", ""): {
        **dict.fromkeys(("5", "+5", " 5", "5 ", "\t5\n", "\x005", "5\x7f", "0005"), 5),
        **{"-0": 0, "true": 1, "false": 0, "2147483647": 2147483647, "-2147483648": -2147483648},
        **dict.fromkeys(("2147483648", "", "-", "5.0", "5.", "1e3", "٣", "1_0", "0x1", "\xa05", " true", "9" * 5000), UNREADABLE),
    },
    ("tinyint", ""): {"127": 127, "-128": -128, "128": UNREADABLE},
    ("bigint", "decimal(20,0)"): {"-5": Decimal(-5), "true": Decimal(1), "9223372036854775808": UNREADABLE},
    ("bit(64)", ""): {"18446744073709551615": Decimal(2**64 - 1), "true": Decimal(1), "1.5": UNREADABLE},
    ("bigint unsigned", "decimal(20,0)"): {
        **{"-1": Decimal(2**64 - 1), "9223372036854775808": Decimal(2**63), "7": Decimal(7), "1e3": Decimal(1000), " 7": Decimal(7)},
        **dict.fromkeys(("18446744073709551616", "-18446744073709551617", "true", "1.5", "", "x"), UNREADABLE),
    },
    ("bigint unsigned", "bigint"): {"9223372036854775807": 2**63 - 1, "0": 0, "18446744073709551616": UNREADABLE},
    ("decimal(10,2)", ""): {
        **{"12.5": Decimal("12.50"), "-0.00": Decimal("0.00"), "12.5000": Decimal("12.50"), ".5": Decimal("0.50"), "5.": Decimal("5.00")},
        **{"1e3": Decimal("1000.00"), "1.25E+1": Decimal("12.50"), "1e-2": Decimal("0.01"), " 1e2 ": Decimal("100.00")},
        **{"+012.50": Decimal("12.50"), "99999999.99": Decimal("99999999.99")},
        **dict.fromkeys(("12.505", "100000000", "1e400", "1e-3", "1e-400", "1e", "NaN", "", ".", "-", " 5.00", "1,5", "1_0"), UNREADABLE),
    },
    ("decimal(38,6)", ""): {
        "12345678901234567890123456789012.123456": Decimal("12345678901234567890123456789012.123456"),
        "100000000000000000000000000000000": UNREADABLE,
    },
    ("double", ""): {
        **{"0.1": 0.1, "1e400": UNREADABLE, "-Infinity": -math.inf, "inf": math.inf, "1d": 1.0, "1.5F": 1.5, " 1 ": 1.0, "0x1.8p1": 3.0},
        **{"5e-324": 5e-324, "-0.0": -0.0},
        **dict.fromkeys(("-nan", "1_0", "1e", "1dd", "\uff11", "\xa01", "", "x"), UNREADABLE),
    },
    ("float", ""): {
        **{"0.1": 0.10000000149011612, "16777217": 16777216.0, "1e39": UNREADABLE, "0.5": 0.5},
        # Half way between two numbers of 32 bits, and a little above and below: as numbers of 64 bits they are all the same.
        **{"16777217.0": 16777216.0, "16777217.00000000000001": 16777218.0, "16777219": 16777220.0, "16777218.99999999999999": 16777218.0},
        **{"3.4028235677973366e38": 3.4028234663852886e38, "3.4028236e38": UNREADABLE, "1.401298464324817e-45": 1.401298464324817e-45},
    },
    ("boolean", ""): {
        **dict.fromkeys(("true", "t", "Yes", "y", "1", " TRUE "), True),
        **dict.fromkeys(("false", "f", "no", "N", "0"), False),
        **dict.fromkeys(("on", "2", "", "01"), UNREADABLE),
    },
    ("date", ""): {
        **{"1970-01-01": 0, "2024-02-29": date(2024, 2, 29).toordinal() - 719163, "0001-01-01": -719162, "9999-12-31": 2932896},
        **{"0000-12-31": -719163, "0000-02-29": -719469, "0000-00-00": UNSTORABLE, "2023-02-29": UNSTORABLE, "2024-13-01": UNSTORABLE},
        **dict.fromkeys(("2024-2-29", "20240229", "2024-02-29 ", "2024-02-29T00:00:00", "10000-01-01", ""), UNREADABLE),
    },
    ("datetime(6)", ""): {
        **{text: micros(text) for text in ("2024-02-29 12:00:00.123456", "1969-12-31T23:59:59.5", "0001-01-01 00:00:00")},
        **dict.fromkeys(("2024-02-30 00:00:00", "2024-01-01 24:00:00", "2024-01-01 00:00:60", "0000-00-00 00:00:00"), UNSTORABLE),
        **{"0000-12-31 00:00:00": -719163 * DAY, "2024-01-01": UNREADABLE, "2024-01-01 00:00": UNREADABLE},
    },
    ("time(3)", ""): {
        **{"1:02:03.004": "01:02:03.004", "-838:59:59": "-838:59:59.000", "12:34:56.7890": "12:34:56.789", "99:99:99": "99:99:99.000"},
        **dict.fromkeys(("1234:00:00", "12:34:5", "12:34", ""), UNREADABLE),
    },
    ("text", ""): {" a ": " a ", "": ""},
    ("character(4)", ""): {"ab  ": "ab", " b": " b", "a\t ": "a\t"},
}


@pytest.mark.parametrize(("declared", "delta_type"), CASES)
def test_texts_become_stored_values_exactly_or_not_at_all(declared: str, delta_type: str) -> None:
    read = values.from_text(column(declared, delta_type), "")
    found = {text: read(text) for text in CASES[declared, delta_type]}
    assert {text: repr(value) for text, value in found.items()} == {
        text: repr(value) for text, value in CASES[declared, delta_type].items()
    }


def test_a_value_that_its_narrow_column_does_not_hold_names_the_column() -> None:
    read = values.unsigned_bigint(column("bigint unsigned", "bigint"))
    for text in ("9223372036854775808", "-1", "1e19"):
        with pytest.raises(values.ValueTooLargeError) as failure:
            read(text)
        assert too_large_column(str(failure.value)) == "größe"


@pytest.mark.parametrize(
    ("zone", "text", "expected"),
    [
        ("UTC", "2024-02-29 12:00:00", "2024-02-29 12:00:00"),
        ("+08:00", "2024-02-29 12:00:00.5", "2024-02-29 04:00:00.5"),
        ("-03:30", "2024-02-29T12:00:00", "2024-02-29 15:30:00"),
        ("America/New_York", "2024-03-10 02:30:00", "2024-03-10 07:30:00"),  # skipped
        ("America/New_York", "2024-11-03 01:30:00", "2024-11-03 05:30:00"),  # shown twice
        ("Asia/Shanghai", "1900-01-01 00:00:00", "1899-12-31 15:54:17"),
        ("America/New_York", "9998-07-01 00:00:00", "9998-07-01 04:00:00"),
        ("Australia/Lord_Howe", "2024-10-06 02:15:00", "2024-10-05 15:45:00"),
        ("Pacific/Apia", "2011-12-30 12:00:00", "2011-12-30 22:00:00"),
    ],
)
def test_instants_are_local_times_of_a_zone(zone: str, text: str, expected: str) -> None:
    assert moments.instant(zone)(text) == micros(expected)


def test_instants_with_an_offset_are_read_whatever_their_year_is() -> None:
    read = moments.zoned_instant
    assert read("2024-02-29T12:00:00+02:00") == read("2024-02-29 12:00:00+0200") == read("2024-02-29 10:00:00Z")
    assert read("2024-02-29T12:00:00.123456999Z") == micros("2024-02-29 12:00:00.123456")
    assert read("10000-01-01T00:00:00Z") == 253402300800000000
    assert read("294247-01-10T04:00:54Z") == 9223372036854000000
    for text in (
        "294247-01-10T04:00:55Z",
        "2024-02-30T00:00:00Z",
        "2024-02-29T12:00:00+18:30",
        "2024-02-29T24:00:00Z",
        "2024-02-29T12:00:00",
    ):
        assert read(text) is UNREADABLE


def test_moments_are_printed_as_the_source_does() -> None:
    assert moments.moment_text(column("datetime(3)", "string"))(1_500_000) == "1970-01-01 00:00:01.500"
    assert moments.moment_text(column("timestamp without time zone", "string"))(1_500_000) == "1970-01-01 00:00:01.5"
    assert moments.moment_text(column("datetime", "string"))(253402300800000000) == "+10000-01-01 00:00:00"
    assert moments.moment_text(column("datetime", "string"))(-719528 * DAY - 1) == "-0001-12-31 23:59:59"
    assert moments.printed_moment(column("datetime(3)", "string"))("2024-01-01 00:00:00.5") == "2024-01-01 00:00:00.500"
    assert moments.printed_moment(column("date", "string"))("2024-01-01 00:00:00.5") == "2024-01-01 00:00:00.5"
    kept = moments.kept_moment(column("timestamp with time zone", "string"), "+08:00")
    assert [kept(text) for text in ("2024-01-01 08:00:00.50", "infinity")] == ["2024-01-01 00:00:00.5+00", "infinity"]
    assert moments.time_of_micros(column("time(3)"))(-3020399000000) == "-838:59:59.000"
    assert moments.moment_of_micros(column("date"))(-1) == -1
    assert moments.moment_of_micros(column("datetime(6)"))(-1) == -1


def test_bytes_are_read_from_their_texts() -> None:
    plain, four = octets.base64(column("varbinary(20)")), octets.base64(column("binary(4)"))
    assert {text: plain(text) for text in ("AQI=", "AQI", "AQJ=", "YW Jj", "YWJj\r\n", "")} == {
        **dict.fromkeys(("AQI=", "AQI", "AQJ="), b"\1\2"),
        **{"YW Jj": b"abc", "YWJj\r\n": b"abc", "": b""},
    }
    for text in ("AQ=", "A", "A===", "=AAA", "AQ=A", "AQ==\n", "AAAA=", "YW-_", "é", "AQ==AQ=="):
        assert plain(text) is four(text) is UNREADABLE
    assert (four("AQI="), four("AQIDBAU=")) == (b"\1\2\0\0", b"\1\2\3\4\5")
    digits = octets.hexadecimal(column("varbinary(20)"))
    assert [digits(text) for text in ("0aFF", "abc", "", "0x0a", " 0a")] == [b"\x0a\xff", b"\x0a\xbc", b"", UNREADABLE, UNREADABLE]


def test_bytes_are_numbers() -> None:
    assert [octets.scaled_bytes(*given) for given in ((b"\x04\xd2", 2), (b"\xff", 0), (b"\xff", 2), (b"", 0), (b"\x0c", -2))] == [
        *("12.34", "-1", "-0.01", "0", "1200"),
    ]
    largest = 10**38 - 1
    assert octets.big_number(largest.to_bytes(16, "big")) == str(largest)
    assert octets.big_number((-largest).to_bytes(16, "big", signed=True)) == str(-largest)
    assert octets.big_number((largest + 1).to_bytes(16, "big")) is octets.big_number(bytes(17)) is None
    assert [octets.little_endian(value) for value in (b"\1\2", b"\xff" * 8, b"", bytes(9))] == ["513", str(2**64 - 1), None, None]


def test_every_stored_value_is_one_of_its_arrow_type() -> None:
    assert pa.array([values.integer(column("bit(64)"))("true")], pa.decimal128(20, 0)).to_pylist() == [Decimal(1)]
    for declared, expected in (("bigint unsigned", pa.decimal128(20, 0)), ("decimal(10,2)", pa.decimal128(10, 2))):
        read = values.from_text(widened((column(declared),))[0], "")
        assert pa.array([read("7")], expected).to_pylist() == [Decimal(7)]


SMALLEST_FLOATS = [
    *("1.4E-45", "2.8E-45", "4.2E-45", "5.6E-45", "7.0E-45", "8.4E-45", "9.8E-45", "1.1E-44", "1.3E-44", "1.4E-44"),
    *("1.5E-44", "1.7E-44", "1.8E-44", "2.0E-44", "2.1E-44", "2.2E-44", "2.4E-44", "2.5E-44", "2.7E-44", "2.8E-44"),
    *("2.9E-44", "3.1E-44", "3.2E-44", "3.4E-44", "3.5E-44", "3.6E-44", "3.8E-44", "3.9E-44", "4.1E-44", "4.2E-44"),
]
SMALLEST_DOUBLES = [
    *("4.9E-324", "9.9E-324", "1.5E-323", "2.0E-323", "2.5E-323", "3.0E-323", "3.5E-323", "4.0E-323", "4.4E-323", "4.9E-323"),
    *("5.4E-323", "5.9E-323", "6.4E-323", "6.9E-323", "7.4E-323", "7.9E-323", "8.4E-323", "8.9E-323", "9.4E-323", "9.9E-323"),
]
"""The first multiples of the smallest numbers, as Java 17 prints them; but 2.2E-44, 9.9E-324 and 9.9E-323, which it prints as 2.24E-44,
1.0E-323 and 1.0E-322: with a digit too many, or not the nearest two (Java 19 does: JDK-4511638)."""


def test_the_smallest_numbers_are_printed_as_java_prints_them() -> None:
    floats = [np.uint32(bits).view(np.float32) for bits in range(1, len(SMALLEST_FLOATS) + 1)]
    doubles = [float(np.uint64(bits).view(np.float64)) for bits in range(1, len(SMALLEST_DOUBLES) + 1)]
    assert [of_64_bits(float(one), str(one)) for one in floats] == SMALLEST_FLOATS
    assert [of_64_bits(-float(one), str(-one)) for one in floats] == [f"-{text}" for text in SMALLEST_FLOATS]
    assert [of_64_bits(one) for one in doubles] == SMALLEST_DOUBLES
    assert [np.float32(text) for text in SMALLEST_FLOATS] == floats
    assert [float(text) for text in SMALLEST_DOUBLES] == doubles
