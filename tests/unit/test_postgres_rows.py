"""Rows of Postgres' binary COPY: every type, cut anywhere, and what is no row."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_ops.decode.program import Field, Program
from cdc_ops.decode.wire.postgres_rows import BLOCK, PostgresRows, fill_from, numeric_value

HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"


def numeric(text: str, dscale: int | None = None) -> bytes:
    """Encodes a numeric as the server does: groups of four digits, without those that are zeros at either end."""
    value = Decimal(text)
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = "".join(map(str, digits)).rjust(-exponent, "0")
    whole, fraction = (number + "0" * exponent, "") if exponent >= 0 else (number[:exponent], number[exponent:])
    whole, padded = whole.rjust(-(-len(whole) // 4) * 4, "0"), fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int((whole + padded)[at : at + 4]) for at in range(0, len(whole + padded), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups, weight = groups[1:], weight - 1
    while groups and groups[-1] == 0:
        groups = groups[:-1]
    weight = weight if groups else 0
    scale = len(fraction) if dscale is None else dscale
    return struct.pack(f">HhHH{len(groups)}H", len(groups), weight, 0x4000 if sign and groups else 0, scale, *groups)


def row(*fields: bytes | None) -> bytes:
    parts = [struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field for field in fields]
    return struct.pack(">h", len(fields)) + b"".join(parts)


def read(
    kinds: Sequence[str], rows: Iterable[bytes], *, forms: Sequence[str] = (), cut: int = 1 << 30, end: bytes = END, block: int = BLOCK
) -> list[tuple[Any, ...]]:
    data = HEAD + b"".join(rows) + end
    blocks = (data[at : at + cut] for at in range(0, len(data), cut))
    program = Program.of(Field.of(f"c{number}", kind) for number, kind in enumerate(kinds))
    batches = list(PostgresRows(program, tuple(forms) or ("",) * len(kinds), fill_from(blocks), block))
    return [tuple(one.values()) for one in pa.Table.from_batches(batches, program.arrow).to_pylist()]


KINDS = ("boolean", "smallint", "int", "bigint", "float", "double", "decimal(12,2)", "decimal(38,10)", "string", "binary")
VALUES = (True, -7, 2**31 - 1, -(2**63), 0.5, -0.1, Decimal("-1234567890.05"), Decimal("0.0000000001"), "é漢😀", b"\0\xff")
FIELDS = (
    *(
        b"\1",
        struct.pack(">h", -7),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">q", -(2**63)),
        struct.pack(">f", 0.5),
        struct.pack(">d", -0.1),
    ),
    *(numeric("-1234567890.05"), numeric("0.0000000001"), "é漢😀".encode(), b"\0\xff"),
)


@pytest.mark.parametrize("cut", [1, 7, 100, 1 << 30])
def test_every_type_arrives_as_it_was_sent_wherever_the_blocks_are_cut(cut: int) -> None:
    nulls = (None,) * len(KINDS)
    assert read(KINDS, [row(*FIELDS), row(*nulls), row(*FIELDS)], cut=cut, block=16) == [VALUES, nulls, VALUES]


def test_more_rows_than_a_batch_has_and_none_at_all() -> None:
    rows = 40_000
    found = read(("int",), (row(struct.pack(">i", number)) for number in range(rows)))
    assert found == [(number,) for number in range(rows)]
    assert read(("int",), ()) == []


def test_a_row_that_is_larger_than_a_block_arrives() -> None:
    long = "x" * 100_000
    assert read(("string", "int"), [row(long.encode(), struct.pack(">i", 5))] * 2, cut=333) == [(long, 5)] * 2


def test_days_and_microseconds_are_counted_from_1970_and_infinities_are_marks() -> None:
    days = [(0, 10957), (-10957, 0), (2**31 - 1, -2147483647), (-(2**31), -2147483647)]
    micros = [(0, 946684800000000), (2**63 - 1, -9223372036854775807), (-(2**63), -9223372036854775807)]
    micros += [(9222424560000000000 - 1, 9223371244799999999), (9222424560000000000, -9223372036854775807)]
    assert read(("int",), [row(struct.pack(">i", sent)) for sent, _ in days], forms=("days",)) == [(value,) for _, value in days]
    assert read(("bigint",), [row(struct.pack(">q", sent)) for sent, _ in micros], forms=("micros",)) == [(value,) for _, value in micros]


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    def value(number: int) -> Decimal:
        return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))

    return st.integers(-(10**precision) + 1, 10**precision - 1).map(value)


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from([(1, 0), (4, 4), (12, 2), (19, 3), (20, 0), (38, 0), (38, 10), (38, 37)]).flatmap(
        lambda kind: st.tuples(st.just(kind), st.lists(decimals(*kind), min_size=1, max_size=20))
    )
)
def test_decimals_are_those_that_were_sent(sent: tuple[tuple[int, int], list[Decimal]]) -> None:
    (precision, scale), values = sent
    found = read((f"decimal({precision},{scale})",), [row(numeric(f"{value:f}")) for value in values])
    assert [value for (value,) in found] == values
    assert [numeric_value(numeric(f"{value:f}")) for value in values] == values


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("decimal(4,2)", numeric("100.00")),  # too large
        ("decimal(4,2)", numeric("1.005")),
        ("decimal(4,2)", struct.pack(">HhHH", 0, 0, 0xC000, 0)),  # NaN
        ("decimal(4,2)", struct.pack(">HhHHH", 1, 0, 0, 0, 10_000)),
        ("decimal(4,2)", b"\0\1"),
        ("string", b"\xff"),
        ("string", b"\xed\xa0\x80"),
        ("int", b"\0\0"),
        ("boolean", b""),
    ],
)
def test_bytes_that_are_no_value_of_their_column_are_refused(kind: str, field: bytes) -> None:
    with pytest.raises((ValueError, ArithmeticError)):
        read((kind,), [row(field)])


def test_what_is_no_copy_or_ends_early_is_refused() -> None:
    good = row(struct.pack(">i", 1))
    with pytest.raises(ConnectionError, match="in the middle"):
        read(("int",), [good], end=b"")
    with pytest.raises(ConnectionError, match="in the middle"):
        read(("int",), [good, good[:-1]], end=b"")
    with pytest.raises(ConnectionError, match="no row"):
        read(("int", "int"), [good])
    with pytest.raises(ConnectionError, match="no row"):
        read(("int",), [struct.pack(">hi", 1, -5)])
    with pytest.raises(ConnectionError, match="more behind the last row"):
        read(("int",), [good], end=END + good)
    with pytest.raises(ConnectionError, match="no binary COPY"):
        list(PostgresRows(Program.of([Field.of("c", "int")]), ("",), fill_from([b"x" * 40])))


def test_a_copy_with_flags_that_change_its_rows_is_refused() -> None:
    data = [HEAD + row(struct.pack(">i", 1)) + END]
    program = Program.of([Field.of("c", "int")])
    assert len(list(PostgresRows(program, ("",), fill_from(data)))) == 1
    for place in range(len(HEAD) - 8, len(HEAD)):  # flags, and the length of what would follow them
        changed = bytearray(data[0])
        changed[place] = 1
        with pytest.raises(ConnectionError, match="no binary COPY"):
            list(PostgresRows(program, ("",), fill_from([changed])))


def test_bytes_that_come_later_than_the_mark_behind_the_last_row_are_refused_too() -> None:
    def filled(view: np.ndarray[Any, Any]) -> int:
        part = parts.pop(0) if parts else b""
        view[: len(part)] = np.frombuffer(part, np.uint8)
        return len(part)

    parts = [HEAD + row(struct.pack(">i", 1)) + END, b"x"]
    with pytest.raises(ConnectionError, match="more behind the last row"):
        list(PostgresRows(Program.of([Field.of("c", "int")]), ("",), filled))


@settings(deadline=None, max_examples=200)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.sampled_from(KINDS))
def test_no_bytes_crash_or_hang(parts: list[bytes], kind: str) -> None:
    def sent() -> Iterator[bytes]:
        yield HEAD
        yield from parts

    try:
        found = list(PostgresRows(Program.of([Field.of("c", kind)]), ("",), fill_from(sent())))
    except (ConnectionError, ValueError, ArithmeticError):
        return
    assert all(isinstance(batch, pa.RecordBatch) for batch in found)
