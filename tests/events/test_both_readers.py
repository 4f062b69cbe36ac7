"""Plain Python reads files as Spark does: golden Avro files, and files of each kind that were made for it. Goes with Spark's readers."""

import datetime
import gzip
import json
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cdc_ops.formats.files.containers import open_files
from cdc_ops.formats.files.json_lines import RecordFile
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdc_ops.archives.local import LocalArchive
from cdc_ops.core.events.format_spec import Container, FormatOptions, FormatSpec
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.dev.avro import avro_file
from cdc_ops.events.records.files import open_records
from cdc_ops.testing.format_suite import GoldenFolder
from tests.events.archived import FORMATS, put, read

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "formats"
AVRO_FOLDERS = sorted(path.name for path in GOLDEN.iterdir() if format_spec(path.name).files.container is Container.AVRO)


def assert_alike(spark: SparkSession, root: Path, names: list[str], spec: FormatSpec, options: FormatOptions) -> int:
    """Compares records and counts of files; returns how many records there are."""
    archive = LocalArchive(str(root))
    files = [RecordFile(path=name, uri=str(root / name), size=(root / name).stat().st_size) for name in names]
    opened = open_files(spark, files, spec, options, archive)
    by_spark: dict[str, list[Any]] = {name: [] for name in names}
    for row in opened.records().select("file", "line", F.col("value").cast("binary").alias("value")).orderBy("file", "line").collect():
        by_spark[row.file].append((None if row.value is None else bytes(row.value), row.line))
    for file, counted in zip(files, opened.files, strict=True):
        found, count = read(open_records(spec.files.container, archive, file.path, file.size, spec, options))
        assert (count.lines, count.blank) == (counted.lines, counted.blank), file.path
        assert [(meaning(value), line) for value, line in found] == [(meaning(value), line) for value, line in by_spark[file.path]]
    return sum(map(len, by_spark.values()))


def meaning(value: bytes | None) -> Any:
    """A JSON document with the order of its members and all digits; numbers with an exponent by their value, blanks as no value."""
    try:
        return json.loads(value or b"", object_pairs_hook=tuple, parse_float=number, parse_int=str)
    except ValueError:
        return (value or b"").strip() or None


def number(text: str) -> str:
    """Java writes doubles from 10 million on, and small ones, with an exponent."""
    return repr(float(text)) if len(text) < 22 else text


@pytest.mark.parametrize("folder", AVRO_FOLDERS)
def test_golden_avro_files_are_read_alike(spark: SparkSession, tmp_path: Path, folder: str) -> None:
    spec = format_spec(folder)
    golden = GoldenFolder(GOLDEN / folder, Container.AVRO)
    written = sum(1 for _ in golden.records(tmp_path))
    names = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.avro"))
    assert assert_alike(spark, tmp_path, names, spec, golden.options) == written


def assert_files_alike(spark: SparkSession, root: Path, container: Container, names: list[str], **settings: str) -> int:
    options = FormatOptions(name=FORMATS[container], settings=settings)
    return assert_alike(spark, root, names, format_spec(options.name), options)


