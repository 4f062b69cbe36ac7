"""Records of CSV, Parquet and Avro files: every row with the file and the place it has there, however it is quoted, cut or typed."""

import csv
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from cdc_ops.formats.files.avro import avro_records, open_avro
from cdc_ops.formats.files.csv import CsvDialect, csv_records
from cdc_ops.formats.files.json_lines import RecordFile, read_records
from cdc_ops.formats.files.parquet import open_parquet, parquet_records
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.archives.local import LocalArchive
from cdc_ops.dev.avro import MARK, avro_file
from cdc_ops.errors import ArchiveFileError

NASTY = (
    "",
    "plain",
    'a "quoted" word',
    '"',
    '""',
    "a,b",
    "two\nlines",
    'end"\n',
    "\r\n",
    "\x01\x02a",
    "\x02",
    "  spaced ",
    "NULL",
    "ü\u2028",
    "{}",
)


def put(folder: Path, name: str, data: bytes) -> RecordFile:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return RecordFile(path=name, uri=str(path), size=len(data), partition=1, start_offset=100)


def csv_bytes(rows: list[list[str]], delimiter: str = ",") -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def records_by_line(records: DataFrame) -> dict[tuple[str, int], Any]:
    rows = records.collect()
    assert len({(row.file, row.line) for row in rows}) == len(rows)
    return {(row.file, row.line): row.value for row in rows}


def test_rows_of_csv_are_those_that_pythons_reader_finds_each_at_its_line(spark: SparkSession, tmp_path: Path) -> None:
    rows = [[str(number), value, other] for number, value in enumerate(NASTY) for other in (NASTY[-number - 1], "x" * 300)]
    files = [
        put(tmp_path, "a/LOAD00000001.csv", csv_bytes([["id", "a name", "note"], *rows])),
        put(tmp_path, "b/LOAD00000001.csv", csv_bytes([["note", "id"], ["~", "1"], ["\\N", "2"]])),
        put(tmp_path, "c/LOAD00000001.csv", b'id,note\n1\n1,2,3\n1,\xff\n2,fine\n3,"open\n4,5\n'),
        put(tmp_path, "d/LOAD00000001.csv", b"id,id\n1,2\n"),
        put(tmp_path, "e/LOAD00000001.csv", b"id,note\n"),
        put(tmp_path, "f/LOAD00000001.csv", b"1,no names in this file\n"),
    ]
    spark.conf.set("spark.sql.files.maxPartitionBytes", "512")
    try:
        records = records_by_line(csv_records(read_records(spark, files), CsvDialect(null="\\N", missing="~", columns=("id",))))
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    line, expected = 1, {}
    for number, name, note in rows:
        expected["a/LOAD00000001.csv", line] = {"id": number, "a name": name, "note": note}
        line += 1 + f"{name}{note}".count("\n")
    expected["b/LOAD00000001.csv", 1], expected["b/LOAD00000001.csv", 2] = {"id": "1"}, {"note": None, "id": "2"}
    expected["c/LOAD00000001.csv", 4] = {"id": "2", "note": "fine"}
    broken = {key: value for key, value in records.items() if key not in expected}
    assert {key: json.loads(value) for key, value in records.items() if key in expected} == expected
    assert sorted(broken) == [
        *(("c/LOAD00000001.csv", line) for line in (1, 2, 3, 5)),
        ("d/LOAD00000001.csv", 1),
        ("f/LOAD00000001.csv", 0),
    ]
    assert broken["c/LOAD00000001.csv", 5] == '3,"open\n4,5'


def test_rows_of_parquet_have_their_place_and_no_columns_of_other_files(spark: SparkSession, tmp_path: Path) -> None:
    old = pyarrow.table(
        {
            "id": pyarrow.array(range(3000), pyarrow.int32()),
            "at": pyarrow.array([1_700_000_000_123_456] * 3000, pyarrow.timestamp("us", tz="UTC")),
            "code": pyarrow.array([b"ab\x00\xff"] * 3000, pyarrow.binary()),
            "amount": pyarrow.array([Decimal("1234567890123456789012345678.0123456789")] * 3000, pyarrow.decimal128(38, 10)),
        }
    )
    new = pyarrow.table({"id": pyarrow.array([1, 2], pyarrow.int64()), "big": pyarrow.array([2**64 - 1, None], pyarrow.uint64())})
    paths = {"shop/a [1]/LOAD00000001.parquet": old, "shop/a [1]/20240301-090000000.parquet": new, "shop/none.parquet": old.slice(0, 0)}
    files = []
    for name, table in paths.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(table, tmp_path / name, row_group_size=100)
        files.append(RecordFile(path=name, uri=str(tmp_path / name), size=(tmp_path / name).stat().st_size, partition=1, start_offset=100))
    opened = open_parquet(spark, files)
    assert [(one.path, one.lines) for one in opened.files] == [(name, table.num_rows) for name, table in paths.items()]
    spark.conf.set("spark.sql.files.maxPartitionBytes", "2048")
    try:
        rows = parquet_records(spark, opened).collect()
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    by_place = {(row.file, row.line): row for row in rows}
    assert len(by_place) == len(rows) == 3002
    load, changes, _ = paths
    for number in (0, 99, 100, 2999):
        assert (by_place[load, number].partition, by_place[load, number].offset) == (1, 100 + number)
    values = [json.loads(by_place[load, number].value) for number in range(3000)]
    assert [value["id"] for value in values] == list(range(3000))
    assert values[7] == {
        "id": 7,
        "at": "2023-11-14 22:13:20.123456",
        "code": "YWIA/w==",
        "amount": "1234567890123456789012345678.0123456789",
    }
    assert [json.loads(by_place[changes, line].value) for line in (0, 1)] == [{"id": 1, "big": str(2**64 - 1)}, {"id": 2, "big": None}]
    # A file that was replaced by a longer one meanwhile is not the one that was counted.
    pyarrow.parquet.write_table(pyarrow.concat_tables([new, new]), tmp_path / changes)
    spark.catalog.clearCache()
    with pytest.raises(PySparkException, match="was replaced after its rows were counted"):
        parquet_records(spark, opened).collect()


