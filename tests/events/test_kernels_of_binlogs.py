"""Binlogs by kernels: where they begin, and that the rows which they leave are read by the reference decoder."""

import struct
from pathlib import Path
from typing import Any

import pytest

from cdc_ops.core.binlog.events import EventType
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.pipeline.tables.unknown_tables import KnownTables
from cdc_ops.core.schema.server_types.unsigned_bigints import too_large_column
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.events.scan import binlog
from cdc_ops.events.scan.request import TableTask, UnknownWatch
from cdc_ops.events.scan.tables import TableScan
from tests.binlog_files import BinlogWriter
from tests.events.scanned import Scans, changes_of

NAME = "binlog.000001"
IN_USE_AT = 4 + 17


@pytest.fixture
def scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scans:
    """Even the smallest binlog is read by kernels."""
    monkeypatch.setattr(binlog, "SMALL", 0)
    return Scans(tmp_path, FormatOptions(name="mysql-binlog"))


def items(stored: str = "decimal(20,0)", name: str = "items") -> TableSchema:
    columns = (("id", "bigint unsigned", stored), ("name", "varchar(20)", "string"))
    return TableSchema(
        table=TableName(schema="shop", name=name),
        columns=tuple(Column(name=one, source_type=kind, delta_type=to, nullable=True, expression=f"`{one}`") for one, kind, to in columns),
        primary_key=("id",),
    )


def write(scans: Scans, writer: BinlogWriter, *, in_use: bool = False) -> None:
    data = bytearray(writer.rotate())
    data[IN_USE_AT] |= in_use
    (scans.archive / NAME).write_bytes(data)


def changes(scans: Scans, task: TableTask) -> list[tuple[Any, ...]]:
    """Operation, key, and name after each change, in the order of places."""
    facts = scans.one(NAME, task)
    found = changes_of(task, [facts])
    rows = sorted(found.to_pylist() if found is not None else [], key=lambda row: tuple(row["position"].values()))
    return [(row["op"], int(row["key"]["id"]), row["after"] and row["after"]["name"]) for row in rows]


def by_kernels(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows kernels hand over, batch by batch."""
    seen: list[int] = []
    add = TableScan.add_plain

    def counted(scan: TableScan, rows: Any, moments: Any) -> None:
        seen.append(rows.num_rows)
        add(scan, rows, moments)

    monkeypatch.setattr(TableScan, "add_plain", counted)
    return seen


@pytest.mark.parametrize("in_use", [False, True])
def test_a_binlog_that_was_copied_while_it_was_open_is_read_by_kernels(scans: Scans, monkeypatch: pytest.MonkeyPatch, in_use: bool) -> None:
    writer = BinlogWriter()
    writer.transaction(1, (1, "one"), (2, None))
    write(scans, writer, in_use=in_use)
    seen = by_kernels(monkeypatch)
    assert changes(scans, scans.task(items())) == [("c", 1, "one"), ("c", 2, None)]
    assert sum(seen) == 2


def test_rows_that_kernels_leave_are_read_by_the_reference_decoder_each_once(scans: Scans, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = BinlogWriter()
    writer.transaction(1, (1, "one"), (2, "two"))
    writer.gtid(2)
    writer.table_map()
    writer.rows(EventType.UPDATE_ROWS_V1, (1, "one"), (1, "new"), (2, "two"), (3, "moved"), (4, "four"), (4, "last"))
    writer.commit()
    write(scans, writer)
    seen = by_kernels(monkeypatch)
    expected = [("c", 1, "one"), ("c", 2, "two"), ("u", 1, "new"), ("c", 3, "moved"), ("d", 2, None), ("u", 4, "last")]
    assert changes(scans, scans.task(items())) == expected
    assert sum(seen) == 4


def test_a_number_that_its_column_does_not_hold_is_told_of_its_table(scans: Scans) -> None:
    writer = BinlogWriter()
    writer.transaction(1, (1, "one"), (2**63, "large"))
    write(scans, writer)
    narrow, wide = (scans.one(NAME, scans.task(items(stored))) for stored in ("bigint", "decimal(20,0)"))
    assert (too_large_column(narrow.too_large), wide.too_large) == ("id", "")
    assert wide.found.events == 2


def test_rows_of_tables_that_nobody_names_are_counted_beside_those_that_kernels_read(scans: Scans, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = BinlogWriter()
    writer.transaction(1, (1, "one"), (2, "two"))
    write(scans, writer)
    seen = by_kernels(monkeypatch)
    for known, unknown in (("shop.others", (("shop.items", 2),)), ("shop.*", ())):
        watch = UnknownWatch(known=KnownTables(entries=(known,)), url=str(scans.archive))
        facts = scans.one(NAME, scans.task(items(name="others"), watch=watch))
        assert (facts.found.unknown, facts.found.events) == (unknown, 0)
    watch = UnknownWatch(known=KnownTables(entries=("shop.items", "shop.others")), url=str(scans.archive))
    others, own = scans.read(NAME, scans.task(items(name="others"), watch=watch), scans.task(items()))
    assert (others.found.unknown, own.found.events, seen) == ((), 2, [2])


def test_a_row_that_lacks_columns_is_set_aside_and_not_filled_from_the_image_before_it(scans: Scans) -> None:
    writer = BinlogWriter()
    writer.transaction(1, (1, "one"))
    writer.gtid(2)
    writer.table_map()
    before, after = b"\0" + struct.pack("<Q", 1) + b"\3one", b"\0" + b"\3new"
    writer.event(EventType.UPDATE_ROWS_V1, struct.pack("<IHH", 7, 0, 1) + b"\2" + b"\3" + b"\2" + before + after)
    writer.commit()
    write(scans, writer)
    facts = scans.one(NAME, task := scans.task(items()))
    assert (facts.found.events, facts.found.bad) == (1, 1)
    assert changes(scans, task) == [("c", 1, "one")]
