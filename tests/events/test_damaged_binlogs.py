"""Binlogs with changed bytes under right checksums: kernels read a row as the reference decoder does, or leave it to it."""

import random
import struct
from collections import Counter
from pathlib import Path

import pytest

from cdc_ops.core.binlog.events import EventType
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from tests.binlog_files import UTF8MB4, BinlogWriter
from tests.events.both_decoders import BothDecoders
from tests.fast_binlogs import with_changed_bytes

COLUMNS = {
    "id": ("bigint unsigned", "bigint"),
    "name": ("varchar(20)", "string"),
    "d": ("datetime(2)", "timestamp_ntz"),
    "n": ("decimal(6,2)", "decimal(6,2)"),
    "e": ("enum('a','b')", "string"),
    "b": ("binary(4)", "binary"),
}
SCHEMA = TableSchema(
    table=TableName(schema="shop", name="items"),
    columns=tuple(
        Column(name=name, source_type=declared, delta_type=stored, nullable=name != "id", expression=f"`{name}`")
        for name, (declared, stored) in COLUMNS.items()
    ),
    primary_key=("id",),
)
OF_2024 = 0x8000000000 + ((2024 * 13 + 2) << 22 | 5 << 17)


def described() -> bytes:
    """A description of the table with all its metadata."""
    types, numbers = bytes((8, 15, 18, 246, 254, 254)), struct.pack("<H", 80) + b"\2" + b"\6\2" + b"\xf7\1" + b"\xfe\4"
    body = struct.pack("<IHH", 7, 0, 1) + b"\4shop\0\5items\0" + bytes((6,)) + types + bytes((len(numbers),)) + numbers + bytes((0b111110,))
    names = b"".join(bytes((len(name),)) + name.encode() for name in COLUMNS)
    text, binary = UTF8MB4, 63
    more = bytes((1, 1, 0x80)) + bytes((2, 3, text, 1, binary)) + bytes((4, len(names))) + names
    return body + more + bytes((6, 5)) + b"\2\1a\1b" + bytes((10, 1, text)) + bytes((8, 1, 0))


def row(number: int, chance: random.Random) -> bytes:
    """A row of the table; some of its values are not plain: labels that do not exist, bytes whose zeros were cut off."""
    nulls = chance.choice((0, 0, 2, 4, 8, 16, 32, 62))
    name = f"n{number}".encode()
    values = (
        struct.pack("<Q", number),
        bytes((len(name),)) + name,
        OF_2024.to_bytes(5, "big") + bytes((chance.randrange(100),)),
        struct.pack(">H", 0x8000 + chance.randrange(9999)) + bytes((chance.randrange(100),)),
        bytes((chance.choice((1, 2, 0)),)),
        chance.choice((b"\4abcd", b"\2ab")),
    )
    return bytes((nulls,)) + b"".join(value for place, value in enumerate(values) if not nulls >> place & 1)


def damaged_file(chance: random.Random) -> bytes:
    """Three transactions, of which one has a rows event with other bytes."""
    writer, offsets = BinlogWriter(), []
    for number in range(3):
        writer.gtid(number + 1)
        writer.event(EventType.TABLE_MAP, described())
        kind = chance.choice((EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS))
        images = 2 if kind == EventType.UPDATE_ROWS else 1
        body = struct.pack("<IHH", 7, 0, 1) + struct.pack("<H", 2) + b"\6" + b"\x3f" * images
        for place in range(chance.randrange(1, 5)):
            body += b"".join(row(10 * number + place, chance) for _ in range(images))
        offsets.append(writer.event(kind, body))
        writer.commit()
    return with_changed_bytes(bytes(writer.rotate()), chance.choice(offsets), chance)


@pytest.mark.parametrize("files", [80, pytest.param(1000, marks=pytest.mark.long)])
def test_a_row_of_damaged_bytes_is_read_by_kernels_as_the_reference_decoder_reads_it_or_left_to_it(
    files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "archive").mkdir()
    seen = Counter[str]()
    for seed in range(files):
        (tmp_path / "archive" / "binlog.000001").write_bytes(damaged_file(random.Random(seed)))
        both = BothDecoders(tmp_path, monkeypatch)
        mixed, exact = both.read("binlog.000001", SCHEMA, ("id",))
        assert mixed == exact, seed
        seen["refused" if mixed.failure else "too large" if mixed.too_large else "bad" if mixed.facts.bad else "read"] += 1
        seen["by kernels"] += both.by_kernels
        seen["events"] += mixed.facts.events
    assert min(seen["bad"], seen["read"]) > files // 8, seen
    assert files < seen["by kernels"] < seen["events"] - files, seen