def test_records_of_avro_have_their_place_and_are_read_by_their_own_schema(spark: SparkSession, tmp_path: Path) -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2, "connect.name": "Decimal", "connect.parameters": {}}
    source = {"type": "record", "name": "Source", "fields": [{"name": "note", "type": ["null", "string"]}]}
    fields = [
        {"name": "n", "type": "long"},
        {"name": "amount", "type": ["null", decimal]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "share", "type": ["null", "double"]},
        {"name": "source", "type": ["null", source]},
    ]
    old = {"type": "record", "name": "r", "fields": fields, "connect.name": "r"}
    new = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "string"}, {"name": "kind", "type": _KIND}]}
    many = [{"n": 2**62 + n, "amount": b"\x80\x01", "at": 1, "day": -1, "share": "NaN", "source": {"note": 'é"'}} for n in range(3000)]
    contents = {
        "t/a [1]/t+1+0000000100.avro": avro_file(old, many, codec="deflate", per_block=7),
        "t/a [1]/t+1+0000003100.avro": avro_file(new, [{"n": "x", "kind": "B"}]),
        "t/t+1+0000003101.avro": avro_file(old, [{**many[0], "amount": None, "source": {"note": b"\xff"}}, many[1]], codec="zstandard"),
        "t/t+1+0000003103.avro": avro_file(old, []),
    }
    files = [put(tmp_path, name, content) for name, content in contents.items()]
    load, changes, garbled, _ = contents
    spark.conf.set("spark.sql.files.maxPartitionBytes", "4096")
    try:
        opened = open_avro(spark, files, LocalArchive(str(tmp_path)))
        records = avro_records(spark, opened)
        rows = records.collect()
        fine = {
            row.line: row.fine
            for row in records.where(F.col("file") == garbled).select("line", F.is_valid_utf8("value").alias("fine")).collect()
        }
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert [one.lines for one in opened.files] == [3000, 1, 2, 0]
    assert len({place.start for place in opened.places if place.file == load}) > 3
    by_place = {(row.file, row.line): row for row in rows}
    assert len(by_place) == len(rows) == 3003
    values = [json.loads(by_place[load, number].value) for number in range(3000)]
    assert [value["payload"]["n"] for value in values] == [2**62 + number for number in range(3000)]
    assert (by_place[load, 2999].partition, by_place[load, 2999].offset) == (1, 3099)
    expected = {"n": 2**62, "amount": "gAE=", "at": 1, "day": -1, "share": "NaN", "source": {"note": 'é"'}}
    assert values[0]["payload"] == expected
    assert [field.get("parameters") for field in values[0]["schema"]["fields"]][:2] == [None, {"scale": "2"}]
    assert json.loads(by_place[changes, 0].value) == {"n": "x", "kind": "B"}
    assert fine == {0: False, 1: True}  # text that is no UTF-8 is left as it is, so that the record becomes bad


_KIND = {"type": "enum", "name": "kind", "symbols": ["A", "B"]}


def test_a_damaged_avro_file_is_named_and_a_replaced_one_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}
    content = avro_file(schema, [{"n": n} for n in range(50)], per_block=5)
    first = put(tmp_path, "t+1+0000000100.avro", content)
    at = content.index(MARK, content.index(MARK) + len(MARK))
    damaged = put(tmp_path, "t+1+0000000150.avro", content[:at] + b"x" + content[at + 1 :])
    with pytest.raises(ArchiveFileError, match=r"t\+1\+0000000150\.avro cannot be read: .*sync"):
        open_avro(spark, [first, damaged], LocalArchive(str(tmp_path)))
    opened = open_avro(spark, [first], LocalArchive(str(tmp_path)))
    put(tmp_path, "t+1+0000000100.avro", content + content[-at:])
    with pytest.raises(PySparkException, match="Spark split the file differently when it counted its records"):
        avro_records(spark, opened).collect()