def test_avro_files_with_all_types_are_read_alike(spark: SparkSession, tmp_path: Path) -> None:
    part = {"type": "record", "name": "Part", "namespace": "a.b", "fields": [{"name": "x", "type": ["null", "double"]}]}
    choices = ["null", "int", "long", "string", "bytes", "float", "boolean", part, {"type": "array", "items": ["null", "string"]}]
    fields: list[dict[str, Any]] = [
        {"name": "v", "type": choices},
        {"name": "w", "type": ["null", "a.b.Part"]},
        {"name": "n", "type": ["null", "int", "long"]},
        {"name": "f", "type": ["float", "double"]},
        {"name": "l", "type": {"type": "array", "items": ["string", "null", "boolean"]}},
        {"name": "m", "type": {"type": "map", "values": ["null", "long"]}},
    ]
    rest: dict[str, Any] = {"w": None, "n": None, "f": {"double": 0.5}, "l": [], "m": {"k": None}}
    values = [{"int": 5}, {"long": 5}, {"string": "ü"}, {"bytes": "AP8="}, {"float": 0.1}, {"boolean": False}, None]
    values += [{"Part": {"x": None}}, {"array": ["a", None]}]
    rows = [{"v": value, **rest} for value in values]
    rows += [
        {"v": {"Part": {"x": math.nan}}, "w": {"x": 1.5}, "n": {"long": 2**40}, "f": {"float": 0.1}, "l": [None, {"string": "s"}], "m": {}}
    ]
    choices_file = put(tmp_path, "choices.avro", avro_file({"type": "record", "name": "r", "fields": fields}, rows, codec="snappy"))
    plain: list[dict[str, Any]] = [
        {"name": "f", "type": ["null", "float"]},
        {"name": "d", "type": "double"},
        {"name": "e", "type": {"type": "enum", "name": "kind", "symbols": ["A", "B"]}},
        {"name": "t", "type": "string"},
        {"name": "m", "type": {"type": "map", "values": {"type": "map", "values": "float"}}},
        {"name": "at", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    ]
    numbers = (0.1, 1e10, 3.4e38, 1e-30, math.nan, -math.inf, -0.0)
    texts = ("", '"\\/\x01\x1f\x7f', "\u2028😀", b"\xff", "x")
    rows = [{"f": one, "d": one, "e": "B", "t": text, "m": {"a": {"b": one}}, "at": 5} for one in numbers for text in texts]
    plain_file = put(tmp_path, "plain.avro", avro_file({"type": "record", "name": "r", "fields": plain}, rows, codec="xz", per_block=4))
    assert assert_files_alike(spark, tmp_path, Container.AVRO, [choices_file, plain_file]) == 10 + 35


def test_parquet_files_with_all_types_are_read_alike(spark: SparkSession, tmp_path: Path) -> None:
    us, utc = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
    row = pa.struct([("a", pa.int8()), ("t", utc), ("d", pa.decimal128(25, 9)), ("y", pa.binary()), ("l", pa.list_(pa.float32()))])
    table = pa.table(
        {
            "i": pa.array([1, None, -128], pa.int8()),
            "u": pa.array([2**64 - 1, 0, None], pa.uint64()),
            "f": pa.array([0.1, 1e10, math.nan], pa.float32()),
            "d": pa.array([0.1, -math.inf, 123456789.5]),
            "c": pa.array([Decimal("0E-10"), Decimal("12345678901234567890.5"), None], pa.decimal128(38, 10)),
            "t": pa.array(['"\\/\x01\x1f', "\u2028😀", None]),
            "b": pa.array([b"\xff", b"", None]),
            "day": pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
            "at": pa.array([-1, 253402300799999999, 253402300800000000], us),
            "seen": pa.array([-1, 1_700_000_000_123_456, None], utc),
            "row": pa.array([{"a": 1, "t": 1, "d": Decimal("12345678901234.5"), "y": b"a", "l": [0.1, None]}, None, {"a": None}], row),
            "map": pa.array([[("k", 1), ("l", None)], [], None], pa.map_(pa.string(), pa.int64())),
        }
    )
    garbled = pa.table({"id": pa.array([1, 2]), "a": pa.array([b"\xff", b"a"]).view(pa.string()), "b": pa.array(["x", None])})
    pq.write_table(table, tmp_path / "new.parquet", store_schema=False, row_group_size=2)
    pq.write_table(table.select(["seen"]), tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(garbled, tmp_path / "garbled.parquet")
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    names = ["new.parquet", "old.parquet", "garbled.parquet", "none.parquet"]
    assert assert_files_alike(spark, tmp_path, Container.PARQUET, names) == 3 + 3 + 2


def test_lines_are_read_alike(spark: SparkSession, tmp_path: Path) -> None:
    chosen, names, pieces = (
        random.Random(5),
        [],
        (b"\n", b"\n", b"{}", b" ", b"\r", b"\r\n", b'{"a": 1}', b"\xef\xbb\xbf", b"\xff", b"\x00"),
    )
    for number in range(40):
        data = b"".join(chosen.choices(pieces, k=chosen.randrange(1, 30)))
        compressed = number % 4 == 0
        names.append(put(tmp_path, f"{number}.json{'.gz' if compressed else ''}", gzip.compress(data) if compressed else data))
    assert assert_files_alike(spark, tmp_path, Container.LINES, names) > 100


def test_rows_of_csv_are_read_alike(spark: SparkSession, tmp_path: Path) -> None:
    chosen, names = random.Random(6), []
    pieces = ('"', '"', ",", ",", "\n", "\n", "a", "~", "\\N", "\x01", "\x02a", " ", '""', "\r\n", "ü", "id", '"a,b"')
    for number in range(60):
        body = "".join(chosen.choices(pieces, k=chosen.randrange(1, 60))).encode()
        head = chosen.choice((b"id,note\n", b"id,note,x\n", b"id\n", b"", b'"id",note\n', b"id,id\n"))
        names.append(put(tmp_path, f"t/LOAD{number:08}.csv", head + body + chosen.choice((b"", b"\xff\n1,2\n", b"\n1,2"))))
    settings = {"CsvNullValue": "\\N", "CsvNoSupValue": "~", "AR_H_CHANGE_SEQ": "id"}
    assert assert_files_alike(spark, tmp_path, Container.CSV, names, **settings) > 200
