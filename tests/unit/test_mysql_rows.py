"""Rows of MySQL's text protocol become record batches, however the bytes arrive and however large they are; anything else is an error."""

import random
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core.schema.server_types.mysql_types import UNSTORABLE_DAY, UNSTORABLE_MICROS
from cdc_ops.decode.wire.columns import WireColumn
from cdc_ops.decode.wire.mysql_rows import MySQLRows
from cdc_ops.sources.mysql.wire_dates import day_number, instant_micros, wall_clock_micros

END = b"\xfe\x00\x00\x02\x00"
COLUMNS = (
    WireColumn(name="c1", carried="bigint"),
    WireColumn(name="c2", carried="string"),
    WireColumn(name="c3", carried="decimal(12,2)"),
    WireColumn(name="c4", carried="int", read="date", offset=719528, exact=day_number),
    WireColumn(name="c5", carried="bigint", read="timestamp_ntz", exact=wall_clock_micros),
)
Row = tuple[bytes | None, ...]
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1).map(lambda value: str(value).encode()),
        st.none() | st.text(max_size=300).map(str.encode),
        st.none() | st.integers(-(10**12) + 1, 10**12 - 1).map(lambda value: f"{Decimal(value).scaleb(-2):f}".encode()),
        st.none()
        | st.dates().map(lambda value: value.isoformat().encode())
        | st.sampled_from((b"0000-00-00", b"2024-02-31", b"0000-03-01")),
        st.none() | st.datetimes().map(lambda value: value.isoformat(" ").encode()) | st.just(b"2024-00-15 01:02:03.004"),
    ),
    max_size=10,
)


def length(size: int) -> bytes:
    if size < 251:
        return bytes([size])
    return (
        b"\xfc" + size.to_bytes(2, "little")
        if size < 1 << 16
        else b"\xfd" + size.to_bytes(3, "little")
        if size < 1 << 24
        else (b"\xfe" + size.to_bytes(8, "little"))
    )


def payload(row: Row) -> bytes:
    return b"".join(b"\xfb" if text is None else length(len(text)) + text for text in row)


def packets(payloads: list[bytes], number: int = 7) -> bytes:
    """Cuts payloads into packets as a server does, beginning with a number."""
    out = []
    for one in payloads:
        parts = [one[at : at + 0xFFFFFF] for at in range(0, len(one) + 1, 0xFFFFFF)]
        for part in parts:
            out.append(len(part).to_bytes(3, "little") + bytes([number & 255]) + part)
            number += 1
    return b"".join(out)


def arriving(data: bytes, seed: int = 1) -> Callable[[memoryview], int]:
    """Returns what reads the bytes in pieces of any size, and then finds the connection closed."""
    at, some = 0, random.Random(seed)

    def fill(view: memoryview) -> int:
        nonlocal at
        size = min(len(view), len(data) - at, some.choice((1, 3, 100, 5000, 1 << 22)))
        view[:size] = data[at : at + size]
        at += size
        return size

    return fill


def refuse(packet: bytes) -> None:
    raise PermissionError(packet)


def read(data: bytes, columns: tuple[WireColumn, ...] = COLUMNS, seed: int = 1, block: int = 64) -> list[tuple[Any, ...]]:
    rows = []
    for batch in MySQLRows(columns, arriving(data, seed), 7, refuse, block):
        batch.validate(full=True)
        rows += [tuple(row.values()) for row in batch.to_pylist()]
    return rows


def expected(row: Row) -> tuple[Any, ...]:
    number, text, amount, day, moment = row
    return (
        None if number is None else int(number),
        None if text is None else text.decode(),
        None if amount is None else Decimal(amount.decode()),
        None if day is None else day_number(day),
        None if moment is None else wall_clock_micros(moment),
    )


@given(rows=ROWS, seed=st.integers(0, 99), block=st.sampled_from((64, 1000, 1 << 20)))
def test_rows_arrive_as_they_were_sent_however_the_bytes_are_cut(rows: list[Row], seed: int, block: int) -> None:
    data = packets([*map(payload, rows), END])
    assert read(data, seed=seed, block=block) == [expected(row) for row in rows]


@given(rows=ROWS, cut=st.integers(0, 10_000))
def test_a_connection_that_ends_before_the_rows_do_is_an_error_wherever_it_ends(rows: list[Row], cut: int) -> None:
    data = packets([*map(payload, rows), END])
    with pytest.raises(ConnectionError, match="closed the connection"):
        read(data[: cut % len(data)])


