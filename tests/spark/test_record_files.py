"""Records of archived files: the number of each line is exact, however Spark cuts the files, and bytes stay what they are."""

import base64
import bz2
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow
import pytest
from cdc_ops.formats.files.json_lines import RecordFile, count_lines, read_records
from cdc_ops.formats.registry import open_format
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdc_ops.core.events.change_feed import RECORD_COLUMNS
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.errors import ArchiveFileError
from cdc_ops.lake.spark.conf import FILE_PARTITIONS

CUT = "spark.sql.files.maxPartitionBytes"
CORES = "spark.sql.leafNodeDefaultParallelism"
"""What counts for Spark as the number of cores when it cuts files."""
NAMES = (
    "t/partition=0/t+0+0000000000.json",
    "t/partition=0/t+0+0000001000.json.gz",
    "t/partition=1/t+1+0000000007.json.bz2",
    "t/partition=1/t+1+0000000900.json.zst",
    "t/a b%20[1]{x}*\N{LATIN SMALL LETTER U WITH DIAERESIS}+.json",
)
START = {NAMES[0]: (0, 0), NAMES[1]: (0, 1000), NAMES[2]: (1, 7), NAMES[3]: (1, 900)}


def zstd(data: bytes) -> bytes:
    return pyarrow.compress(data, codec="zstd", asbytes=True)


WRITERS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "zst": zstd}


