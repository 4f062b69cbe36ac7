"""The fast lane for binlogs on changed bytes with right checksums: each record is plain or left to the exact way, and none is lost."""

import json
import random
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from cdc_ops.steps.log.plain.binlog_scan import scan_binlog
from cdc_ops.steps.log.plain.file_scan import FileTask, ScanTask

from cdc_ops.core.binlog.events import EventType
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.errors import CdcError
from cdc_ops.events.binlog.decoder import BinlogFile
from cdc_ops.events.binlog.files import open_binlog
from cdc_ops.events.binlog.texts import record_of, text_of_value
from tests.binlog_files import UTF8MB4, BinlogWriter
from tests.fast_binlogs import with_changed_bytes

FILES = 250
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


def records(folder: Path, parts: Any) -> list[dict[str, Any]]:
    return [found for part in parts for found in pq.read_table(folder / part.name).to_pylist()]


def place(record: dict[str, Any]) -> tuple[int, int, int]:
    return int(record["pos"]), int(record["inner"]), int(record["row"])


def assert_is_record(plain: dict[str, Any], record: dict[str, Any]) -> None:
    after = record.get("after")
    assert chr(plain["operation"]) == record["op"]
    assert str(plain["k0"]) == (after or record["before"])["id"]
    values = [text_of_value(plain[f"c{column}"]) for column, _ in enumerate(COLUMNS)]
    assert values == ([after[name] for name in COLUMNS] if after else [None] * len(COLUMNS))


def test_a_record_of_damaged_bytes_is_read_as_the_exact_way_reads_it_or_left_to_it(tmp_path: Path) -> None:
    task = ScanTask(
        url=str(tmp_path),
        options=(),
        format=FormatOptions(name="mysql-binlog"),
        schema=SCHEMA,
        keys=("id",),
        folder="",
        buckets=1,
        early=False,
    )
    seen = Counter[str]()
    for seed in range(FILES):
        data, folder = damaged_file(random.Random(seed)), tmp_path / f"staging-{seed}"
        folder.mkdir()
        (tmp_path / "binlog.000001").write_bytes(data)
        [scan] = scan_binlog((_into(task, folder),), [FileTask(path="binlog.000001", size=len(data))])
        try:
            file = BinlogFile.open("binlog.000001", open_binlog(str(tmp_path / "binlog.000001")))
            expected = {place(record): record for change in file.changes() for record in [json.loads(record_of(change, 1))]}
        except CdcError:
            assert scan.failure, seed
            seen["refused"] += 1
            continue
        if scan.failure:
            seen["left as a whole"] += 1
            continue
        left = [json.loads(record["value"]) for record in records(folder, scan.marked)]
        if any(record["kind"] == "bad" for record in expected.values()):  # the exact way reads all of the file then
            assert any(record["kind"] == "bad" for record in left), seed
            seen["bad"] += 1
            continue
        for record in left:
            assert expected.pop(place(record)) == record, seed
        for plain in records(folder, scan.plain):
            assert_is_record(plain, expected.pop((plain["p1"], plain["p2"], plain["p3"])))
            seen["plain rows"] += 1
        assert not expected, seed
        seen["read"] += 1
    assert seen["bad"] > FILES // 8, seen
    assert seen["read"] > FILES // 8, seen
    assert seen["plain rows"] > FILES, seen


def _into(task: ScanTask, folder: Path) -> ScanTask:

    return replace(task, folder=str(folder))
