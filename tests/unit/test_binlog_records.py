"""Binlogs on their way into a pipeline: records of changes, and whether a file goes on where a table stands."""

import io
import json
import struct
from typing import Any

import pytest

from cdc_ops.core.archive.binlogs.binlog_facts import BinlogFacts
from cdc_ops.core.archive.files import ListedFile
from cdc_ops.core.archive.read_files import ReadFile
from cdc_ops.core.archive.watermarks import ArchiveWatermark, PartitionWatermark
from cdc_ops.core.binlog.event_stream import FileEnd
from cdc_ops.core.binlog.events import EventType
from cdc_ops.core.operation.binlog_order import transactions_after
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.errors import ArchiveOrderError
from cdc_ops.events.binlog.decoder import BinlogFile
from cdc_ops.events.binlog.texts import record_of
from tests.binlog_files import BinlogWriter, read_file


def records(writer: BinlogWriter) -> list[dict[str, Any]]:
    data = writer.rotate()
    opened = BinlogFile.open("binlog.000007", lambda: io.BytesIO(data))
    return [json.loads(record_of(change, 7)) for change in opened.changes()]


def statement(sql: str) -> dict[str, Any]:
    writer = BinlogWriter()
    writer.gtid(1, flags=1)
    writer.query(sql)
    [record] = records(writer)
    return record


def test_a_record_has_its_place_its_transaction_and_its_values_as_texts() -> None:
    writer = BinlogWriter()
    writer.transaction(4, (2**64 - 1, None), (5, "ü"))
    first, second = records(writer)
    assert first == {
        **{"file_no": "7", "pos": str(writer.offsets[3]), "inner": "0", "row": "0", "gtid": "0-1-4", "micros": "1700000000000000"},
        **{"database": "shop", "table": "items", "kind": "change", "op": "c", "after": {"id": "18446744073709551615", "name": None}},
    }
    assert (second["row"], second["after"]) == ("1", {"id": "5", "name": "ü"})


def test_a_row_that_cannot_be_followed_exactly_is_bad_and_says_why() -> None:
    writer = BinlogWriter()
    writer.gtid(1)
    writer.table_map()
    head = struct.pack("<IHH", 7, 0, 0) + b"\2"
    writer.event(EventType.WRITE_ROWS_V1, head + b"\1" + b"\0" + struct.pack("<Q", 1))  # binlog_row_image=MINIMAL: no name
    writer.event(EventType.WRITE_ROWS_V1, head + b"\3" + b"\0" + struct.pack("<Q", 1) + b"\1\xff")
    writer.event(EventType.WRITE_ROWS_V1, head + b"\3" + b"\0" + struct.pack("<Q", 1) + b"\x09x")
    writer.commit()
    found = records(writer)
    assert [record["kind"] for record in found] == ["bad"] * 3
    for record, why in zip(found, ("binlog_row_image", "no text of utf8mb4: ff", "ends 8 bytes too early"), strict=True):
        assert why in record["reason"]


def test_statements_empty_tables_define_them_or_are_of_no_table() -> None:
    for sql, table in (
        ("TRUNCATE items", "shop.items"),
        ("truncate table `other`.`odd ``name` /* why */", "other.odd `name"),
    ):
        record = statement(sql)
        assert (record["kind"], record["op"], f"{record['database']}.{record['table']}") == ("change", "t", table)
    assert statement("CREATE TABLE a (b INT) START TRANSACTION")["sql"] == "CREATE TABLE a (b INT)"
    kinds = {
        sql: statement(sql)["kind"]
        for sql in ("ALTER TABLE a ADD b INT", "DROP DATABASE shop", "GRANT ALL ON *.* TO a", "CREATE TEMPORARY TABLE a (b INT)")
    }
    assert list(kinds.values()) == ["ddl", "ddl", "control", "control"]


def batch(gtids: str, *, number: int = 5, stream: str = "binlog") -> LogBatch:
    before = ArchiveWatermark(streams=(PartitionWatermark(stream=stream, to=(number, 0)),), gtids=gtids)
    archive = ArchiveConfig.of(url="/binlogs", format="mysql-binlog", layout="binlog")
    return LogBatch(
        archive=archive, url="/binlogs", files=tuple(ListedFile(path=f"binlog.00000{at}", size=1) for at in (5, 6)), before=before
    )


def file(number: int, before: str, after: str) -> ReadFile:
    facts = BinlogFacts(
        path=f"binlog.00000{number}",
        size=9,
        complete_to=9,
        end=FileEnd.ROTATE,
        next_name="",
        before=before,
        after=after,
        transactions=1,
    )
    return read_file(facts)


FILES = (file(6, "server 1; 0-1-9", "server 1; 0-1-12"), file(5, "server 1; 0-1-7", "server 1; 0-1-9"))


def test_a_batch_goes_on_where_the_table_stands_and_carries_the_transactions_that_were_merged() -> None:
    for gtids in ("server 1; 0-1-7", ""):
        after = transactions_after(batch(gtids), FILES)
        assert after(("binlog.000005", "binlog.000006")) == "server 1; 0-1-12"
        assert after(("binlog.000005",)) == "server 1; 0-1-9"
        assert after(()) == gtids
    assert transactions_after(batch("server 1; 0-1-3", number=4), FILES)(()) == "server 1; 0-1-3"  # behind a gap that somebody accepted


def test_binlogs_of_another_server_or_with_other_transactions_stop_the_table() -> None:
    for stands in (batch("server 1; 0-1-6"), batch("server 2; 0-1-7"), batch("", stream="old/binlog")):
        with pytest.raises(ArchiveOrderError, match=r"binlog.000005 of /binlogs does not go on where the table stands"):
            transactions_after(stands, FILES)