@pytest.fixture
def small_blocks(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(CUT, "512")
    yield
    spark.conf.unset(CUT)


def put(folder: Path, name: str, data: bytes) -> RecordFile:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(WRITERS.get(name.rpartition(".")[2], bytes)(data))
    partition, start = START.get(name, (None, None))
    return RecordFile(path=name, uri=str(path), size=path.stat().st_size, partition=partition, start_offset=start)


def lines(count: int, of: str) -> bytes:
    return b"".join(f'{{"n": {number}, "of": "{of}", "pad": "{"x" * (number % 90)}"}}\n'.encode() for number in range(count))


@pytest.mark.usefixtures("small_blocks")
def test_each_line_has_its_number_however_files_are_cut_and_compressed(spark: SparkSession, tmp_path: Path) -> None:
    sizes = dict(zip(NAMES, (211, 120, 300, 55, 97), strict=True))
    files = [put(tmp_path, name, lines(count, name)) for name, count in sizes.items()]
    counted = count_lines(spark, files)
    assert len(counted.places) > 3 * len(files)
    assert {one.path: one.lines for one in counted.files} == sizes
    assert [one.end_offset for one in counted.files] == [211, 1120, 307, 955, None]
    records = read_records(spark, files, counted)
    assert records.dtypes == list(RECORD_COLUMNS)
    found = records.selectExpr("get_json_object(value, '$.n') n", "get_json_object(value, '$.of') of", "*").collect()
    assert len(found) == sum(sizes.values())
    for row in found:
        partition, start = START.get(row.of, (None, None))
        assert (row.file, row.line, row.partition) == (row.of, int(row.n), partition)
        assert row.offset == (None if start is None else start + row.line)


def test_lines_that_were_cut_otherwise_when_they_were_counted_are_never_numbered(spark: SparkSession, tmp_path: Path) -> None:
    files = [put(tmp_path, f"t{number}.json", lines(40 + number, "t")) for number in range(4)]
    counted = count_lines(spark, files)
    spark.conf.set(CUT, "512")
    try:
        with pytest.raises(PySparkException, match="Spark split the file differently when it counted its lines"):
            read_records(spark, files, counted).collect()
    finally:
        spark.conf.unset(CUT)
    assert read_records(spark, files, counted).count() == sum(one.lines for one in counted.files)


def test_lines_keep_their_numbers_when_executors_come_and_go(spark: SparkSession, tmp_path: Path) -> None:
    """Spark cuts files by the cores that there are, unless it is told in how many parts."""
    chosen = spark.conf.get(FILE_PARTITIONS)
    assert chosen is not None
    files = [put(tmp_path, f"t{number}.json", lines(40 + number, "t")) for number in range(6)]
    try:
        spark.conf.set(CORES, "1")
        counted = count_lines(spark, files)
        for cores in ("2", "64"):
            spark.conf.set(CORES, cores)
            assert read_records(spark, files, counted).count() == sum(one.lines for one in counted.files)
        spark.conf.set(FILE_PARTITIONS, "1")  # what is cut otherwise is still refused
        with pytest.raises(PySparkException, match="Spark split the file differently"):
            read_records(spark, files, counted).collect()
    finally:
        spark.conf.unset(CORES)
        spark.conf.set(FILE_PARTITIONS, chosen)


def test_empty_lines_count_between_records_and_not_behind_them(spark: SparkSession, tmp_path: Path) -> None:
    texts = {
        "middle.json": b"{}\n\n\r\n[1]",
        "end.json": b"{}\r\n{}\n \t\n\n\r\n",
        "blank.json": b"\n\n",
        "none.json": b"",
        "none.json.gz": b"",
    }
    files = [put(tmp_path, name, data) for name, data in texts.items()]
    counted = count_lines(spark, files)
    assert [one.lines for one in counted.files] == [4, 2, 0, 0, 0]
    assert [one.blank for one in counted.files] == [2, 0, 0, 0, 0]
    found = read_records(spark, files, counted).orderBy("file", "line").collect()
    assert [(row.file, row.line, row.value.rstrip("\r")) for row in found] == [
        ("end.json", 0, "{}"),
        ("end.json", 1, "{}"),
        ("middle.json", 0, "{}"),
        ("middle.json", 1, ""),
        ("middle.json", 2, ""),
        ("middle.json", 3, "[1]"),
    ]


def test_bytes_stay_what_they_are(spark: SparkSession, tmp_path: Path) -> None:
    data = b'{"a": "\xff\xc3"}\n\xef\xbb\xbf{"a": 1}\n{"a": "\x00\xed\xa0\x80"}'
    files = [put(tmp_path, "t.json", b"{}\n" + data)]
    found = read_records(spark, files).where("line > 0").orderBy("line").selectExpr("hex(value) text").collect()
    assert [bytes.fromhex(row.text) for row in found] == data.split(b"\n")
    files = [put(tmp_path, "u.json", b'{"op": "d", "before": {"id": "\xff"}}\n{"op": "d", "before": {"id": "\xef\xbf\xbd"}}')]
    envelopes = open_format("debezium-mysql").envelopes(read_records(spark, files), FormatOptions(name="debezium-mysql"))
    garbled, clean = envelopes.orderBy("line").select("kind", "reason", "raw").collect()
    assert (garbled.kind, garbled.reason) == ("bad", "the record is not valid UTF-8; 'raw' has its bytes as base64")
    assert base64.b64decode(garbled.raw) == b'{"op": "d", "before": {"id": "\xff"}}'
    assert (clean.kind, clean.raw) == ("change", '{"op": "d", "before": {"id": "\N{REPLACEMENT CHARACTER}"}}')


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_half_of_a_compressed_file_fails_and_two_in_one_are_both_read(spark: SparkSession, tmp_path: Path, suffix: str) -> None:
    half = put(tmp_path, f"half.json.{suffix}", lines(500, "half"))
    whole = (tmp_path / half.path).read_bytes()
    (tmp_path / half.path).write_bytes(whole[: len(whole) // 2])
    with pytest.raises((PySparkException, Py4JJavaError), match="half"):
        count_lines(spark, [half])
    (tmp_path / half.path).write_bytes(whole + whole)
    assert count_lines(spark, [half]).files[0].lines == 1000


def test_a_file_that_was_emptied_meanwhile_is_no_empty_file(spark: SparkSession, tmp_path: Path) -> None:
    file = put(tmp_path, "t.json", b"{}\n")
    (tmp_path / "t.json").write_bytes(b"")
    with pytest.raises(ArchiveFileError, match=r"Spark found no data in t\.json"):
        count_lines(spark, [file])