@given(rows=ROWS, data=st.data())
def test_bytes_that_are_no_rows_are_an_error_or_rows_and_never_something_else(rows: list[Row], data: st.DataObject) -> None:
    raw = bytearray(packets([*map(payload, rows), END]))
    for place in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=4)):
        raw[place] = data.draw(st.integers(0, 255))
    try:
        found = read(bytes(raw))
    except (ConnectionError, PermissionError, ValueError, ArithmeticError):
        return
    assert all(len(row) == len(COLUMNS) for row in found)


@given(noise=st.binary(max_size=400))
def test_noise_never_does_more_than_fail(noise: bytes) -> None:
    try:
        found = read(noise)
    except (ConnectionError, PermissionError, ValueError, ArithmeticError):
        return
    assert found == []  # it happens to be an end


@pytest.mark.parametrize("size", [0xFFFFFF - 6, 0xFFFFFF - 5, 0xFFFFFF - 4, 0xFFFFFF, 2 * 0xFFFFFF - 5, 64 << 20])
def test_a_row_of_several_packets_is_one_row_and_keeps_its_place(size: int) -> None:
    columns = (WireColumn(name="c1", carried="int"), WireColumn(name="c2", carried="binary"))
    value = random.Random(size).randbytes(1000) * (size // 1000) + b"x" * (size % 1000)
    data = packets([payload((b"1", b"before")), payload((b"2", value)), payload((b"3", b"after")), END])
    found = read(data, columns, block=1 << 20)
    assert [row[0] for row in found] == [1, 2, 3]
    assert found[1][1] == value
    assert (found[0][1], found[2][1]) == (b"before", b"after")


def test_an_error_of_the_server_in_the_middle_is_its_error_and_not_an_end() -> None:
    data = packets([payload((b"1", b"a", b"1.00", None, None)), b"\xff\x28\x04#70100Query execution was interrupted"])
    with pytest.raises(PermissionError) as failure:
        read(data)
    assert b"interrupted" in failure.value.args[0]


def test_an_error_without_a_number_is_seen_too_as_mariadb_sends_it_when_it_shuts_down() -> None:
    data = packets([payload((b"1", b"a", b"1.00", None, None))]) + packets([b"\xff\x1d\x04#08S01Server shutdown"], number=0)
    with pytest.raises(PermissionError):
        read(data)


def test_a_packet_that_was_left_out_is_an_error() -> None:
    row = payload((b"1", b"a", b"1.00", None, None))
    with pytest.raises(ConnectionError, match="no row"):
        read(packets([row], number=7) + packets([row, END], number=9))


def test_numbers_with_zeros_before_them_and_texts_that_are_not_utf8_go_the_exact_way() -> None:
    assert read(packets([payload((b"0000000042", b"a", b"00012.50", None, None)), END]))[0][:3] == (42, "a", Decimal("12.50"))
    with pytest.raises(ValueError, match="utf-8"):
        read(packets([payload((b"1", b"\xff", b"1.00", None, None)), END]))
    with pytest.raises(OverflowError):
        read(packets([payload((b"9223372036854775808", b"a", b"1.00", None, None)), END]))


@given(day=st.dates())
def test_days_are_counted_as_by_the_servers_calendar(day: date) -> None:
    assert day_number(day.isoformat().encode()) == (day - date(1970, 1, 1)).days + 719528


def test_the_year_0_has_365_days_and_dates_that_do_not_exist_have_their_mark() -> None:
    first = date(1, 1, 1)
    year = [b"0000" + (first + timedelta(days=number)).isoformat()[4:].encode() for number in range(365)]
    assert [day_number(day) for day in year] == list(range(1, 366))
    assert day_number(b"0001-01-01") == 366
    for day in (b"0000-00-00", b"0000-02-29", b"2023-02-29", b"2024-02-30", b"2024-04-31", b"2024-00-15", b"2024-05-00"):
        assert day_number(day) == UNSTORABLE_DAY
        assert wall_clock_micros(day + b" 12:00:00") == -UNSTORABLE_MICROS
    assert instant_micros(b"0000-00-00 00:00:00.000000") == 0
    assert instant_micros(b"1970-01-01 00:00:01.5") == 1_500_000
    for text in (b"", b"2024-1-1", b"24-01-01", b"2024-01-01T00:00:00"):
        with pytest.raises(ValueError, match="no date"):
            day_number(text)
